"""Documents: how they are packed, which streams they have, and which forms of streams are held."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import DOCUMENT_KEY, PACKED_DOCUMENT_KEY, config_map_name
from dynamic_kafka.metadata.document import document_hash, parse_document
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.services.file import FileMetadataService
from kafkastream_operator.core import document as document_module
from kafkastream_operator.core.catalog import ConfigMapText, config_map_entries
from kafkastream_operator.core.document import MAX_BYTES, is_packed, make_document, pack, read_document, size
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import World, cluster, make_catalog, revision_of, running

STREAMS = {"orders": {"clusters": {"east": {"bootstrapServers": "e:9092", "topics": ["orders"]}}}}


def large(clusters: int) -> dict[str, object]:
    """Return streams of this many clusters with 200 topics each."""
    topics = [f"topic-{number:05d}" for number in range(200)]
    cluster_specs = {f"c{n}": {"bootstrapServers": f"host-{n}.example:9092", "topics": topics} for n in range(clusters)}
    return {"orders": {"clusters": cluster_specs}}


@pytest.mark.parametrize(("clusters", "key"), [(1, DOCUMENT_KEY), (60, PACKED_DOCUMENT_KEY)])
def test_operator_and_driver_read_a_document_as_packed(clusters: int, key: str, tmp_path: Path) -> None:
    document = make_document(
        Revision(lineage="l", counter=4), large(clusters), {"orders": {"quietPeriod": "1m"}}, "uid"
    )  # type: ignore[arg-type]
    data, binary = packed = pack(document)
    assert [*data, *binary] == [key]
    assert pack(document) == packed
    assert read_document(data, binary) == document

    raw = data[key].encode() if key in data else base64.b64decode(binary[key])
    (tmp_path / key).write_bytes(raw)
    service = FileMetadataService(tmp_path)
    assert [stream.stream_id for stream in service.get_all_streams()] == ["orders"]
    assert service.revision is not None
    assert (service.revision.lineage, service.revision.counter, service.revision.hash) == ("l", 4, document.hash)


def test_the_source_of_this_version_reads_what_is_rendered() -> None:
    world = running()
    world.stream("orders", cluster("west")).settle()
    assert world.document is not None
    document = parse_document(world.document.text(), source="rendered")
    states = {name: cluster_entry.state for name, cluster_entry in document.streams["orders"].clusters.items()}
    assert states == {"east": "Draining", "west": "Active"}


def test_an_announced_cluster_needs_readers_that_wait_for_it() -> None:
    old = {**cluster("old"), "state": "Announced"}
    world = running()
    world.stream("orders", cluster("east"), old).settle()
    assert world.document is not None
    wire = json.loads(world.document.text())
    assert (wire["contract"], wire["minReader"]) == (3, 3)
    assert wire["streams"]["orders"]["clusters"]["old"]["state"] == "Announced"
    # It stays announced while the stream cannot be read
    world.stream("orders", {**cluster("east"), "topics": []}, old).settle()
    assert json.loads(world.document.text())["streams"] == wire["streams"]


def test_a_config_map_announces_a_cluster() -> None:
    text = "[{streamId: orders, clusterMetadataList: [{clusterId: old, bootstrapServers: 'o:1', topics: [t],"
    entries, problem = config_map_entries(ConfigMapText("flink", {"a": text + " state: Announced}]}]"}))
    assert not problem
    assert entries[0].content == {
        "clusters": {"old": {"bootstrapServers": "o:1", "topics": ["t"], "state": "Announced"}}
    }


def test_other_compressed_bytes_of_one_text_are_no_edit() -> None:
    document = make_document(Revision(lineage="l", counter=4), large(60), {}, "uid")  # type: ignore[arg-type]
    text = document.text().encode()
    other = gzip.compress(text, compresslevel=1, mtime=7)
    data, binary = pack(document)
    assert base64.b64decode(binary[PACKED_DOCUMENT_KEY]) != other
    stored = {PACKED_DOCUMENT_KEY: base64.b64encode(other).decode()}
    assert read_document({}, stored) == document
    assert is_packed(document, {}, stored)
    assert is_packed(document, data, binary)


LARGE = large(60)
EDITS: Mapping[str, tuple[dict[str, str], dict[str, bytes]]] = {
    "a space at the end": ({}, {PACKED_DOCUMENT_KEY: b" "}),
    "a second key": ({"streams.yaml": "[]"}, {PACKED_DOCUMENT_KEY: b""}),
    "not packed": ({DOCUMENT_KEY: ""}, {}),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_of_a_large_documents_configmap_counts(what: str) -> None:
    document = make_document(Revision(lineage="l", counter=4), LARGE, {}, "uid")  # type: ignore[arg-type]
    texts, added = EDITS[what]
    data = {key: text or document.text() for key, text in texts.items()}
    binary = {
        key: base64.b64encode(gzip.compress(document.text().encode() + more, mtime=0)).decode()
        for key, more in added.items()
    }
    assert read_document(data, binary) == document
    assert not is_packed(document, data, binary)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{", '{"streams": {}, "lineage": "l", "revision": "x"}'])
def test_other_texts_are_no_document(text: str) -> None:
    assert read_document({DOCUMENT_KEY: text}, {}) is None


def test_a_packed_document_with_any_damage_is_none() -> None:
    _, binary = pack(make_document(Revision(lineage="l", counter=4), large(60), {}, "uid"))  # type: ignore[arg-type]
    packed = base64.b64decode(binary[PACKED_DOCUMENT_KEY])
    for at in range(10, len(packed), 7):  # after gzip's header, in which some bytes have no meaning
        damaged = packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]
        assert read_document({}, {PACKED_DOCUMENT_KEY: base64.b64encode(damaged).decode()}) is None


def test_a_document_that_unpacks_too_large_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    document = make_document(Revision(lineage="l", counter=4), large(60), {}, "uid")  # type: ignore[arg-type]
    monkeypatch.setattr(document_module, "MAX_DOCUMENT_BYTES", len(document.text()))
    assert read_document(*pack(document)) == document
    monkeypatch.setattr(document_module, "MAX_DOCUMENT_BYTES", len(document.text()) - 1)
    assert read_document(*pack(document)) is None


def test_too_deeply_nested_json_is_no_document() -> None:
    assert read_document({DOCUMENT_KEY: "[" * 100_000}, {}) is None


def test_an_edited_document_counts_as_none() -> None:
    data, _ = pack(make_document(Revision(lineage="l", counter=4), STREAMS, {}, "uid"))
    assert read_document({DOCUMENT_KEY: data[DOCUMENT_KEY].replace("e:9092", "evil:9092")}, {}) is None


def test_the_stored_size_counts_against_the_limit() -> None:
    document = make_document(Revision(lineage="l", counter=4), large(60), {}, "uid")  # type: ignore[arg-type]
    assert size(pack(document)) == len(gzip.compress(document.text().encode(), mtime=0))


def test_a_document_beyond_the_limit_keeps_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    before = world.document
    monkeypatch.setattr("kafkastream_operator.core.next_document.MAX_BYTES", 400)
    world.stream("orders", cluster("east"), *[cluster(f"c{number}") for number in range(30)])
    for lost in (False, True):
        world.document = None if lost else before
        world.settle()
        assert world.document == before
        assert world.condition("StreamsResolved") == ("False", "TooLarge")
    assert MAX_BYTES > 1_000_000


def test_a_name_that_is_too_long_is_cut_to_a_name_of_its_own() -> None:
    names = {config_map_name("a" * 253), config_map_name("a" * 252 + "b")}
    assert len(names) == 2
    assert {len(name) for name in names} == {253}
    assert config_map_name("orders") == "orders-kafkastreams"


def test_an_invalid_stream_keeps_what_worked() -> None:
    world = running()
    world.stream("orders", cluster("east", startingOffsets={"nonsense": "x"}), cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert "startingOffsets" in world.message("Ready")


FIRST_NOT_WHOLE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "one of two streams is invalid": ({"ids": ["orders", "other"]}, {"startingOffsets": "begin"}, "InvalidStream"),
    "a Secret is not bound": ({"ids": ["orders", "other"]}, {"secretRef": {"name": "login"}}, "SecretNotBound"),
    "nothing is left of all that match": ({"pattern": "oth.*"}, {"secretRef": {"name": "login"}}, "SecretNotBound"),
}


@pytest.mark.parametrize("what", FIRST_NOT_WHOLE)
def test_the_first_document_waits_for_what_is_there_and_held(what: str) -> None:
    streams, more, reason = FIRST_NOT_WHOLE[what]
    world = World(spec={"streams": streams})
    world.stream("orders", cluster("east"))
    world.stream("other", cluster("west", **more))
    world.application_is("Starting").settle()
    # A bounded run would end without the missing stream.
    assert world.document is None
    assert world.condition("StreamsResolved") == ("False", reason)
    assert world.message("Ready").endswith("the first document waits until that is corrected")
    world.stream("other", cluster("west")).settle()
    assert world.rendered()["west/orders"] == "Active"


def test_a_held_stream_of_a_pattern_delays_no_first_document() -> None:
    world = World(spec={"streams": {"pattern": ".*"}})
    world.stream("orders", cluster("east"))
    world.stream("other", cluster("west", secretRef={"name": "login"})).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert "first document waits" not in world.message("Ready")


def on_two_streams() -> World:
    """Return an application that reads two streams of one cluster."""
    world = World(spec={"streams": {"ids": ["orders", "other"]}})
    world.stream("orders", cluster("east"))
    world.stream("other", cluster("east", "x"))
    world.application_is("Starting").settle()
    world.driver_starts().settle()
    return world


ELSEWHERE = {"bootstrapServers": "elsewhere:9092"}
TOGETHER_WRONG = {
    "offsets of one cluster differ": {"other": [cluster("east", "x", startingOffsets="latest")]},
    "renamed here, and read there under the old id": {
        "orders": [cluster("new", renamedFrom="east", bootstrapServers="east:9092")]
    },
    "one is invalid and stays, and the other has moved": {
        "orders": [cluster("east", startingOffsets="sometimes", **ELSEWHERE)],
        "other": [cluster("east", "x", **ELSEWHERE)],
    },
}


@pytest.mark.parametrize("lost", [False, True], ids=["", "and the document is lost"])
@pytest.mark.parametrize("what", TOGETHER_WRONG)
def test_no_document_is_written_that_no_driver_would_start_with(what: str, lost: bool) -> None:
    world = on_two_streams()
    before = world.document
    for stream, clusters in TOGETHER_WRONG[what].items():
        world.stream(stream, *clusters)
    world.document = None if lost else before
    world.settle()
    assert world.document == before
    # The condition has the first of several reasons: the invalid stream has to be mended first.
    reason = "InvalidStream" if "invalid" in what else "Conflict"
    assert world.condition("StreamsResolved") == ("False", reason)
    assert world.condition("RolledOut")[0] == "True"
    world.stream("orders", cluster("east"))
    world.stream("other", cluster("east", "x"), cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active", "east/x": "Active", "west/orders": "Active"}


@pytest.mark.parametrize("what", list(TOGETHER_WRONG)[:2])
def test_streams_that_do_not_fit_together_hold_up_no_third(what: str) -> None:
    world = on_two_streams()
    for stream, clusters in TOGETHER_WRONG[what].items():
        world.stream(stream, *clusters)
    world.spec["streams"] = {"ids": ["orders", "other", "third"]}
    world.stream("third", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active", "east/x": "Active", "west/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "Conflict")


RENAMED_TWICE = {
    "in one stream": {"bad": [cluster("b", "t", renamedFrom="a"), cluster("c", "t", renamedFrom="a")]},
    "in two": {"bad": [cluster("b", "t", renamedFrom="a")], "worse": [cluster("c", "t", renamedFrom="a")]},
}


@pytest.mark.parametrize(("what", "reason"), [("in one stream", "InvalidStream"), ("in two", "Conflict")])
def test_a_rename_to_two_ids_holds_no_other_stream(what: str, reason: str) -> None:
    world = running(updateStrategy="Reload", streams={"pattern": ".*"})
    for stream, clusters in RENAMED_TWICE[what].items():
        world.stream(stream, *clusters)
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", reason)
    assert "'a'" in world.message("StreamsResolved")


def test_explicit_offsets_of_topics_of_their_own_are_no_conflict() -> None:
    world = on_two_streams()
    world.stream("orders", cluster("east", startingOffsets={"orders": {"0": 5}}))
    world.stream("other", cluster("east", "x", startingOffsets={"x": {"0": 7}})).settle()
    assert world.condition("StreamsResolved")[0] == "True"
    assert revision_of(world).counter == 2


def test_a_rename_undone_without_renamed_from_is_held() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("new-east", renamedFrom="east")).settle()
    world.driver_reports()
    world.stream("orders", cluster("east")).settle()
    assert world.rendered() == {"new-east/orders": "Active"}
    assert "renamed from 'east', which is still" in world.message("StreamsResolved")
    world.stream("orders", cluster("east", renamedFrom="new-east")).settle()
    assert world.rendered() == {"east/orders": "Active"}


def test_streams_that_disagree_elsewhere_hold_up_nobody_here() -> None:
    world = running()
    world.stream("other", {"id": "east", "bootstrapServers": "elsewhere:9092", "topics": ["x"]})
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}


def test_an_unreadable_configmap_holds_its_possible_streams() -> None:
    world = World()
    text = "- streamId: orders\n  clusterMetadataList:\n    - {clusterId: east, bootstrapServers: 'e:1', topics: [t]}\n"
    world.config_maps["flink"] = text
    world.settle()
    world.config_maps["flink"] = text.replace("topics", "topicz")
    world.settle()
    assert world.rendered() == {"east/t": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidConfigMap")
    del world.config_maps["flink"]
    world.settle()
    assert world.rendered() == {"east/t": "Draining"}


@pytest.mark.parametrize("asked", [{"ids": ["orders"]}, {"pattern": "ord.*"}], ids=["ids", "pattern"])
def test_an_unreadable_configmap_keeps_no_unwanted_stream(asked: dict[str, Any]) -> None:
    world = running(updateStrategy="Reload", streams={"pattern": ".*"})
    world.stream("billing", cluster("west", "bills")).settle()
    world.config_maps["of-another-team"] = "- nonsense"
    world.changes(streams=asked).settle()
    assert world.rendered() == {"east/orders": "Active", "west/bills": "Draining"}
    assert world.condition("StreamsResolved")[0] == "True"


EAST = {"bootstrapServers": "east:9092", "topics": ["orders"]}
CONFIG_MAP = """
- streamId: orders
  clusterMetadataList:
    - clusterId: east
      bootstrapServers: east:9092
      topics: [orders]
