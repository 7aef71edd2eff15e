"""A mounted metadata file in bad condition: half-written, empty, swapped, large, late, missing, with a typo.

A bad document stops a query at its start. While the query runs, the last good one stays in force, and the status
contains the reason.
"""

from __future__ import annotations

import json
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.errors import (
    MetadataInvalidError,
    MetadataTooOldError,
    MetadataUnavailableError,
)
from tests.support.fixtures import Brokers, Topic
from tests.support.mounted import mount
from tests.support.source_run import SourceRun, reading
from tests.support.streams import (
    Rows,
    assert_rows,
    cluster,
    next_offsets,
    produce,
    start_query,
    stream,
    write_metadata,
    write_text,
)
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("each fault of a document and of a lookup")


@pytest.fixture
def orders(brokers: Brokers, topic: Topic) -> str:
    """Create a topic of one partition on `a` and on `b`."""
    name = topic("orders")
    for at in (brokers.a, brokers.b):
        at.create_topic(name)
    return name


def rejection(run: SourceRun) -> str:
    """Return why the newest document was rejected, by the progress event; empty if it is in force."""
    return str(run.report().get("rejected", ""))


def rendered(revision: int, clusters: dict[str, str], topic: str) -> str:
    """Return the mapping form of the stream `orders`, as the operator writes it."""
    wire = {name: {"bootstrapServers": servers, "topics": [topic]} for name, servers in clusters.items()}
    return json.dumps({"contract": 1, "lineage": "l", "revision": revision, "streams": {"orders": {"clusters": wire}}})


# -- invalid documents -------------------------------------------------------------------------------------------------


def test_an_invalid_document_stops_the_start_with_its_line(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], topicz=["x"])))
    produce("a", brokers.a, orders, 3)
    with start_query(spark, {"streamIds": "orders", "metadataPath": path}, tmp_path) as query:
        message = query.wait_failed()

        line = 1 + path.read_text()[: path.read_text().index("topicz")].count("\n")
        assert f"{path}:{line}:" in message and "topicz" in message and "MetadataInvalidError" in message
        assert (query.document(), query.rows()) == (None, Rows())


def damaged_versions(text: str) -> dict[str, tuple[str, str]]:
    """Return damaged versions of a document: {name: (text, a word of the rejection)}."""
    return {
        "half-written": (text[: len(text) // 2], "streams.json:"),
        "empty": ("", "the document is empty"),
        "blank": ("\n\n", "the document is empty"),
        "not a document": ("hello", "is no list or mapping"),
        "not text": ("\x00\x01", "streams.json:"),
    }


def test_a_damaged_document_leaves_the_last_good_one_in_force(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]))).read_text()
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        revision = run.report()["revision"]
        for what, (text, word) in damaged_versions(good).items():
            caplog.clear()
            write_text(path, text)
            run.until(lambda word=word: word in rejection(run), f"the rejection of what is {what}")  # type: ignore[misc]
            wanted += produce("a", brokers.a, orders, 2)
            run.until_rows(wanted)
            messages = [r.getMessage() for r in caplog.records if "the last good one stays in force" in r.getMessage()]
            assert len(messages) == 1 and str(path) in messages[0], what
            assert run.report()["revision"] == revision
            write_text(path, good)
            run.until(lambda: not rejection(run), "the good document to be in force")

        assert run.next == {("a", orders): {0: 3 + 2 * len(damaged_versions(good))}}


