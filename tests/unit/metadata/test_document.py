from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamic_kafka.contract.kubernetes_names import REPORTED_STREAMS_BYTES
from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata import COMMITTED, EARLIEST, LATEST, OffsetSpec, document_hash, parse_document
from dynamic_kafka.metadata.model import Rendering

LIST_FORM = """\
- streamId: orders
  clusterMetadataList:
    - clusterId: east
      bootstrapServers: e1:9092,e2:9092
      topics: [orders, orders-retry]
      properties: {security.protocol: SASL_SSL, isolation.level: read_committed}
      startingOffsets: earliest
      stoppingOffsets: latest
      renamedFrom: us-east
"""

STREAMS = {
    "orders": {
        "clusters": {
            "east": {
                "bootstrapServers": "e1:9092",
                "topics": ["orders"],
                "secretFolder": "east",
                "state": "Draining",
            }
        }
    }
}


def rendered(**more: Any) -> dict[str, Any]:
    return {"contract": 1, "minReader": 1, "lineage": "6f1c", "revision": 17, "streams": STREAMS, **more}


def test_the_list_form_is_read_as_flinks_service_reads_it() -> None:
    document = parse_document(LIST_FORM, source="streams.yaml")

    east = document.streams["orders"].clusters["east"]
    assert east.topics == ("orders", "orders-retry")
    assert east.properties == {
        "bootstrap.servers": "e1:9092,e2:9092",
        "security.protocol": "SASL_SSL",
        "isolation.level": "read_committed",
    }
    assert (east.starting_offsets, east.stopping_offsets) == (EARLIEST, LATEST)
    assert east.renamed_from == "us-east"
    assert document.revision.counter is None


def test_the_plainest_list_form_needs_only_flinks_fields() -> None:
    text = "- streamId: s\n  clusterMetadataList:\n    - bootstrapServers: a:1, b:2\n      topics: [t]\n"

    clusters = parse_document(text, source="f").streams["s"].clusters

    assert list(clusters) == ["a:1,b:2"], "the cluster id defaults to the bootstrap servers"
    assert clusters["a:1,b:2"].bootstrap_servers == "a:1,b:2"


def test_the_mapping_form_has_revision_secret_folder_and_state() -> None:
    document = parse_document(json.dumps(rendered(hash=document_hash(STREAMS))), source="streams.json")

    east = document.streams["orders"].clusters["east"]
    assert (east.secret_folder, east.state) == ("east", "Draining")
    assert (document.revision.counter, document.revision.lineage) == (17, "6f1c")
    assert document.revision.hash == document_hash(STREAMS)


def test_the_operators_document_has_owner_and_draining_topics() -> None:
    streams: dict[str, Any] = json.loads(json.dumps(STREAMS))
    streams["orders"]["clusters"]["east"] |= {"state": "Active", "topics": ["orders", "old"], "drainingTopics": ["old"]}
    text = json.dumps(rendered(streams=streams, subscription="uid-1", drain={"orders": {"quietPeriod": "5m"}}))

    document = parse_document(text, source="f")

    east = document.streams["orders"].clusters["east"]
    assert (east.draining_topics, east.draining) == (("old",), {"old"})
    assert document.revision.token == "6f1c/17"
    assert document.revision.rendering == Rendering("uid-1")
    assert document.revision.rendering.streams == streams, "word for word, to make a lost document again"


def test_all_topics_of_a_draining_cluster_drain() -> None:
    document = parse_document(json.dumps(rendered()), source="f")
    assert document.streams["orders"].clusters["east"].draining == {"orders"}