"""


def held_by(what: str) -> World:
    """Return an application on east, while this obstacle holds every newer form."""
    spec: dict[str, Any] = {"streams": {"pattern": "ord.*"}} if what == "pattern" else {}
    world = running(updateStrategy="Reload", **spec)
    if what == "ConfigMap":
        world.config_maps["flink"] = CONFIG_MAP
        world.streams.clear()
        world.settle()
        world.config_maps["flink"] += "      nonsense: 1\n"
    elif what == "stream":
        world.stream("orders", cluster("east", properties={"plugin.library.paths": "x"}))
    elif what == "pattern":
        world.changes(streams={"pattern": "ord(.*"})
    else:
        world.changes(pause={"reason": "freeze"})
        world.stream("orders", cluster("west"))
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}
    return world


HOLDS = ["stream", "ConfigMap", "pattern", "pause"]


@pytest.mark.parametrize("what", HOLDS)
def test_held_streams_survive_the_loss_of_document_and_status(what: str) -> None:
    world = held_by(what)
    reason = world.condition("StreamsResolved")
    last = revision_of(world)
    world.document, world.status = None, SubscriptionStatus()
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == reason
    assert revision_of(world) == last if what in ("pattern", "pause") else revision_of(world).counter > last.counter


def forged(world: World, owned: bool = True, **more: Any) -> None:
    """Replace parts of the driver's report."""
    assert world.driver is not None
    assert world.driver.report is not None
    world.driver = replace(world.driver, owned=owned, report=replace(world.driver.report, **more))