def typos(good: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the document with a typo in each field's name or value, by a word that the rejection must have."""
    wrong: dict[str, dict[str, Any]] = {}
    for field in ("streamId", "clusterMetadataList"):
        document = deepcopy(good)
        document[field + "x"] = document.pop(field)
        wrong[field + "x"] = document
    for field in ("clusterId", "bootstrapServers", "topics", "properties", "startingOffsets"):
        document = deepcopy(good)
        first = document["clusterMetadataList"][0]
        first[field + "x"] = first.pop(field)
        wrong[field + "x"] = document
    values = {
        "clusterId": "a b",
        "bootstrapServers": "localhost",
        "topics": [],
        "properties": {"plugin.library.paths": "/tmp/evil.so"},
        "startingOffsets": "oldest",
        "renamedFrom": 7,
    }
    for field, value in values.items():
        document = deepcopy(good)
        document["clusterMetadataList"][0][field] = value
        wrong[field] = document
    return wrong


@DEEP
def test_a_typo_in_any_field_is_named_and_changes_nothing(brokers: Brokers, orders: str, path: Path) -> None:
    good = stream(
        "orders",
        cluster("a", brokers.a, [orders], properties={"client.rack": "r1"}, startingOffsets="earliest"),
    )
    write_metadata(path, good)
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        for field, document in typos(good).items():
            write_metadata(path, document)
            run.until(lambda field=field: field in rejection(run), f"{field} to be rejected")  # type: ignore[misc]
            assert f"{path}:" in rejection(run)
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}}


@DEEP
def test_a_conflict_while_running_names_both_streams(brokers: Brokers, orders: str, path: Path) -> None:
    good = stream("orders", cluster("a", brokers.a, [orders]))
    write_metadata(path, good)
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, streamIds=None, streamPattern=".*") as run:
        run.until_rows(wanted)
        write_metadata(path, good, stream("payments", cluster("a", brokers.b, [orders])))
        run.until(lambda: "disagree about cluster 'a'" in rejection(run), "the conflict to be rejected")
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert "'orders' and 'payments'" in rejection(run)
        assert run.next == {("a", orders): {0: 5}}


@DEEP
def test_a_revision_refused_by_its_clusters_is_reported(brokers: Brokers, orders: str, path: Path) -> None:
    write_text(path, rendered(1, {"a": brokers.a.bootstrap}, orders))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        assert (run.report()["lineage"], run.report()["revision"]) == ("l", "1")
        write_text(path, rendered(2, {"a": brokers.b.bootstrap}, orders))
        run.until(lambda: bool(rejection(run)), "the rejection")

        assert brokers.b.kafka_id in rejection(run)
        assert (run.report()["revision"], run.report()["rejectedRevision"]) == ("1", "l/2")
        write_text(path, rendered(3, {"a": brokers.a.bootstrap}, orders))
        run.until(lambda: run.report()["revision"] == "3", "the next revision")
        assert "rejectedRevision" not in run.report()


NO_CLIENT: dict[str, dict[str, Any]] = {
    "sasl.username": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"},
    "ssl.ca.pem": {"security.protocol": "SSL", "ssl.ca.pem": "nonsense"},
    "ssl.cipher.suites": {"security.protocol": "SSL", "ssl.cipher.suites": "NONSENSE"},
    "max.poll.interval.ms": {"max.poll.interval.ms": 2000},  # an admin client accepts these
}
"""Properties that are valid one by one, but make no consumer together, by a word of librdkafka's error."""


@DEEP
def test_unusable_properties_change_nothing_while_running(brokers: Brokers, orders: str, path: Path) -> None:
    good = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", good))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        for word, properties in NO_CLIENT.items():
            for bad in ([cluster("a", brokers.a, [orders], properties=properties)],
                        [good, cluster("b", brokers.b, [orders], properties=properties)]):  # fmt: skip
                write_metadata(path, stream("orders", *bad))
                run.until(lambda word=word: word in rejection(run), f"{word} to be rejected")  # type: ignore[misc]
                assert f"cluster={bad[-1]['clusterId']}" in rejection(run)
                wanted += produce("a", brokers.a, orders, 1)
                run.until_rows(wanted)
                write_metadata(path, stream("orders", good))
                run.until(lambda: not rejection(run), "the good document to be in force")


# -- files as they come ------------------------------------------------------------------------------------------------


