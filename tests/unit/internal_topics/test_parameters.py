"""`InitParameters`: every parameter of KIP-698, with its getter; and the time-out of the command `init`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.internal_topics import InitParameters
from dynamic_kafka.app.tools import init as tool
from tests.unit.internal_topics.test_declarations import APP, TOPICS


def getters(parameters: InitParameters) -> tuple[bool, bool, bool]:
    return (
        parameters.setup_repartition_topics_if_incomplete_enabled,
        parameters.setup_changelog_topics_if_incomplete_enabled,
        parameters.setup_internal_topics_if_incomplete_enabled,
    )


def test_nothing_is_completed_by_default() -> None:
    assert getters(InitParameters()) == (False, False, False)


def test_each_kind_is_enabled_and_disabled_by_itself() -> None:
    repartition = InitParameters().enable_setup_repartition_topics_if_incomplete()
    assert getters(repartition) == (True, False, False)
    both = repartition.enable_setup_changelog_topics_if_incomplete()
    assert getters(both) == (True, True, False)
    assert getters(both.disable_setup_repartition_topics_if_incomplete()) == (False, True, False)
    assert getters(both.disable_setup_changelog_topics_if_incomplete()) == (True, False, False)


def test_all_kinds_are_enabled_and_disabled_together() -> None:
    every = InitParameters().enable_setup_internal_topics_if_incomplete()
    assert getters(every) == (True, True, True)
    assert every.completes("deadLetters")
    assert getters(every.disable_setup_changelog_topics_if_incomplete()) == (True, False, False)
    assert getters(every.disable_setup_internal_topics_if_incomplete()) == (False, False, False)


def test_parameters_do_not_change() -> None:
    nothing = InitParameters()
    nothing.enable_setup_internal_topics_if_incomplete()
    assert getters(nothing) == (False, False, False)


def test_a_time_out_without_a_unit_is_not_taken_for_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "init", lambda *_, **__: pytest.fail("the set-up must not begin"))
    (tmp_path / "app.yaml").write_text(APP + "  cluster: east\n" + TOPICS)
    assert main(["init", str(tmp_path / "app.yaml"), "--timeout", "90"]) == 2
    assert "--timeout is '90'; it must be at least 1s; a number without a unit means" in capsys.readouterr().err