FORGERIES: Mapping[str, dict[str, Any]] = {
    "of another pod": {"pod": "another"},
    "on a pod of nobody": {"owned": False},
    "for another subscription": {"subscription": "another"},
    "of streams that were never rendered": {"hash": "sha256:0"},
    "before any document": {"applied": None},
    "of streams that no driver takes": {
        "streams": (loads := {"orders": {"clusters": {"east": {**EAST, "properties": {"plugin.library.paths": "x"}}}}}),
        "hash": document_hash(loads),
    },
    "of a Secret that the subscription does not bind": {
        "streams": (asks := {"orders": {"clusters": {"evil": {**EAST, "secretFolder": "login"}}}}),
        "hash": document_hash(asks),
    },
}


@pytest.mark.parametrize("what", HOLDS)
@pytest.mark.parametrize("how", FORGERIES)
def test_a_forged_report_makes_nothing_active(how: str, what: str) -> None:
    world = held_by(what)
    world.document, world.status = None, SubscriptionStatus()
    forged(world, **FORGERIES[how])
    world.settle()
    assert world.document is None or "Active" not in {
        state for key, state in world.rendered().items() if key != "west/orders"
    }
    assert world.document is None or "login" not in str(
        [spec.get("secretFolder") for stream in world.document.streams.values() for spec in stream["clusters"].values()]
    )


def test_a_configmap_names_its_mistake_with_line_and_field() -> None:
    catalog = make_catalog({}, [ConfigMapText("flink", {"streams.yaml": "- streamId: a\n  clusterMetadataLst: []\n"})])
    (reason,) = catalog.broken.values()
    assert "ConfigMap flink, key streams.yaml:2" in reason
    assert "did you mean 'clusterMetadataList'" in reason