def test_a_folder_that_the_kubelet_swaps_is_read_again(
    brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    folder = tmp_path / "mounted"
    mount(folder, "2026_1", rendered(1, {"a": brokers.a.bootstrap}, orders))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, metadataPath=folder, metadataDiscoveryInterval="1h") as run:
        run.until_rows(wanted)
        assert run.report()["revision"] == "1"
        wanted += produce("b", brokers.b, orders, 4)
        mount(folder, "2026_2", rendered(2, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
        run.until_rows(wanted)  # within a second or so, the interval notwithstanding

        assert run.report()["revision"] == "2"
        assert run.next == {("a", orders): {0: 3}, ("b", orders): {0: 4}}


@DEEP
def test_a_document_of_ten_megabytes_is_loaded_while_reading(brokers: Brokers, orders: str, path: Path) -> None:
    first = stream("orders", cluster("a", brokers.a, [orders]))
    write_metadata(path, first)
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        others = [stream(f"other-{n}", cluster("elsewhere", "nowhere:9092", [f"topic-{n}"])) for n in range(55_000)]
        wanted += produce("b", brokers.b, orders, 4)
        write_metadata(
            path, *others, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders]))
        )
        assert path.stat().st_size > 10_000_000
        while_parsing = produce("a", brokers.a, orders, 2)
        run.until_rows(wanted + while_parsing)

        assert run.next == {("a", orders): {0: 5}, ("b", orders): {0: 4}}
        assert rejection(run) == ""


# -- lookups without an answer ----------------------------------------------------------------------------------------


def test_a_missing_file_at_the_start_stops_the_query(path: Path) -> None:
    with reading(path) as run, pytest.raises(MetadataUnavailableError) as refused:
        run.batch()

    assert str(path) in str(refused.value) and "check that it is mounted" in str(refused.value)
    assert run.offsets == []


@DEEP
def test_failed_lookups_are_tolerated_until_the_threshold(brokers: Brokers, orders: str, path: Path) -> None:
    good = write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]))).read_text()
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, metadataFailureThreshold=1_000) as run:
        run.until_rows(wanted)
        for _ in range(2):
            path.unlink()
            run.until(lambda: run.report().get("metadataFailures", 0) >= 2, "two failures")
            wanted += produce("a", brokers.a, orders, 2)
            run.until_rows(wanted)
            write_text(path, good)
            run.until(lambda: "metadataFailures" not in run.report(), "the count to restart")

        assert run.next == {("a", orders): {0: 7}}


@DEEP
def test_too_many_failed_lookups_in_a_row_fail_the_query(brokers: Brokers, orders: str, path: Path) -> None:
    good = write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]))).read_text()
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, metadataFailureThreshold=2) as run:
        run.until_rows(wanted)
        path.unlink()
        with pytest.raises(MetadataUnavailableError) as failed:
            run.until(lambda: False, "the query to fail")
        assert "in a row (metadataFailureThreshold=2)" in str(failed.value) and str(path) in str(failed.value)
        assert_rows(run.rows(), wanted)
        write_text(path, good)
        run.restart()
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}}


@DEEP
def test_the_first_lookup_of_a_restart_must_succeed(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, metadataFailureThreshold=9) as run:
        run.until_rows(wanted)
        run.stop()
        path.unlink()
        with pytest.raises(MetadataUnavailableError):
            run.batch()

        assert run.next == {("a", orders): {0: 3}}
        assert_rows(run.rows(), wanted)


# -- freshness ---------------------------------------------------------------------------------------------------------


