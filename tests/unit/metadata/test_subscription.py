from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic_kafka.errors import MetadataConflictError
from dynamic_kafka.metadata import EARLIEST, LATEST, ClusterMetadata, OffsetSpec, unite
from tests.unit.metadata.fakes import cluster, stream


def test_a_stream_spans_topics_on_several_clusters() -> None:
    orders = stream("orders", east=cluster("a", "b"), west=cluster("a", servers="w:1"))

    subscription = unite([orders])

    assert subscription.stream_ids == ("orders",)
    assert {name: list(united_cluster.topics) for name, united_cluster in subscription.clusters.items()} == {
        "east": ["a", "b"],
        "west": ["a"],
    }
    assert subscription.clusters["west"].bootstrap_servers == "w:1"


def test_topics_of_two_streams_on_one_cluster_are_united() -> None:
    subscription = unite([stream("b", east=cluster("y", "shared")), stream("a", east=cluster("x", "shared"))])
    assert subscription.clusters["east"].topics == {"x": "a", "y": "b", "shared": "a"}


@given(st.permutations(["a", "b", "c", "d"]))
def test_a_shared_topic_belongs_to_the_first_stream_id(order: list[str]) -> None:
    streams = [stream(name, east=cluster("shared", name)) for name in order]

    subscription = unite(streams)

    assert subscription.clusters["east"].topics["shared"] == "a"
    assert subscription.fingerprint == unite(sorted(streams, key=lambda member: member.stream_id)).fingerprint


BASE = cluster("t", properties={"client.id": "x"}, starting_offsets=EARLIEST, secret_folder="s", renamed_from="o")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (replace(BASE, properties={**BASE.properties, "bootstrap.servers": "e2:1"}), "bootstrapServers"),
        (replace(BASE, properties={**BASE.properties, "client.id": "y"}), "properties.client.id"),
        (replace(BASE, properties={"bootstrap.servers": "e1:9092"}), "properties.client.id"),
        (replace(BASE, starting_offsets=LATEST), "startingOffsets"),
        (replace(BASE, starting_offsets=None), "startingOffsets"),
        (replace(BASE, stopping_offsets=LATEST), "stoppingOffsets"),
        (replace(BASE, secret_folder="r"), "secretFolder"),
        (replace(BASE, renamed_from=None), "renamedFrom"),
    ],
)
def test_streams_that_disagree_about_a_cluster_are_refused(other: ClusterMetadata, named: str) -> None:
    with pytest.raises(MetadataConflictError) as caught:
        unite([stream("orders", east=BASE), stream("payments", east=other)])

    assert "'orders' and 'payments' disagree" in str(caught.value)
    assert f"cluster 'east': {named} differ;" in str(caught.value)


def test_all_disagreements_are_reported_at_once() -> None:
    with pytest.raises(MetadataConflictError) as caught:
        unite(
            [
                stream("a", east=cluster("t"), west=cluster("t")),
                stream("b", east=cluster("t", servers="x:1"), west=cluster("t", servers="x:1")),
            ]
        )
    assert len(caught.value.problems) == 2


def test_the_order_of_bootstrap_servers_is_no_disagreement() -> None:
    unite(
        [
            stream("a", east=cluster("t", servers="e1:1,e2:1")),
            stream("b", east=cluster("t", servers="e2:1,e1:1")),
        ]
    )


def explicit(**offsets: int) -> OffsetSpec:
    return OffsetSpec("explicit", offsets={topic: {0: offset} for topic, offset in offsets.items()})


def test_each_stream_may_give_offsets_of_its_own_topics() -> None:
    subscription = unite(
        [
            stream("a", east=cluster("x", "s", starting_offsets=explicit(x=1, s=5))),
            stream("b", east=cluster("y", "s", starting_offsets=explicit(y=2, s=5))),
        ]
    )
    assert subscription.clusters["east"].starting_offsets == explicit(x=1, s=5, y=2)


def test_different_offsets_of_a_shared_topic_are_refused() -> None:
    with pytest.raises(MetadataConflictError, match="startingOffsets differ"):
        unite(
            [
                stream("a", east=cluster("s", starting_offsets=explicit(s=5))),
                stream("b", east=cluster("s", starting_offsets=explicit(s=6))),
            ]
        )


def test_a_cluster_drains_only_if_every_stream_drains_it() -> None:
    draining, active = cluster("t", state="Draining"), cluster("t")

    assert unite([stream("a", e=draining), stream("b", e=active)]).clusters["e"].state == "Active"
    assert unite([stream("a", e=draining), stream("b", e=draining)]).clusters["e"].state == "Draining"


@pytest.mark.parametrize("state", ["Draining", "Active", "Announced"])
@pytest.mark.parametrize("announces_first", [True, False])
def test_a_cluster_is_announced_if_any_stream_announces_it(state: str, announces_first: bool) -> None:
    streams = [stream("a", e=cluster("t", state="Announced")), stream("b", e=cluster("t", state=state))]
    if not announces_first:
        streams = [replace(streams[1], stream_id="a"), replace(streams[0], stream_id="b")]
    assert unite(streams).clusters["e"].state == "Announced"


def test_a_topic_drains_only_if_all_its_streams_drain_it() -> None:
    streams = [
        stream("a", e=cluster("x", "shared", "both", "mine", draining_topics=("shared", "both", "mine"))),
        stream("b", e=cluster("shared", "both", draining_topics=("both",))),
        stream("c", e=cluster("both", "all", state="Draining")),
    ]
    for order in (streams, streams[::-1]):
        merged = unite(order).clusters["e"]
        assert (merged.state, merged.draining) == ("Active", {"both", "mine", "all"})


def test_fingerprints_without_draining_stay_as_they_were() -> None:
    fingerprint = "sha256:3daf0ead4d3131de"
    assert unite([stream()]).fingerprint.startswith(fingerprint)


def test_a_cluster_cannot_be_renamed_from_one_still_read() -> None:
    with pytest.raises(MetadataConflictError, match="renamed from 'old', which is still read"):
        unite([stream("a", new=cluster("t", renamed_from="old")), stream("b", old=cluster("t"))])


def test_clusters_of_two_streams_cannot_be_renamed_from_one() -> None:
    with pytest.raises(MetadataConflictError, match=r"'n1' and 'n2'.*both renamed from 'old'"):
        unite(
            [
                stream("a", n1=cluster("t", renamed_from="old")),
                stream("b", n2=cluster("t", renamed_from="old")),
            ]
        )


@pytest.mark.parametrize(
    "other",
    [
        stream("orders", east=cluster("orders", "more")),
        stream("orders", west=cluster("orders")),
        stream("orders", east=cluster("orders", servers="x:1")),
        stream("orders", east=cluster("orders", starting_offsets=EARLIEST)),
        stream("orders", east=cluster("orders", state="Draining")),
        stream("orders", east=cluster("orders", draining_topics=("orders",))),
        stream("payments", east=cluster("orders")),
    ],
)
def test_any_change_changes_the_fingerprint(other: object) -> None:
    assert unite([stream()]).fingerprint != unite([other]).fingerprint  # type: ignore[list-item]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_draining_cluster_may_have_another_start(order: tuple[str, str]) -> None:
    reads = cluster("t", starting_offsets=LATEST, stopping_offsets=LATEST)
    drains = cluster("u", state="Draining", starting_offsets=EARLIEST)
    merged = unite([stream(order[0], east=reads), stream(order[1], east=drains)]).clusters["east"]
    assert (merged.starting_offsets, merged.stopping_offsets) == (LATEST, LATEST)
    assert (merged.state, merged.draining) == ("Active", frozenset({"u"}))
