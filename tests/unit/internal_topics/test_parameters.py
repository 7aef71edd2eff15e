"""The parameters of `init`: every one of KIP-698, and the time-out of the command."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.config.internal_topics import Kind
from dynamic_kafka.app.internal_topics import InitParameters
from dynamic_kafka.app.tools import init as tool
from tests.unit.internal_topics.test_declarations import APP, TOPICS


@pytest.mark.parametrize(
    ("parameters", "completed"),
    [
        (InitParameters(), set()),
        (InitParameters(setup_repartition_topics_if_incomplete=True), {"repartition"}),
        (InitParameters(setup_changelog_topics_if_incomplete=True), {"changelog"}),
        (InitParameters(setup_internal_topics_if_incomplete=True), {"repartition", "changelog", "deadLetters"}),
    ],
)
def test_each_parameter_completes_its_kinds(parameters: InitParameters, completed: set[str]) -> None:
    assert {kind for kind in get_args(Kind) if parameters.completes(kind)} == completed


def test_a_time_out_without_a_unit_is_not_taken_for_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "init", lambda *_, **__: pytest.fail("the set-up must not begin"))
    (tmp_path / "app.yaml").write_text(APP + "  cluster: east\n" + TOPICS)
    assert main(["init", str(tmp_path / "app.yaml"), "--timeout", "90"]) == 2
    shown = capsys.readouterr().err
    assert "--timeout is '90'; " in shown and "at least 1s" in shown and "without a unit" in shown
