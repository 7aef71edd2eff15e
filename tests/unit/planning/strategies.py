"""Hypothesis strategies for what planning is made of."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.column_codec import PACKED_FROM
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    Column,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation

IDS = st.sampled_from(["east", "west", "a b/c", "ü", '"', "0"])
OFFSETS = st.integers(0, 1 << 62)
HASHES = st.sampled_from(["0a1b", "9c", "d4"])
KAFKA_IDS = st.none() | st.sampled_from(["Mk", "Qx"])


def columns() -> st.SearchStrategy[Column]:
    """A number per partition: all of them, some of them, or the same for all."""
    same = st.builds(lambda count, offset: dict.fromkeys(range(count), offset), st.integers(1, 5), OFFSETS)
    many = st.builds(
        lambda count, gap, first, step: {p: first + p * p * step for p in range(count) if p != gap},
        st.integers(PACKED_FROM - 1, PACKED_FROM + 3),
        st.integers(-1, PACKED_FROM),
        OFFSETS,
        st.sampled_from([1, 90, 1 << 40]),
    )
    return st.dictionaries(st.integers(0, 5), OFFSETS, min_size=1, max_size=3) | same | many


@st.composite
def topics(draw: st.DrawFn) -> TopicProgress:
    following = draw(columns())
    some = st.sampled_from([{}, following]) | st.dictionaries(st.sampled_from(sorted(following)), OFFSETS, max_size=2)
    return TopicProgress(
        draw(IDS),
        following,
        topic_id=draw(st.none() | HASHES),
        epochs=draw(some),
        starts=draw(some),
        start_epochs=draw(some),
        stops=draw(some),
        ended=draw(some),
    )


@st.composite
def parked_topics(draw: st.DrawFn, until: st.SearchStrategy[int] = OFFSETS) -> ParkedTopic:
    topic = replace(draw(topics()), starts={}, start_epochs={})
    return ParkedTopic(topic, draw(until), awaited=draw(st.booleans()), missing=draw(st.booleans()))


def documents() -> st.SearchStrategy[OffsetDocument]:
    """Any offset document that a plan can have made, first ones excluded."""
    named = st.dictionaries(IDS, topics(), min_size=1, max_size=2)
    kept = st.dictionaries(IDS, parked_topics(), min_size=1, max_size=2)
    return st.builds(
        OffsetDocument,
        query=HASHES,
        number=st.integers(1, 10_000),
        previous=HASHES,
        bounded=st.booleans(),
        state=st.just("") | HASHES,
        clusters=st.dictionaries(IDS, st.builds(ClusterProgress, named, KAFKA_IDS), max_size=2),
        parked=st.dictionaries(IDS, st.builds(ParkedCluster, kept, KAFKA_IDS), max_size=2),
        explicit_ids=st.dictionaries(IDS, st.dictionaries(IDS, HASHES, min_size=1, max_size=2), max_size=2),
        used_acceptances=st.dictionaries(IDS, HASHES, max_size=2),
        clock_ms=st.none() | OFFSETS,
        announced=st.dictionaries(IDS, OFFSETS, max_size=2),
    )


def wanted() -> st.SearchStrategy[dict[str, SubscribedCluster]]:
    """Clusters that metadata may name."""
    topics = st.dictionaries(IDS, IDS, min_size=1, max_size=3)
    return st.dictionaries(
        IDS, st.builds(SubscribedCluster, topics, st.just({}), renamed_from=st.none() | IDS), max_size=3
    )


def observations(named: dict[str, SubscribedCluster]) -> st.SearchStrategy[dict[str, ClusterObservation]]:
    """Answers of some of the named clusters."""
    topic = st.builds(TopicObservation, columns(), topic_id=st.none() | HASHES)
    if not named:
        return st.just({})
    answers = st.dictionaries(st.sampled_from(sorted(named)), st.dictionaries(IDS, topic, max_size=3))
    return answers.map(
        lambda found: {
            cluster: ClusterObservation(
                {name: seen for name, seen in all_seen.items() if name in named[cluster].topics}
            )
            for cluster, all_seen in found.items()
        }
    )
