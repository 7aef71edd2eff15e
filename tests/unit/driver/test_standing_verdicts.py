"""A start after a verdict about a topic: it replaces no driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.errors import TopicIntegrityError
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.sameness.integrity import TopicChange, integrity_error
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change

CHANGE = TopicChange("east", "t", "old", "new")
EAST = {"clusterId": "east", "bootstrapServers": "127.0.0.1:1", "topics": ["t"]}


@pytest.mark.parametrize("pending", [False, True])
def test_a_start_that_a_verdict_ends_replaces_no_driver(
    tmp_path: Path, pending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynamic_kafka.driver.enumerator.topics_with_ids", lambda *_: frozenset())
    state = StateLocation(str(tmp_path))
    save_change(state, "q", "verdict", CHANGE)
    document = json.dumps([{"streamId": "s", "clusterMetadataList": [EAST]}])
    given = {"streamIds": "s", "metadataService": "static", "metadataDocument": document}
    enumerator = Enumerator(parse_options({**given, "stateLocation": str(tmp_path)}, mode="streaming"))
    clusters = {"east": ClusterProgress({"t": TopicProgress("s", {0: 4}, topic_id="old")}, "Mk")}
    saved = encode(OffsetDocument("q", 1, "", clusters=clusters))
    try:
        with pytest.raises(TopicIntegrityError) as ended:
            enumerator.tasks(saved, saved) if pending else enumerator.latest(saved)
    finally:
        enumerator.stop()
    assert str(ended.value) == str(integrity_error([CHANGE]))
    assert state.drivers("q") == []


@pytest.mark.parametrize(("failures", "frozen", "looks"), [(1, False, 1), (2, False, 1), (1, True, 0)])
def test_a_plan_looks_for_newer_metadata_once(
    failures: int, frozen: bool, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The pin to the new id may have been written together with the new topic
    document = json.dumps([{"streamId": "s", "clusterMetadataList": [EAST]}])
    given = {"streamIds": "s", "metadataService": "static", "metadataDocument": document}
    enumerator, asked = Enumerator(parse_options(given, mode="streaming")), []
    left = [integrity_error([CHANGE])] * failures

    def plan(*_: object) -> str:
        if left:
            raise left.pop()
        return "planned"

    enumerator.observer.newest_metadata()
    assert enumerator.observer._discovery is not None
    monkeypatch.setattr(enumerator.observer, "observe", lambda *_, **__: None)
    monkeypatch.setattr(enumerator.observer._discovery, "refresh", lambda: asked.append("refresh"))
    monkeypatch.setattr(enumerator.observer._discovery, "reconsider", lambda: asked.append("reconsider"))
    monkeypatch.setattr(enumerator, "_plan_observed", plan)
    if frozen:
        enumerator.observer.freeze()
    try:
        if failures > 1 or frozen:
            with pytest.raises(TopicIntegrityError):
                enumerator._plan(OffsetDocument(), False)
        else:
            assert str(enumerator._plan(OffsetDocument(), False)) == "planned"
    finally:
        enumerator.stop()
    assert asked == ["reconsider", "refresh"] * looks
