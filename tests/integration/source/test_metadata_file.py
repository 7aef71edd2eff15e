"""The mounted metadata file as it really comes: half-written, empty, swapped, large, late, gone, with a typo.

At the start a bad document stops the query; while it runs, the last good one stays in force and the status says why.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
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
from tests.support.fixtures import Brokers
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

Topic = Callable[[str], str]


@pytest.fixture
def orders(brokers: Brokers, topic: Topic) -> str:
    """A topic of one partition on `a` and on `b`."""
    name = topic("orders")
    for at in (brokers.a, brokers.b):
        at.create_topic(name)
    return name


def rejection(run: SourceRun) -> str:
    """Why the newest document is not in force, as the progress event shows it; empty if it is."""
    return str(run.report().get("rejected", ""))


def rendered(revision: int, clusters: dict[str, str], topic: str) -> str:
    """The mapping form of the stream `orders`, as the operator writes it."""
    wire = {name: {"bootstrapServers": servers, "topics": [topic]} for name, servers in clusters.items()}
    return json.dumps({"contract": 1, "lineage": "l", "revision": revision, "streams": {"orders": {"clusters": wire}}})


# -- invalid documents -------------------------------------------------------------------------------------------------


def test_an_invalid_document_at_the_start_stops_the_query_and_names_file_line_and_field(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], topicz=["x"])))
    produce("a", brokers.a, orders, 3)
    with start_query(spark, {"streamIds": "orders", "metadataPath": path}, tmp_path) as query:
        said = query.wait_failed()

        line = 1 + path.read_text()[: path.read_text().index("topicz")].count("\n")
        assert f"{path}:{line}:" in said and "topicz" in said and "MetadataInvalidError" in said
        assert (query.document(), query.rows()) == (None, Rows())


def broken(text: str) -> dict[str, tuple[str, str]]:
    """Ways in which a good document arrives damaged: {what: (text, a word of the rejection)}."""
    return {
        "half-written": (text[: len(text) // 2], "streams.json:"),
        "empty": ("", "the document is empty"),
        "blank": ("\n\n", "the document is empty"),
        "not a document": ("hello", "is no list or mapping"),
        "not text": ("\x00\x01", "streams.json:"),
    }


def test_a_damaged_document_while_running_leaves_the_last_good_one_in_force(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]))).read_text()
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        revision = run.report()["revision"]
        for what, (text, word) in broken(good).items():
            caplog.clear()
            write_text(path, text)
            run.until(lambda word=word: word in rejection(run), f"the rejection of what is {what}")  # type: ignore[misc]
            wanted += produce("a", brokers.a, orders, 2)
            run.until_rows(wanted)
            said = [r.getMessage() for r in caplog.records if "the last good one stays in force" in r.getMessage()]
            assert len(said) == 1 and str(path) in said[0], what
            assert run.report()["revision"] == revision
            write_text(path, good)
            run.until(lambda: not rejection(run), "the good one to be back")

        assert run.next == {("a", orders): {0: 3 + 2 * len(broken(good))}}


def typos(good: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The document with a typo in the name or the value of each field, by a word that the rejection has to say."""
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


def test_a_conflict_that_comes_while_running_names_both_streams_and_changes_nothing(
    brokers: Brokers, orders: str, path: Path
) -> None:
    good = stream("orders", cluster("a", brokers.a, [orders]))
    write_metadata(path, good)
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, streamIds=None, streamPattern=".*") as run:
        run.until_rows(wanted)
        write_metadata(path, good, stream("payments", cluster("a", brokers.b, [orders])))
        run.until(lambda: "disagree about the cluster 'a'" in rejection(run), "the conflict to be rejected")
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert "'orders' and 'payments'" in rejection(run)
        assert run.next == {("a", orders): {0: 5}}


def test_a_revision_that_its_clusters_refute_is_told_with_its_number(brokers: Brokers, orders: str, path: Path) -> None:
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
    "max.poll.interval.ms": {"max.poll.interval.ms": 2000},  # an admin client can be made of these
}
"""Properties that are sound one by one, and of which librdkafka makes no consumer, by what it says of them."""


def test_properties_that_no_client_can_be_made_of_change_nothing_while_running(
    brokers: Brokers, orders: str, path: Path
) -> None:
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
                run.until(lambda: not rejection(run), "the good one to be back")


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


def test_a_document_of_ten_megabytes_is_taken_up_while_reading_goes_on(
    brokers: Brokers, orders: str, path: Path
) -> None:
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


# -- look-ups without an answer ----------------------------------------------------------------------------------------


def test_a_missing_file_at_the_start_stops_the_query(path: Path) -> None:
    with reading(path) as run, pytest.raises(MetadataUnavailableError) as refused:
        run.batch()

    assert str(path) in str(refused.value) and "check that it is mounted" in str(refused.value)
    assert run.offsets == []


