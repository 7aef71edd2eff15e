"""An application that ended for a changed topic ends before Spark starts, until the change is accepted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dynamic_kafka.app import run
from dynamic_kafka.app.cli import main
from dynamic_kafka.app.query import start_checks
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.planning.sameness.integrity import TopicChange, integrity_error
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change
from tests.unit.app_tools.saved_app import saved_app

OLD, NEW = "9tQ/vI2NQ+mPHLbQyJ0jXA", "AbCdEfGhIjKlMnOpQrStUQ"
CHANGE = TopicChange("east", "orders", OLD, NEW)
SAVED = {
    "version": 3,
    "query": "q",
    "number": 1,
    "previous": "x",
    "clusters": {
        "east": {"kafkaId": "K", "topics": {"orders": {"stream": "orders", "partitions": 1, "next": 4, "id": OLD}}}
    },
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An application with a checkpoint, whose Spark would fail at once; no topic has its old id any more."""

    def start(*_: object, **__: object) -> None:
        (tmp_path / "started").touch()
        raise RuntimeError("Spark")

    monkeypatch.setattr(run, "start_session", start)
    monkeypatch.setattr(start_checks, "topics_with_ids", lambda *_: frozenset())
    describe(tmp_path)
    return saved_app(tmp_path, json.dumps(SAVED))


def describe(folder: Path, **more: object) -> None:
    east = {"clusterId": "east", "bootstrapServers": "e1:9092", "topics": ["orders"], **more}
    (folder / "streams.yaml").write_text(json.dumps([{"streamId": "orders", "clusterMetadataList": [east]}]))


def starts_spark(app: Path) -> bool:
    main(["run", str(app)])
    return (app.parent / "started").exists()


def state_of(app: Path) -> StateLocation:
    return StateLocation(str(app.parent / "checkpoint" / "out" / "dynamic-kafka"))


def test_a_rerun_ends_before_spark_with_the_same_words(app: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save_change(state_of(app), "q", "verdict", CHANGE)
    assert main(["run", str(app)]) == 9
    assert f"TopicIntegrityError: {integrity_error([CHANGE])}" in capfd.readouterr().err
    assert not starts_spark(app)


def test_without_a_verdict_spark_starts(app: Path) -> None:
    assert starts_spark(app)


def test_the_new_id_in_the_metadata_lets_spark_start(app: Path) -> None:
    save_change(state_of(app), "q", "verdict", CHANGE)
    describe(app.parent, topicIds={"orders": NEW})
    assert starts_spark(app)


def test_an_acceptance_of_the_tool_lets_spark_start(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_change(state_of(app), "q", "verdict", CHANGE)
    checkpoint = app.parent / "checkpoint" / "out"
    location = ["--state-location", str(checkpoint / "dynamic-kafka")]
    assert main(["accept", str(checkpoint), *location, "--topic", f"east/orders={NEW}", "--yes"]) == 0
    assert "read from its first record" in capsys.readouterr().out
    assert starts_spark(app)


@pytest.mark.parametrize(("pin", "stands"), [(OLD, True), (NEW, False)])
def test_a_first_start_obeys_a_verdict_about_its_pin(
    app: Path, pin: str, stands: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    # Given no batch yet, and a first start that has found the pinned topic re-created
    shutil.rmtree(app.parent / "checkpoint" / "out" / "offsets")
    change = TopicChange("east", "orders", OLD, NEW, pinned=True)
    save_change(state_of(app), "", "verdict", change)

    # Then the next one ends before Spark starts, as long as metadata pin the same id
    describe(app.parent, topicIds={"orders": shown_topic_id(pin)})
    assert starts_spark(app) != stands
    assert (f"TopicIntegrityError: {integrity_error([change])}" in capfd.readouterr().err) == stands


def test_a_checkpoint_that_cannot_be_read_is_left_to_the_query(app: Path) -> None:
    (app.parent / "checkpoint" / "out" / "offsets" / "0").write_text("v1\n{}\n{")
    assert starts_spark(app)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("east/payments", "no run has recorded such a change"),
        (f"east/orders={OLD}", "no run has recorded such a change"),
        ("east/pinned", "metadata pin the id, and only metadata accept another one"),
    ],
)
def test_only_a_recorded_change_can_be_accepted(
    app: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_change(state_of(app), "q", "verdict", CHANGE)
    save_change(state_of(app), "q", "verdict", TopicChange("east", "pinned", OLD, NEW, pinned=True))
    checkpoint = app.parent / "checkpoint" / "out"
    location = ["--state-location", str(checkpoint / "dynamic-kafka")]
    assert main(["accept", str(checkpoint), *location, "--topic", text, "--yes"]) == 2
    assert why in capsys.readouterr().err
