"""Metrics: their names and values, and their removal with their cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from rich.console import Console

from dynamic_kafka.app.telemetry.live_table import progress_table
from dynamic_kafka.app.telemetry.metrics import METRICS, PREFIX, AppCollector
from dynamic_kafka.app.telemetry.metrics_receiver import SplitReads
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.executor.client_statistics import ClientCounts
from dynamic_kafka.kafka.commits import CommitCounts
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.splits import Split
from tests.support.places import ROOT

ENDS = {Split("east", "orders", 0): 100, Split("east", "orders", 1): 50, Split("west", "orders", 0): 30}


def document(number: int, *clusters: str, offset: int, parked: str | None = None) -> OffsetDocument:
    kept = {parked: ParkedCluster({"orders": ParkedTopic(TopicProgress("st", {0: 7}), 0)})} if parked else {}
    partitions = {"east": (0, 1), "west": (0,)}
    topics = {c: {"orders": TopicProgress("st", dict.fromkeys(partitions[c], offset))} for c in clusters}
    return OffsetDocument("q", number, "p", clusters={c: ClusterProgress(t) for c, t in topics.items()}, parked=kept)


def event(batch: int, start: OffsetDocument, end: OffsetDocument, **latest: Any) -> Mapping[str, Any]:
    source = {"startOffset": encode(start), "endOffset": encode(end), "latestOffset": latest}
    return {"batchId": batch, "numInputRows": 30, "durationMs": {"triggerExecution": 1500}, "sources": [source]}


READS = {
    Split("east", "orders", 0): SplitReads(8, 400, 2.5),
    Split("east", "orders", 1): SplitReads(4, 100, 0.5),
    Split("west", "orders", 0): SplitReads(1, 10, None),
}


CLIENTS = {"east": ClientCounts(900, 60, 4, 12_000, 250, 1, 7, 3, 8, 5, 2), "gone": ClientCounts(errors=3)}


def reads(sink: str, active: Iterable[Split]) -> Mapping[Split, SplitReads]:
    """The counts that executors have reported."""
    return {split: READS[split] for split in active} if sink == "lake" else {}


class Scrape:
    """The metrics as Prometheus gets them; `silent` are named clusters that do not answer the application."""

    def __init__(
        self,
        board: StatusBoard,
        status: DiscoveryStatus,
        *,
        silent: tuple[str, ...] = (),
        ends: Mapping[Split, int] | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        ends = {split: end for split, end in (ends or ENDS).items() if split.cluster not in silent}
        refused = dict.fromkeys(silent, "connection refused")
        self.registry.register(
            AppCollector(
                board,
                ends=lambda: ends,
                discovery=lambda: status,
                reads=reads,
                named=lambda: silent,
                unreachable=lambda: refused,
                clients=lambda sink: CLIENTS if sink == "lake" else {},
                clock=lambda: 60.0,
            )
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(PREFIX + name, labels)

    def names(self, cluster: str) -> set[str]:
        samples = [sample for metric in self.registry.collect() for sample in metric.samples]
        return {sample.name for sample in samples if sample.labels.get("cluster") == cluster}


@pytest.fixture
def board() -> StatusBoard:
    """Two clusters read up to offset 10, the last batch 40 seconds ago."""
    made = StatusBoard(["lake"])
    zero = document(1, "east", "west", offset=0)
    made.progress("lake", event(0, zero, zero), 0.0)
    made.progress("lake", event(1, zero, document(2, "east", "west", offset=10)), 20.0)
    made.update("lake", commits={"east": CommitCounts(3, 1)}, committed={"east": {("orders", 0): 9}}, restarts=2)
    return made


@pytest.fixture
def scrape(board: StatusBoard) -> Scrape:
    return Scrape(board, DiscoveryStatus(None, 2, None, "bad"))


@pytest.mark.scenario(41)
def test_the_documentation_lists_all_metrics_with_their_labels() -> None:
    text = (ROOT / "docs" / "reference" / "application-metrics.md").read_text()
    rows = re.findall(r"^\| `(dynamic_kafka_\w+)` \| ([^|]*) \|", text, re.MULTILINE)
    documented = {name: tuple(re.findall(r"\w+", labels)) for name, labels in rows}
    assert documented == {PREFIX + name + "_total" * metric.counter: metric.labels for name, metric in METRICS.items()}


def test_a_split_tells_offsets_lag_and_idle_time(scrape: Scrape) -> None:
    split = {"sink": "lake", "cluster": "east", "topic": "orders", "partition": "0"}
    assert scrape.value("split_current_offset", **split) == 10
    assert scrape.value("split_committed_offset", **split) == 9
    assert scrape.value("split_lag", **split) == 90
    assert scrape.value("split_offsets_read_total", **split) == 10
    assert scrape.value("split_idle_seconds", **split) == 40
    assert scrape.value("split_records_read_total", **split) == 8
    assert scrape.value("split_bytes_read_total", **split) == 400
    assert scrape.value("split_event_time_lag_seconds", **split) == 2.5


def test_a_cluster_shows_what_its_clients_count(scrape: Scrape) -> None:
    names = ("bytes_received", "bytes_sent", "round_trips", "round_trip_seconds", "throttled_seconds")
    values = [
        scrape.value(f"cluster_client_{name}_total", sink="lake", cluster="east")
        for name in (*names, "connection_errors")
    ]
    assert values == [900, 60, 4, 0.012, 0.25, 1]
    assert scrape.value("cluster_dead_letters_total", sink="lake", cluster="east") == 7
    assert scrape.value("cluster_dropped_records_total", sink="lake", cluster="east") == 3
    assert scrape.value("cluster_late_rows_total", sink="lake", cluster="east") == 8
    readers = [
        scrape.value("cluster_ranges_read_total", sink="lake", cluster="east", reader=reader)
        for reader in ("native", "python")
    ]
    assert readers == [5, 2]
    # Neither a cluster without a report nor one that the query no longer reads has a series.
    assert not any("client" in name for name in scrape.names("west") | scrape.names("gone"))


def test_a_cluster_sums_up_its_splits_and_counts_commits(scrape: Scrape) -> None:
    labels = {"sink": "lake", "cluster": "east"}
    assert scrape.value("cluster_lag", **labels) == 130
    assert scrape.value("cluster_offsets_read_total", **labels) == 20
    assert scrape.value("cluster_commits_succeeded_total", **labels) == 3
    assert scrape.value("cluster_commits_failed_total", **labels) == 1
    assert scrape.value("cluster_records_read_total", **labels) == 12
    assert scrape.value("cluster_bytes_read_total", **labels) == 500
    assert scrape.value("cluster_event_time_lag_seconds", **labels) == 2.5


def test_a_cluster_is_idle_for_as_long_as_all_of_its_splits_are(board: StatusBoard) -> None:
    first, second = (Split("east", "orders", partition) for partition in (0, 1))
    board.update("lake", advanced_at={first: 20.0, second: 45.0})
    scrape = Scrape(board, FINE)
    idle = [scrape.value("split_idle_seconds", sink="lake", cluster="east", topic="orders", partition=p) for p in "01"]
    assert idle == [40, 15]
    assert scrape.value("cluster_idle_seconds", sink="lake", cluster="east") == 15


def test_event_time_lag_needs_timestamps_and_counts_need_reports(
    board: StatusBoard, scrape: Scrape, monkeypatch: pytest.MonkeyPatch
) -> None:
    west = {"sink": "lake", "cluster": "west"}
    assert scrape.value("cluster_records_read_total", **west) == 1
    assert scrape.value("cluster_event_time_lag_seconds", **west) is None
    monkeypatch.setattr(f"{__name__}.READS", {})
    monkeypatch.setattr(f"{__name__}.reads", lambda sink, active: {})
    quiet = Scrape(board, DiscoveryStatus(None, 0, None, None))
    assert quiet.value("cluster_records_read_total", **west) is None
    assert quiet.value("cluster_offsets_read_total", **west) == 10


def test_the_sink_has_sparks_names_for_lag(scrape: Scrape) -> None:
    lags = [scrape.value(f"{kind}OffsetsBehindLatest", sink="lake") for kind in ("min", "avg", "max")]
    assert lags == [20, 50, 90]
    assert scrape.value("restarts_total", sink="lake") == 2
    assert scrape.value("batch_seconds", sink="lake") == 1.5


FINE = DiscoveryStatus(None, 0, None, None)


def test_a_stream_shows_its_clock_and_the_split_that_holds_it(board: StatusBoard, scrape: Scrape) -> None:
    held = {"cluster": "west", "topic": "orders", "partition": 0}
    samples = {"sink": "lake", **held, "partition": "0"}
    assert scrape.value("clock_timestamp_seconds", sink="lake") is scrape.value("clock_held", **samples) is None
    before, after = (document(number, "east", "west", offset=10) for number in (2, 3))
    board.progress("lake", event(2, before, after, clock=1_700_000_000_500, clockHeldBy=held), 30.0)
    assert scrape.value("clock_timestamp_seconds", sink="lake") == 1_700_000_000.5
    assert scrape.value("clock_held", **samples) == 1


def test_a_stream_shows_the_announced_clusters(board: StatusBoard, scrape: Scrape) -> None:
    before, after = (document(number, "east", "west", offset=10) for number in (2, 3))
    board.progress("lake", event(2, before, after, clockWaitsFor=["old"], announcedTimedOut=["older"]), 30.0)
    waits = [scrape.value("clock_announced", sink="lake", cluster=name) for name in ("old", "older", "east")]
    assert waits == [1, 0, None]


def test_an_outage_is_seen_without_any_batch() -> None:
    fresh = Scrape(StatusBoard(["lake"]), FINE, silent=("east",))
    assert fresh.value("cluster_stalled", sink="lake", cluster="east") == 1


def test_an_outage_after_the_last_batch_removes_the_old_lag(board: StatusBoard) -> None:
    before = document(2, "east", "west", offset=10)
    planned = {"east": {"lag": 130}, "west": {"lag": 20}}
    board.progress("lake", event(2, before, document(3, "east", "west", offset=10), clusters=planned), 30.0)
    scrape = Scrape(board, FINE, silent=("east",))
    samples = {
        name: [scrape.value(name, sink="lake", cluster=cluster) for cluster in ("east", "west")]
        for name in ("cluster_stalled", "cluster_lag", "cluster_splits")
    }
    assert samples == {"cluster_stalled": [1, 0], "cluster_lag": [None, 20], "cluster_splits": [2, 1]}


def test_the_planners_report_is_taken_without_a_batch(board: StatusBoard) -> None:
    report = {
        "clusters": {"west": {"stalled": "no answer"}},
        "document": 2,
        "revision": "1",
        "waiting": {"new": "none"},
        "neverReached": ["new"],
    }
    foreign = {"startOffset": None, "endOffset": None, "latestOffset": {"topic": {"0": 1}}}
    board.idle("lake", {"batchId": 2, "sources": [{"endOffset": None, "latestOffset": report}, foreign]})
    scrape = Scrape(board, FINE)
    stalled = [scrape.value("cluster_stalled", sink="lake", cluster=name) for name in ("east", "west", "new")]
    assert stalled == [0, 1, 1]
    never = [scrape.value("cluster_never_reached", sink="lake", cluster=name) for name in ("east", "west", "new")]
    assert never == [0, 0, 1]
    assert scrape.value("batch", sink="lake") == 1


def test_series_are_there_before_the_first_batch_of_a_restart() -> None:
    board = StatusBoard(["lake"])
    board.restored("lake", [document(7, "east", "west", offset=10)], 20.0)
    scrape = Scrape(board, FINE)
    assert scrape.value("cluster_lag", sink="lake", cluster="east") == 130
    assert scrape.value("split_idle_seconds", sink="lake", cluster="west", topic="orders", partition="0") == 40
    assert scrape.value("cluster_offsets_read_total", sink="lake", cluster="east") == 0
    assert scrape.value("batch", sink="lake") is None


def test_metadata_trouble_is_seen(board: StatusBoard, scrape: Scrape) -> None:
    assert (scrape.value("metadata_failures"), scrape.value("metadata_rejected")) == (2, 1)
    fine = Scrape(board, FINE)
    assert fine.value("metadata_rejected") == 0
    report = {"clusters": {}, "document": 2, "revision": "1", "rejected": "topic 'x' does not exist"}
    board.idle("lake", {"sources": [{"latestOffset": report}]})
    assert fine.value("metadata_rejected") == 1


@pytest.mark.scenario(8)
@pytest.mark.scenario(35)
def test_series_vanish_with_their_cluster(board: StatusBoard, scrape: Scrape) -> None:
    assert "dynamic_kafka_split_current_offset" in scrape.names("west")
    assert scrape.value("active_splits", sink="lake", stream="st") == 3
    before = document(2, "east", "west", offset=10)
    board.progress("lake", event(2, before, document(3, "east", offset=10, parked="west")), 30.0)
    assert scrape.names("west") == set()
    assert scrape.value("active_splits", sink="lake", stream="st") == 2
    assert scrape.value("parked_splits", sink="lake", stream="st") == 1
    assert scrape.value("clusters", sink="lake", stream="st") == 1


@pytest.mark.parametrize("start", [None, "-"])
def test_the_first_batch_of_a_query_counts(start: Any) -> None:
    board = StatusBoard(["lake"])
    topic = TopicProgress("st", {0: 10}, starts={0: 4})
    first = OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress({"orders": topic})})
    report = {**event(0, first, first)}
    report["sources"][0]["startOffset"] = start
    board.progress("lake", report, 0.0)
    assert Scrape(board, FINE).value("cluster_offsets_read_total", sink="lake", cluster="east") == 6


def test_an_event_after_the_end_changes_no_state(board: StatusBoard) -> None:
    board.update("lake", state="finished")
    before = document(2, "east", "west", offset=10)
    status = board.progress("lake", event(2, before, document(3, "east", "west", offset=12)), 30.0)
    assert status is not None
    assert (status.state, status.batch) == ("finished", 2)


def test_a_repeated_event_counts_nothing_twice(board: StatusBoard, scrape: Scrape) -> None:
    again = event(1, document(1, "east", "west", offset=0), document(2, "east", "west", offset=10))
    board.progress("lake", again, 30.0)
    assert scrape.value("cluster_offsets_read_total", sink="lake", cluster="east") == 20


def test_a_source_of_another_kind_says_nothing() -> None:
    foreign = {"batchId": 0, "sources": [{"endOffset": {"topic": {"0": 1}}}, {"endOffset": None}]}
    assert StatusBoard(["lake"]).progress("lake", foreign, 0.0) is None


def test_the_live_table_shows_the_clock_and_what_holds_it(board: StatusBoard) -> None:
    before, after = (document(number, "east", "west", offset=10) for number in (2, 3))
    held = {"cluster": "west", "topic": "orders", "partition": 0}
    board.progress("lake", event(2, before, after, clock=1_700_000_000_500, clockHeldBy=held), 30.0)
    assert progress_table("app", board.sinks(), {}).caption == (
        "clock of lake: 2023-11-14 22:13:20Z, held by west/orders[0]"
    )
    board.progress("lake", event(3, before, after, clock=None, clockHeldBy=None, clockWaitsFor=["old"]), 30.0)
    assert progress_table("app", board.sinks(), {}).caption == "clock of lake: none yet, waits for old (announced)"


def test_the_live_table_shows_clusters_lag_and_trouble(board: StatusBoard) -> None:
    before = document(2, "east", "west", offset=10)
    stalled = {"east": {"stalled": "no answer"}}
    board.progress("lake", event(2, before, document(3, "east", offset=10, parked="west"), clusters=stalled), 30.0)
    board.update("lake", last_error="[READ_TIMEOUT cluster=east] no progress")
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(progress_table("orders", board.sinks(), ENDS))
    text = console.export_text()
    assert re.search(r"lake .* east .* 2 .* 130 .* stalled", text)
    assert re.search(r"west .* 1 .* parked", text)
    assert "[READ_TIMEOUT cluster=east]" in text


def test_a_finished_split_has_no_lag_and_is_marked() -> None:
    # Records behind a stop record are not read: their number must not alarm anybody
    topic = TopicProgress("st", {0: 10, 1: 10}, ended={0: 10})
    board = StatusBoard(["lake"])
    ended = OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress({"orders": topic})})
    board.restored("lake", [ended], 20.0)
    ends = {Split("east", "orders", 0): 50, Split("east", "orders", 1): 30}
    scrape = Scrape(board, FINE, ends=ends)

    def of(metric: str, partition: str) -> float | None:
        return scrape.value(metric, sink="lake", cluster="east", topic="orders", partition=partition)

    assert [of("split_finished", partition) for partition in "01"] == [1, 0]
    assert [of("split_lag", partition) for partition in "01"] == [0, 20]
    assert scrape.value("cluster_lag", sink="lake", cluster="east") == 20
    assert scrape.value("finished_splits", sink="lake", stream="st") == 1
    assert scrape.value("active_splits", sink="lake", stream="st") == 1
