"""`accept --topic`: the change that the user saw is accepted, and the verdicts about it end no start any more."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, cast

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.tools import accept as accept_tool
from dynamic_kafka.app.tools import preview as preview_module
from dynamic_kafka.app.tools.preview import Preview, preview
from dynamic_kafka.app.tools.saved_query import SavedProgress
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.metadata.discovery_state import Discovered
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.sameness.integrity import TopicChange, standing
from dynamic_kafka.state.checkpoints import Batches
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change, saved_changes
from tests.unit.app_tools.saved_app import saved_app

OLD, FIRST, SECOND = "9tQ/vI2NQ+mPHLbQyJ0jXA", "AbCdEfGhIjKlMnOpQrStUQ", "/b+dEfGhIjKlMnOpQrStUQ"
TOPIC = f'{{"stream":"orders","partitions":1,"next":4,"id":"{OLD}"}}'
SAVED = (
    '{"version":2,"query":"q","number":1,"previous":"x","clusters":{"east":{"kafkaId":"K","topics":'
    f'{{"orders":{TOPIC}}}}}}}}}'
)
MISSING, RECREATED, AGAIN = (TopicChange("east", "orders", OLD, found) for found in ("", FIRST, SECOND))
PINNED = TopicChange("east", "orders", OLD, FIRST, pinned=True)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return saved_app(tmp_path, SAVED)


def state_of(app: Path) -> StateLocation:
    return StateLocation(str(app.parent / "checkpoint" / "out" / "dynamic-kafka"))


def look(monkeypatch: pytest.MonkeyPatch, *changed: TopicChange) -> None:
    """Let the tool find these changes when it asks the brokers."""
    previewed = Preview(
        observed=cast(Any, None),
        silent={},
        refusals=(),
        answering={},
        swapped={},
        pending=(),
        left_out=None,
        before=OffsetDocument(),
        changed=changed,
    )
    monkeypatch.setattr(accept_tool, "preview", lambda options, saved: previewed)


def stands(app: Path) -> list[TopicChange]:
    """Return the verdicts that end a start."""
    recorded, accepted = (saved_changes(state_of(app), "q", kind).values() for kind in ("verdict", "accepted"))
    clusters = {"east": SubscribedCluster({"orders": "orders"}, {})}
    return standing(recorded, accepted, clusters, decode(SAVED))


@pytest.mark.parametrize(
    "given", [(), *(("--topic", f"east/orders{suffix}") for suffix in ("", f"={shown_topic_id(SECOND)}", f"={SECOND}"))]
)
def test_one_acceptance_covers_the_verdicts_before_it(
    app: Path, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic that was noticed as missing, then as re-created, and that is another one again now
    for verdict in (MISSING, RECREATED):
        save_change(state_of(app), "q", "verdict", verdict)
    look(monkeypatch, MISSING, RECREATED, AGAIN)
    assert stands(app) == [MISSING, RECREATED]

    assert main(["accept", str(app), *given, "--yes"]) == 0
    assert stands(app) == []
    # A deletion that happens now is not among them
    assert set(saved_changes(state_of(app), "q", "accepted").values()) == {RECREATED, AGAIN}


@pytest.mark.parametrize(("topic_id", "changed"), [(OLD, ()), (None, (MISSING,))])
def test_a_topic_that_is_back_is_not_accepted_as_missing(
    app: Path, topic_id: str | None, changed: tuple[TopicChange, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a verdict that the topic is missing, and what a broker answers now
    save_change(state_of(app), "q", "verdict", MISSING)
    subscription = Subscription({"east": SubscribedCluster({"orders": "orders"}, {})}, ("orders",))
    there = {} if topic_id is None else {"orders": TopicObservation({0: 9}, topic_id=topic_id)}
    answers = {"east": ClusterObservation(there, "K")}
    observed = LiveObservation(subscription, answers, Discovered(subscription, Revision("hash"), 1), {}, True)
    monkeypatch.setattr(preview_module, "_observe", lambda *_: (observed, {}))
    options = {"streamIds": "orders", "metadataPath": "/s.yaml", "stateLocation": state_of(app).uri}
    logged = decode(SAVED)
    seen = preview(parse_options(options, mode="streaming"), SavedProgress(Batches(1, 1), "0", logged, None))
    assert seen.changed == changed
    # The preview withdraws nothing: that is left to the start
    assert saved_changes(state_of(app), "q", "verdict")


@pytest.mark.parametrize(
    ("text", "found", "reason"),
    [
        ("east/orders", (), "it has not changed (no topic has changed)"),
        ("east/refunds", (RECREATED,), "it has not changed ([TOPIC_CHANGED cluster=east topic=orders id="),
        (
            f"east/orders={OLD}",
            (RECREATED,),
            "it did not change to this id ([TOPIC_CHANGED cluster=east topic=orders id=",
        ),
        ("east/orders", (PINNED,), "only metadata accept another one"),
    ],
)
def test_nothing_but_the_present_change_is_accepted(
    app: Path, text: str, found: tuple[TopicChange, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(monkeypatch, *found)
    printed = io.StringIO()
    with redirect_stderr(printed):
        assert main(["accept", str(app), "--topic", text, "--yes"]) == 2
    assert reason in printed.getvalue()
    assert saved_changes(state_of(app), "q", "accepted") == {}


def test_a_checkpoint_alone_has_only_recorded_verdicts(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = ["--state-location", state_of(app).uri]
    command = ["accept", str(app.parent / "checkpoint" / "out"), *location, "--topic", "east/orders", "--yes"]
    assert main(command) == 2
    refusal = capsys.readouterr().err
    assert "no run has recorded" in refusal and "give app.yaml" in refusal
    save_change(state_of(app), "q", "verdict", RECREATED)
    assert main(command) == 0
    assert stands(app) == []