def test_look_ups_without_an_answer_are_tolerated_and_an_answer_resets_their_count(
    brokers: Brokers, orders: str, path: Path
) -> None:
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
            run.until(lambda: "metadataFailures" not in run.report(), "the count to start anew")

        assert run.next == {("a", orders): {0: 7}}


def test_more_failures_in_a_row_than_tolerated_fail_the_query(brokers: Brokers, orders: str, path: Path) -> None:
    good = write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]))).read_text()
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, metadataFailureThreshold=2) as run:
        run.until_rows(wanted)
        path.unlink()
        with pytest.raises(MetadataUnavailableError) as failed:
            run.until(lambda: False, "the query to fail")
        assert "2 are tolerated (metadataFailureThreshold)" in str(failed.value) and str(path) in str(failed.value)
        assert_rows(run.rows(), wanted)
        write_text(path, good)
        run.restart()
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}}


def test_at_a_restart_the_first_look_up_has_to_succeed(brokers: Brokers, orders: str, path: Path) -> None:
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


@pytest.mark.parametrize("named_by", ["option", "environment"])
@pytest.mark.parametrize("pending", [False, True], ids=["before a plan", "before a replay"])
def test_metadata_older_than_awaited_stops_the_start_before_anything_is_opened(
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
        said = str(refused.value)
        assert "the metadata is at revision l/3" in said and "l/4" in said and "did not arrive within 1 s" in said
        assert_rows(run.rows(), wanted)
        assert run.next == {("a", orders): {0: 5 if pending else 3}}
        run.restart(metadataRevision="l/3")
        run.until_rows(wanted + late)


@pytest.mark.parametrize("pending", [False, True], ids=["before a plan", "before a replay"])
def test_the_start_waits_for_the_awaited_revision_and_goes_by_it(
    brokers: Brokers, orders: str, path: Path, pending: bool
) -> None:
    write_text(path, rendered(3, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
    of_a, of_b = produce("a", brokers.a, orders, 3), produce("b", brokers.b, orders, 3)
    with reading(path) as run:
        if pending:
            run.batch(crash="logged")
        run.restart(metadataRevision="4", metadataTimeout="60s")
        waiting = threading.Thread(target=run.batch)
        waiting.start()
        deadline = time.monotonic() + 30
        while not any(thread.name == "metadata-discovery" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert waiting.is_alive() and run.rows() == Rows()
        write_text(path, rendered(4, {"b": brokers.b.bootstrap}, orders))
        waiting.join(60)
        run.until_rows(of_b)  # nothing of a: the revision that would have named it was never in force

        assert next_offsets(run.document) == {("b", orders): {0: 3}}
        assert run.report()["revision"] == "4"
        write_text(path, rendered(5, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
        run.until_rows(of_a + of_b)


def test_an_older_revision_takes_nothing_back_while_the_query_runs(brokers: Brokers, orders: str, path: Path) -> None:
    write_text(path, rendered(2, {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}, orders))
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)

        # When an earlier document is put back, which does not have `b` yet
        write_text(path, rendered(1, {"a": brokers.a.bootstrap}, orders))
        run.until(lambda: "is older than l/2" in str(run.report().get("rejected")), "the older one to be found")

        # Then `b` is read on
        wanted += produce("b", brokers.b, orders, 2)
        run.until_rows(wanted)
        assert run.parked == {} and run.report()["revision"] == "2"


# -- a stream that is gone ---------------------------------------------------------------------------------------------


def test_a_stream_that_the_document_names_no_more_is_told_until_it_is_back(
    brokers: Brokers, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("order", cluster("a", brokers.a, [orders])))
        run.until(lambda: run.report().get("missingStreams") == ["orders"], "the stream to be missed")
        run.until(lambda: bool(run.parked), "its cluster to be parked")
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert "missingStreams" not in run.report()


@pytest.mark.parametrize("pending", [False, True])
def test_a_query_whose_stream_is_gone_goes_on_without_it_after_a_restart(
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

        # When one of them is taken out, and the query is started again
        write_metadata(path, kept)
        run.restart()

        # Then what only it named is parked, and the rest is read on
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)
        assert run.report()["missingStreams"] == ["returns"]
        assert set(run.parked) == {("b", orders)}

        # And it is read on where it was, once it is back
        write_metadata(path, kept, stream("returns", cluster("b", brokers.b, [orders])))
        wanted += produce("b", brokers.b, orders, 2)
        run.until_rows(wanted)


def test_a_stream_that_does_not_exist_stops_a_query_that_begins(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with (
        reading(path, streamIds="orders;returns") as run,
        pytest.raises(MetadataInvalidError, match="'returns' does not exist"),
    ):
        run.batch()
