"""The rule that decides what starts the next driver, as a table."""

from __future__ import annotations

from typing import get_args

import pytest

from kafkastream_operator.core.application import ALIVE, Application, Life
from kafkastream_operator.core.starter import Starter, next_starter
from kafkastream_operator.models.subscription import Strategy

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
LIVES: tuple[Life, ...] = get_args(Life)


def app(life: Life, *, kubeflow: bool = True) -> Application:
    """Return an application of either kind in this state."""
    return Application("app-uid", "1", life, restarts_itself=kubeflow)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("life", LIVES)
def test_the_operator_starts_nothing_for_other_reasons(life: Life, strategy: Strategy) -> None:
    expected = "SparkOperator" if life in ALIVE else "User"
    for kubeflow in (True, False):
        assert next_starter(app(life, kubeflow=kubeflow), strategy, ended=None) == expected
    assert next_starter(None, strategy, ended=None) == "User"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("life", ["Failing", "Failed"])
@pytest.mark.parametrize("paused", [True, False])
def test_nothing_starts_before_a_changed_topic_is_accepted(life: Life, strategy: Strategy, paused: bool) -> None:
    for kubeflow in (True, False):
        assert next_starter(app(life, kubeflow=kubeflow), strategy, ended=True, paused=paused) == "Nothing"


@pytest.mark.parametrize(
    ("life", "kubeflow", "strategy", "paused", "expected"),
    [
        ("Failed", True, "Auto", False, "Operator"),
        ("Failed", True, "Restart", False, "Operator"),
        ("Failed", True, "Auto", True, "OperatorAfterPause"),
        ("Failed", True, "Reload", False, "User"),
        ("Failed", True, "Reload", True, "User"),
        ("Failed", False, "Auto", False, "User"),
        ("Failed", False, "Restart", True, "User"),
        ("Failing", True, "Auto", False, "SparkOperator"),
        ("Failing", True, "Reload", True, "SparkOperator"),
        ("Failing", False, "Restart", False, "SparkOperator"),
    ],
)
def test_an_accepted_topic_is_started_by(
    life: Life, kubeflow: bool, strategy: Strategy, paused: bool, expected: Starter
) -> None:
    assert next_starter(app(life, kubeflow=kubeflow), strategy, ended=False, paused=paused) == expected