def test_streams_too_large_for_a_report_are_not_kept() -> None:
    topics = [f"a-topic-with-a-longish-name-{n}" for n in range(REPORTED_STREAMS_BYTES // 28)]
    streams = {"s": {"clusters": {"e": {"bootstrapServers": "e:1", "topics": topics}}}}
    document = parse_document(json.dumps(rendered(streams=streams)), source="f")
    assert document.revision.rendering is not None
    assert document.revision.rendering.streams is None


@pytest.mark.parametrize("text", [LIST_FORM, json.dumps({"lineage": "l", "revision": 3, "streams": STREAMS})])
def test_a_users_document_has_no_rendering(text: str) -> None:
    assert parse_document(text, source="f").revision.rendering is None


def test_another_subscription_makes_revisions_unequal() -> None:
    one, other = (parse_document(json.dumps(rendered(subscription=uid)), source="f").revision for uid in ("a", "b"))
    assert (one.hash, one.token) == (other.hash, other.token)
    assert one != other


def test_a_users_mapping_form_needs_only_streams() -> None:
    document = parse_document("streams:\n  s: {clusters: {e: {bootstrapServers: 'e:1', topics: [t]}}}", source="f")
    assert list(document.streams) == ["s"]


@pytest.mark.parametrize(("text", "count"), [("[]", 0), ("streams: {}", 0), ("# none\n[]\n", 0)])
def test_an_empty_list_or_mapping_means_no_streams(text: str, count: int) -> None:
    assert len(parse_document(text, source="f").streams) == count


def test_a_stream_may_have_no_cluster_left() -> None:
    document = parse_document("- streamId: s\n  clusterMetadataList: []", source="f")
    assert document.streams["s"].clusters == {}


def test_yaml_and_json_of_one_content_are_one_document() -> None:
    text = json.dumps(yaml.safe_load(LIST_FORM))
    assert parse_document(text, source="f") == parse_document(LIST_FORM, source="f")


def test_both_forms_of_one_content_have_one_hash() -> None:
    mapping = {
        "streams": {"s": {"clusters": {"a": {"bootstrapServers": "a:1", "topics": ["t"], "startingOffsets": "latest"}}}}
    }
    as_list = (
        "- streamId: s\n  clusterMetadataList:\n"
        "    - {clusterId: a, topics: [t], bootstrapServers: 'a:1', startingOffsets: latest}"
    )
    ours, theirs = (parse_document(content, source="f") for content in (json.dumps(mapping), as_list))
    assert ours == theirs


def test_one_more_topic_changes_the_hash() -> None:
    one = parse_document(LIST_FORM, source="f").revision.hash
    other = parse_document(LIST_FORM.replace("[orders,", "[orders-dead, orders,"), source="f").revision.hash
    assert one != other


def test_a_rendered_document_of_a_newer_operator_is_read() -> None:
    streams = {"s": {"clusters": {"e": {"bootstrapServers": "e:1", "topics": ["t"], "new": 1}}, "alsoNew": [None]}}
    text = json.dumps(rendered(contract=2, streams=streams, hash=document_hash(streams), newest={}))
    assert list(parse_document(text, source="f").streams) == ["s"]


def test_a_document_for_newer_readers_is_refused_first() -> None:
    text = json.dumps({"contract": 4, "minReader": 4, "streamsInAnotherWay": []}, indent=1)
    with pytest.raises(MetadataInvalidError, match=r"f:3: minReader: .*contract 4.*update.*image") as caught:
        parse_document(text, source="f")
    assert len(caught.value.problems) == 1


def test_a_wrong_hash_means_hand_edited_or_half_written() -> None:
    with pytest.raises(MetadataInvalidError, match=r"hash: .*does not match .*remove `hash`"):
        parse_document(json.dumps(rendered(hash=document_hash({}))), source="f")


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("committed", COMMITTED),
        ("{timestamp: 2026-11-01T00:00:00Z}", OffsetSpec("timestamp", timestamp_ms=1793491200000)),
        ('{timestamp: "2026-11-01T01:00:00.5+01:00"}', OffsetSpec("timestamp", timestamp_ms=1793491200500)),
        ("{timestamp: 1793491200000}", OffsetSpec("timestamp", timestamp_ms=1793491200000)),
        ('{orders: {"0": 42, "1": -1}}', OffsetSpec("explicit", offsets={"orders": {0: 42, 1: -1}})),
        ("{orders: {0: -2}}", OffsetSpec("explicit", offsets={"orders": {0: -2}})),
    ],
)
def test_starting_offsets_in_every_form(written: str, meaning: OffsetSpec) -> None:
    text = LIST_FORM.replace("startingOffsets: earliest", f"startingOffsets: {written}")
    assert parse_document(text, source="f").streams["orders"].clusters["east"].starting_offsets == meaning


def test_a_topic_called_timestamp_is_still_a_topic() -> None:
    text = LIST_FORM.replace("[orders,", "[timestamp,").replace(": earliest", ": {timestamp: {0: 7}}")
    spec = parse_document(text, source="f").streams["orders"].clusters["east"].starting_offsets
    assert spec == OffsetSpec("explicit", offsets={"timestamp": {0: 7}})


def test_words_that_yaml_1_1_would_convert_stay_as_written() -> None:
    text = LIST_FORM.replace("[orders, orders-retry]", "[no, on, 0x1f, 1e, 2026-11-01]").replace(
        "{security.protocol: SASL_SSL,", "{client.id: 007, client.rack: 12:30, check.crcs: true,"
    )
    east = parse_document(text, source="f").streams["orders"].clusters["east"]
    assert east.topics == ("no", "on", "0x1f", "1e", "2026-11-01")
    assert east.properties["client.id"] == "007"
    assert east.properties["client.rack"] == "12:30"
    assert east.properties["check.crcs"] == "true"


