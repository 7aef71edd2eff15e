"""A preview follows `renamedFrom` as the start does: with the same rule, for the same ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.app.tools import preview as preview_module
from dynamic_kafka.app.tools.preview import Preview, preview
from dynamic_kafka.app.tools.saved_query import SavedProgress
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.metadata.discovery_state import Discovered
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.state.checkpoints import Batches

NEW = SubscribedCluster({"t": "s"}, {"bootstrap.servers": "n:1"}, renamed_from="east")
START = OffsetDocument("q", 1, "x", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 5})}, "E")})
PARKED = {"new": ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 1}), 9)}, "N")}


def preview_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answering: str, parked: dict[str, ParkedCluster]
) -> Preview:
    """Preview a query whose pending batch reads `east`, while metadata names only `new`, renamed from it."""
    subscription = Subscription({"new": NEW}, ("s",))
    answers = {"new": ClusterObservation({"t": TopicObservation({0: 20})}, answering)}
    discovered = Discovered(subscription, Revision("hash"), 1)
    observed = LiveObservation(subscription, answers, discovered, {}, new_revision=True)
    monkeypatch.setattr(preview_module, "_observe", lambda *_: (observed, {}))
    clusters = {"east": ClusterProgress({"t": TopicProgress("s", {0: 9})}, "E")}
    end = OffsetDocument("q", 2, fingerprint(START), clusters=clusters, parked=parked)
    options = {
        "streamIds": "s",
        "metadataPath": "/streams.yaml",
        "stateLocation": str(folder),
        "clusterFailurePolicy": "stall",
    }
    return preview(parse_options(options, mode="streaming"), SavedProgress(Batches(1, 0), "0", START, end))


def test_a_hint_abandons_no_cluster_that_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The former rename is over: `new` is saved as a cluster of its own, and `east` was removed since
    seen = preview_of(tmp_path, monkeypatch, "W", PARKED)
    [hint] = [str(refusal.error) for refusal in seen.refusals if refusal.cluster == "new"]
    assert "saved Kafka cluster.id N" in hint and "accept app.yaml --identity new=W" in hint
    assert "abandon" not in hint
    assert seen.left_out is not None and seen.left_out.reasons == {"east": "removed"}


def test_a_refused_cluster_that_was_renamed_leaves_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = preview_of(tmp_path, monkeypatch, "W", {})
    [hint] = [str(refusal.error) for refusal in seen.refusals if refusal.cluster == "new"]
    assert "saved Kafka cluster.id E" in hint and "abandon app.yaml east" in hint
    assert seen.left_out is None, "the cluster answers, so it is not left out as unreachable"
