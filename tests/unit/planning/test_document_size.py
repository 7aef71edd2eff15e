"""An offset document of 10,000 splits stays small: progress events carry it up to three times a batch."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.reconcile import reconcile

LIMIT = 250_000


def document(starts: str, *, bounded: bool = False, clusters: int = 5, partitions: int = 2000) -> OffsetDocument:
    """10,000 splits at offsets of up to ten digits, no two alike, whose leaders have all moved differently often."""
    seed = 1
    chance = random.Random(seed)
    progress = {}
    for cluster in range(clusters):
        following = {p: chance.randrange(10**9, 10**10) for p in range(partitions)}
        start = {
            "none": {},
            "latest": dict(following),
            "earliest": dict.fromkeys(following, 0),
            "resumed": {p: offset - chance.randrange(10_000) for p, offset in following.items()},
            "anywhere": {p: chance.randrange(offset) for p, offset in following.items()},
        }[starts]
        epochs = {p: chance.randrange(50) for p in following}
        topic = TopicProgress("orders", following, topic_id="d4Gk8Zp2QmWvT1xYb7NcRg", epochs=epochs, starts=start)
        if bounded:
            topic = replace(topic, stops={p: offset + chance.randrange(10**10) for p, offset in following.items()})
        if starts in ("resumed", "anywhere"):
            topic = replace(topic, start_epochs={p: max(0, epoch - chance.randrange(2)) for p, epoch in epochs.items()})
        progress[f"cluster-{cluster}"] = ClusterProgress({"orders-of-a-region": topic}, "Mk3NTRjNDcwNTdENDM2Qk")
    return OffsetDocument("5f" * 16, 123_456, "9c" * 16, bounded, clusters=progress, state="e1" * 16)


@pytest.mark.parametrize("bounded", [False, True], ids=["streaming", "bounded"])
@pytest.mark.parametrize(
    "starts",
    ["none", "latest", "earliest", "resumed", "anywhere"],
    ids=["steady", "first at latest", "first at earliest", "all at once renamed or back", "first anywhere"],
)
def test_ten_thousand_splits_fit_as_spark_writes_them(starts: str, bounded: bool) -> None:
    made = document(starts, bounded=bounded)

    # Spark saves what json.dumps makes of it, spaces and all.
    text = json.dumps(encode(made))

    assert len(list(made.splits())) == 10_000
    assert len(text) <= LIMIT
    assert decode(text) == made


def test_parked_splits_cost_no_more_than_active_ones() -> None:
    named = {"cluster-0": SubscribedCluster({"orders-of-a-region": "orders"}, {})}
    parked = reconcile(document("none"), named, {}, now_ms=1_795_219_200_000, retention_ms=604_800_000).document

    assert sum(len(topic.progress.next) for kept in parked.parked.values() for topic in kept.topics.values()) == 8_000
    assert len(json.dumps(encode(parked))) <= LIMIT


@pytest.mark.parametrize("starts", ["none", "resumed"])
def test_ten_thousand_ended_splits_fit(starts: str) -> None:
    made = document(starts)
    ended = {
        name: replace(
            cluster, topics={name: replace(topic, ended=dict(topic.next)) for name, topic in cluster.topics.items()}
        )
        for name, cluster in made.clusters.items()
    }
    made = replace(made, clusters=ended, over=True)
    assert len(json.dumps(encode(made))) <= LIMIT
    assert decode(json.dumps(encode(made))) == made