def test_anchors_and_aliases_work() -> None:
    text = (
        "- streamId: a\n  clusterMetadataList: &both\n    - {bootstrapServers: 'a:1', topics: [t]}\n"
        "- streamId: b\n  clusterMetadataList: *both\n"
    )
    streams = parse_document(text, source="f").streams
    assert streams["a"].clusters == streams["b"].clusters


def test_merge_keys_give_what_a_mapping_lacks() -> None:
    merged = """\
- streamId: orders
  clusterMetadataList:
    - &east {clusterId: east, bootstrapServers: "e:1", topics: [orders]}
    - <<: *east
      clusterId: west
    - clusterId: north
      <<: [{topics: [own], bootstrapServers: "n:1"}, *east]
"""
    plain = """\
- streamId: orders
  clusterMetadataList:
    - {clusterId: east, bootstrapServers: "e:1", topics: [orders]}
    - {clusterId: west, bootstrapServers: "e:1", topics: [orders]}
    - {clusterId: north, bootstrapServers: "n:1", topics: [own]}
"""
    assert parse_document(merged, source="f").streams == parse_document(plain, source="f").streams
    twice = merged.replace("      clusterId: west", "      <<: *east\n      clusterId: west")
    with pytest.raises(MetadataInvalidError, match=r'f:5: .*"<<": duplicate key; keep'):
        parse_document(twice, source="f")


names = st.text("abcdefghij-_.0123456789", min_size=1, max_size=12).filter(lambda word: word.strip("."))
servers = st.lists(st.builds("{}:{}".format, st.sampled_from("abc"), st.integers(1, 65535)), min_size=1)
client_properties: dict[str, st.SearchStrategy[Any]] = {
    "client.id": st.text("xyz ", min_size=1),
    "check.crcs": st.booleans(),
    "fetch.min.bytes": st.integers(1, 1000),
}
wire_clusters = st.fixed_dictionaries(
    {
        "bootstrapServers": servers.map(",".join),
        "topics": st.lists(names, min_size=1, max_size=4, unique=True),
    },
    optional={
        "properties": st.fixed_dictionaries({}, optional=client_properties),
        "startingOffsets": st.sampled_from(["earliest", "latest", "committed", {"timestamp": 5}]),
        "secretFolder": names,
        "state": st.sampled_from(["Active", "Announced", "Draining"]),
    },
)
wire_streams = st.fixed_dictionaries({"clusters": st.dictionaries(names, wire_clusters, max_size=3)})


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(names, wire_streams, max_size=3))
def test_any_document_reads_the_same_from_json_and_yaml(streams: dict[str, Any]) -> None:
    as_json = json.dumps({"streams": streams})
    as_yaml = yaml.safe_dump({"streams": streams}, sort_keys=False)

    document = parse_document(as_json, source="f")

    assert document == parse_document(as_yaml, source="f")
    assert document.revision.hash == document_hash(streams)
    assert {name: set(stream.clusters) for name, stream in document.streams.items()} == {
        name: set(wire_stream["clusters"]) for name, wire_stream in streams.items()
    }


@settings(deadline=None, max_examples=150)
@given(st.one_of(st.text(max_size=200), st.text("-:[]{}&*!|>'\"#%, \n\tabstreamId0", max_size=120)))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        parse_document(text, source="f")
    except MetadataInvalidError as error:
        assert all(problem.startswith("f:") for problem in error.problems)


def big_document(megabytes: int) -> str:
    one = LIST_FORM.replace("streamId: orders", "streamId: orders-{n}")
    count = megabytes * 1_000_000 // len(one) + 1
    return "".join(one.replace("{n}", str(n)) for n in range(count))


def test_ten_megabytes_of_yaml_are_read_in_reasonable_time() -> None:
    text = big_document(10)
    began = time.thread_time()
    document = parse_document(text, source="f")
    assert len(document.streams) > 30_000
    # Measured at about 3 s on a core of a two-core machine. The time of other processes does not count.
    assert time.thread_time() - began < 15


def test_a_larger_document_is_refused_with_the_limit() -> None:
    with pytest.raises(MetadataInvalidError, match="larger than 32 MiB; split"):
        parse_document("#" + "x" * 33 * 2**20, source="f")


def test_reading_may_stop_at_committed_offsets() -> None:
    text = LIST_FORM.replace("stoppingOffsets: latest", "stoppingOffsets: committed")
    document = parse_document(text, source="streams.yaml")
    assert document.streams["orders"].clusters["east"].stopping_offsets == COMMITTED