@DEEP
@pytest.mark.parametrize("named_by", ["option", "environment"])
@pytest.mark.parametrize("pending", [False, True], ids=["before a plan", "before a replay"])
def test_metadata_older_than_awaited_stops_the_start(
    brokers: Brokers, orders: str, path: Path, *, pending: bool, named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(path, rendered(3, {"a": brokers.a.bootstrap}, orders))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        late = produce("a", brokers.a, orders, 2)
        if pending:
            run.batch(crash="logged")
        if named_by == "option":
            run.restart(metadataRevision="l/4", metadataTimeout="1s")
        else:
            monkeypatch.setenv("KAFKASTREAMS_REVISION", "l/4")
            run.restart(metadataTimeout="1s")
        with pytest.raises(MetadataTooOldError) as refused:
            run.batch()
        message = str(refused.value)
        assert "metadata is at revision l/3" in message and "l/4" in message
        assert "did not arrive within 1 s" in message
        assert_rows(run.rows(), wanted)
        assert run.next == {("a", orders): {0: 5 if pending else 3}}
        run.restart(metadataRevision="l/3")
        run.until_rows(wanted + late)


@pytest.mark.parametrize("pending", [False, True], ids=["before a plan", "before a replay"])
def test_the_start_waits_for_the_awaited_revision(brokers: Brokers, orders: str, path: Path, pending: bool) -> None:
    write_text(path, rendered(3, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
    of_a, of_b = produce("a", brokers.a, orders, 3), produce("b", brokers.b, orders, 3)
    with reading(path) as run:
        if pending:
            run.batch(crash="logged")
        run.restart(metadataRevision="4", metadataTimeout="60s")
        waiting = threading.Thread(target=run.batch)
        waiting.start()
        wait_until(
            lambda: any(thread.name == "metadata-discovery" for thread in threading.enumerate()),
            "the discovery thread",
            timeout_s=30,
        )
        assert waiting.is_alive() and run.rows() == Rows()
        write_text(path, rendered(4, {"b": brokers.b.bootstrap}, orders))
        waiting.join(60)
        run.until_rows(of_b)  # nothing of a: its revision was never in force

        assert next_offsets(run.document) == {("b", orders): {0: 3}}
        assert run.report()["revision"] == "4"
        write_text(path, rendered(5, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
        run.until_rows(of_a + of_b)


@DEEP
def test_an_older_revision_changes_nothing_while_running(brokers: Brokers, orders: str, path: Path) -> None:
    write_text(path, rendered(2, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)

        # When an earlier document, without `b`, is restored
        write_text(path, rendered(1, {"a": brokers.a.bootstrap}, orders))
        run.until(lambda: "is older than l/2" in str(run.report().get("rejected")), "the older revision to be found")

        # Then `b` is still read
        wanted += produce("b", brokers.b, orders, 2)
        run.until_rows(wanted)
        assert run.parked == {} and run.report()["revision"] == "2"


# -- a stream that is gone ---------------------------------------------------------------------------------------------


@DEEP
def test_a_missing_stream_is_reported_until_it_returns(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("order", cluster("a", brokers.a, [orders])))
        run.until(lambda: run.report().get("missingStreams") == ["orders"], "the missing stream to be reported")
        run.until(lambda: bool(run.parked), "its cluster to be parked")
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert "missingStreams" not in run.report()


@DEEP
@pytest.mark.parametrize("pending", [False, True])
def test_a_query_restarts_without_its_missing_stream(
    brokers: Brokers, orders: str, path: Path, *, pending: bool
) -> None:
    # Given a query that has read two streams
    kept = stream("orders", cluster("a", brokers.a, [orders]))
    write_metadata(path, kept, stream("returns", cluster("b", brokers.b, [orders])))
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 2)
    with reading(path, streamIds="orders;returns") as run:
        run.until_rows(wanted)
        if pending:
            wanted += produce("a", brokers.a, orders, 1)
            run.batch(crash="logged")

        # When one of them is removed, and the query restarts
        write_metadata(path, kept)
        run.restart()

        # Then its own topics are parked, and the rest is read on
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)
        assert run.report()["missingStreams"] == ["returns"]
        assert set(run.parked) == {("b", orders)}

        # And once the stream is back, its topics resume at their offsets
        write_metadata(path, kept, stream("returns", cluster("b", brokers.b, [orders])))
        wanted += produce("b", brokers.b, orders, 2)
        run.until_rows(wanted)


@DEEP
def test_a_stream_that_does_not_exist_stops_a_new_query(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with (
        reading(path, streamIds="orders;returns") as run,
        pytest.raises(MetadataInvalidError, match="'returns' does not exist"),
    ):
        run.batch()
