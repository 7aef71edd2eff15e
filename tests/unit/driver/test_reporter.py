"""The reporter: what it gathers, when it reports, and that its failures affect nothing else."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.contract.kubernetes_names import DRAIN_REPORT_INTERVAL_S, REPORT_ANNOTATION
from dynamic_kafka.driver.report.drain_tracker import ClusterListing, DrainTracker
from dynamic_kafka.driver.report.pod import own_pod
from dynamic_kafka.driver.report.report_content import CLOCK_STANDS_S, MAX_REASON, REPORT_INTERVAL_S
from dynamic_kafka.driver.report.reporter import CommittedProgress, Reporter
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.metadata.model import Rendering, Revision
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.store import StateLocation
from tests.support.api_server import TOKEN, FakeApiServer

REVISION = Revision("sha256:x", 17, "6f1c", Rendering("uid-of-subscription", {}))
SUMMARY = {"clusters": {}, "document": 1, "revision": "17", "lineage": "6f1c"}
EAST = {"east": frozenset({"old"})}


def document(number: int, next_offset: int, previous: str = "") -> OffsetDocument:
    east = ClusterProgress({"old": TopicProgress("orders", {0: next_offset})}, "K")
    return OffsetDocument("q", number, previous, clusters={"east": east})


class Application:
    """An application as its reporter sees it, with the reporter."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server, self.now = server, 1000.0
        self.found = DiscoveryStatus(REVISION, 0, None, None)
        self.board = StatusBoard(["lake", "mine"])
        self.board.update("lake", document=document(1, 5), summaries=(SUMMARY,))
        self.board.update("mine", document=document(1, 5), summaries=(SUMMARY,))
        self.drains = DrainTracker()
        self.probing = self.raising = 0
        pod = own_pod(server.environment(), None, "host")
        assert pod is not None
        self.reporter = Reporter(
            pod,
            cast(Any, SimpleNamespace(status=self.status)),
            self.board,
            CommittedProgress(self.board, {}),
            prober=cast(Any, SimpleNamespace(start=self.probe)),
            drains=self.drains,
            clock=lambda: self.now,
        )

    def status(self) -> DiscoveryStatus:
        if self.raising > 0:
            self.raising -= 1
            raise RuntimeError("a bug")
        return self.found

    def probe(self) -> None:
        self.probing += 1

    def listed(self, end: int) -> None:
        """Let the prober list cluster east now, with this end offset."""
        answer = ClusterObservation({"old": TopicObservation({0: end})}, "K")
        self.drains.record(EAST, {"east": ClusterListing(self.now, self.now, EAST["east"], answer)}, ())

    def after(self, seconds: float) -> list[dict[str, Any]]:
        """Let this many seconds pass, and return all reports so far."""
        self.now += seconds
        self.reporter.step()
        return self.server.reports()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    with FakeApiServer(tmp_path) as started:
        yield started


@pytest.fixture
def application(server: FakeApiServer) -> Application:
    return Application(server)


def test_what_is_in_force_is_reported_once(application: Application) -> None:
    (report,) = application.after(1)
    assert (report["applied"], report["subscription"], report["pod"]) == (
        "6f1c/17",
        "uid-of-subscription",
        "uid-of-pod",
    )
    assert len(application.after(100)) == 1
    assert application.probing > 0, "the prober runs before the first drain"


def test_a_revision_is_reported_when_all_planners_have_it(application: Application) -> None:
    application.after(1)
    application.found = replace(application.found, revision=replace(REVISION, counter=18))
    application.board.update("lake", summaries=({**SUMMARY, "revision": "18"},))
    assert len(application.after(REPORT_INTERVAL_S)) == 1
    application.board.update("mine", summaries=({**SUMMARY, "revision": "18"},))
    assert [report["applied"] for report in application.after(1)] == ["6f1c/17", "6f1c/18"]


def test_a_finished_sink_does_not_delay_a_revision(application: Application) -> None:
    application.after(1)
    application.board.update("mine", state="finished")
    application.found = replace(application.found, revision=replace(REVISION, counter=18))
    application.board.update("lake", summaries=({**SUMMARY, "revision": "18"},))
    assert [report["applied"] for report in application.after(REPORT_INTERVAL_S)] == ["6f1c/17", "6f1c/18"]


def test_a_document_of_a_user_is_not_reported(application: Application) -> None:
    for revision in (None, replace(REVISION, rendering=None), replace(REVISION, counter=None)):
        application.found = replace(application.found, revision=revision)
        assert application.after(100) == []
    assert application.server.requests == []
    assert application.probing == 0


def test_a_draining_topic_is_reported_every_ten_seconds(application: Application) -> None:
    application.listed(7)
    (topic,) = application.after(1)[-1]["draining"]
    assert topic == {
        "cluster": "east",
        "topic": "old",
        "lag": 2,
        "quiet": 0.0,
        "openTransaction": False,
        "kafkaId": "K",
        "neverReached": False,
        "finished": False,
    }
    for name in ("lake", "mine"):
        application.board.update(name, document=document(2, 7))
        application.listed(7)
        (topic,) = application.after(DRAIN_REPORT_INTERVAL_S)[-1]["draining"]
        assert topic["lag"] == (2 if name == "lake" else 0), "the slowest sink counts"
    assert topic["quiet"] == 11.0
    assert [report["beat"] for report in application.server.reports()] == [1, 2, 3]


def test_a_cluster_that_was_never_reached_is_reported(application: Application) -> None:
    # Given a cluster that drains, that one of two queries has never reached, and the other one may have
    waits = {"neverReached": ["east"], "waiting": {"east": "east has the bootstrap servers x:1" + 1000 * "."}}
    empty = OffsetDocument("q", 3, "p")
    for name in ("lake", "mine"):
        application.board.update(name, document=empty)
    application.board.update("lake", summaries=({**SUMMARY, **waits},))
    application.drains.record(EAST, {}, failed=["east"])

    # Then the report names it, with a cause of limited length, and it drains on
    report = application.after(1)[-1]
    assert [(entry["cluster"], entry["reason"][:20]) for entry in report["neverReached"]] == [
        ("east", "east has the bootstr")
    ]
    assert len(report["neverReached"][0]["reason"]) == MAX_REASON
    assert (report["draining"][0]["neverReached"], report["draining"][0]["lag"]) == (False, None)

    # And when neither has, and neither has read it, nothing of it drains
    application.board.update("mine", summaries=({**SUMMARY, **waits},))
    assert application.after(DRAIN_REPORT_INTERVAL_S)[-1]["draining"][0]["neverReached"] is True
    application.board.update("mine", document=document(2, 7))
    assert application.after(DRAIN_REPORT_INTERVAL_S)[-1]["draining"][0]["neverReached"] is False
    application.board.update("mine", document=empty)
    application.listed(5)
    assert application.after(DRAIN_REPORT_INTERVAL_S)[-1]["draining"][0]["neverReached"] is False


def test_a_cluster_without_an_answer_yet_is_reported(application: Application) -> None:
    application.board.update("lake", summaries=({**SUMMARY, "unanswered": ["west", "east"]},))
    assert application.after(1)[-1]["unanswered"] == ["east", "west"]
    application.board.update("lake", summaries=(SUMMARY,))
    assert application.after(REPORT_INTERVAL_S)[-1]["unanswered"] == []


def test_a_clock_that_stands_is_reported(application: Application) -> None:
    stands = {**SUMMARY, "clusters": {"east": {"lag": 5}}, "clock": 7, "clockHeldBy": None}
    application.board.update("lake", summaries=(stands,), triggered_at="1")
    assert application.after(1)[-1]["standingClocks"] == []
    application.after(CLOCK_STANDS_S)
    application.board.update("lake", summaries=(stands,), triggered_at="2")
    [clock] = application.after(REPORT_INTERVAL_S)[-1]["standingClocks"]
    assert (clock["query"], clock["clock"]) == ("lake", 7)


def test_a_query_without_a_committed_batch_has_no_known_lag(application: Application) -> None:
    application.board.update("mine", document=OffsetDocument())
    application.listed(5)
    assert application.after(1)[-1]["draining"][0]["lag"] is None


def test_a_refused_report_is_retried_and_logged_once(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    application.server.refuse = (403, "pods is forbidden")
    for _ in range(5):
        application.after(REPORT_INTERVAL_S)
    assert len(application.server.requests) == 5

    application.server.refuse = None
    application.after(REPORT_INTERVAL_S)
    assert [report["beat"] for report in application.server.reports()] == [6]
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 2
    assert logged[0].startswith("cannot report to the operator, so drains cannot end; reading goes on: pods is ")
    assert "needs a Role in namespace jobs" in logged[0]
    assert logged[1] == "reporting to the operator works again"
    assert TOKEN not in caplog.text


def test_an_unexpected_error_does_not_end_the_thread(
    application: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dynamic_kafka.driver.report.reporter.POLL_S", 0.001)
    application.raising = 3
    application.reporter.start()
    try:
        application.server.wait(lambda: len(application.server.requests) == 2, "the report", 20)
    finally:
        application.reporter.stop()
    assert caplog.text.count("RuntimeError: a bug") == 1


OVER = OffsetDocument("q", 2, "", over=True)


def test_the_end_of_all_queries_is_the_last_report(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a report a moment ago, and an API server that is away for a moment
    monkeypatch.setattr("dynamic_kafka.driver.report.reporter.POLL_S", 0.001)
    application.board.update("lake", summaries=({**SUMMARY, "openSplits": ["east/old[0]"]},))
    (running,) = application.after(1)
    assert (running["finished"], running["openSplits"]) == (False, ["east/old[0]"])
    application.server.refuse = (503, "starting")
    application.reporter.start()

    # When one query ends, then the other one
    application.board.update("lake", document=OVER, state="finished")
    assert application.after(REPORT_INTERVAL_S)[-1]["finished"] is False
    application.board.update("mine", document=OVER, state="finished")
    application.server.wait(lambda: len(application.server.requests) > 5, "refused reports", 20)
    application.server.refuse = None
    application.reporter.stop()

    # Then the report is there once the reporter has stopped
    last = json.loads(application.server.annotations[REPORT_ANNOTATION])
    assert (last["finished"], last["openSplits"], last["applied"]) == (True, [], "6f1c/17")


@pytest.mark.parametrize("ended", [{"state": "stopped", "document": OVER}, {"state": "finished"}])
def test_a_query_that_would_read_on_is_not_finished(application: Application, ended: dict[str, Any]) -> None:
    application.board.update("lake", document=OVER, state="finished")
    application.board.update("mine", **ended)  # by a signal; or at the end of `availableNow`
    assert application.after(1)[-1]["finished"] is False


# -- amendments ----------------------------------------------------------------------------------------------------


def left_out(of: OffsetDocument, start: int, end: int) -> Amendment:
    part = SplitRange(Split("east", "old", 0), start, end)
    return Amendment(of.query, of.number, of.previous, fingerprint(of), (part,), {"east": "unreachable"}, 1)


def test_ranges_that_a_batch_left_out_count_as_unread(tmp_path: Path) -> None:
    board, uri = StatusBoard(["lake"]), str(tmp_path / "state")
    progress = CommittedProgress(board, {"lake": uri})
    ended = document(2, 9, fingerprint(document(1, 5)))
    StateLocation(uri).save_amendment(left_out(ended, 5, 9))

    board.update("lake", document=ended)
    (saved,) = progress.documents()
    assert saved is not None
    assert saved.next_of(Split("east", "old", 0)) == 5

    board.update("lake", document=document(3, 9, fingerprint(ended)))
    (saved,) = progress.documents()
    assert saved is not None
    assert saved.next_of(Split("east", "old", 0)) == 9


def test_progress_is_unknown_without_a_commit_or_readable_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    board, folder = StatusBoard(["lake"]), tmp_path / "state"
    progress = CommittedProgress(board, {"lake": str(folder)})
    assert progress.documents() == [None]

    board.update("lake", document=document(1, 5))
    (folder / "q" / "amendments").mkdir(parents=True)
    (folder / "q" / "amendments" / "000000000001-s-e-1.json").write_text("{")
    assert [progress.documents(), progress.documents()] == [[None], [None]]
    assert caplog.text.count("the lag of draining topics is unknown") == 1

    (folder / "q" / "amendments" / "000000000001-s-e-1.json").unlink()
    assert progress.documents() == [document(1, 5)]


def test_without_a_state_location_there_are_no_amendments() -> None:
    board = StatusBoard(["lake"])
    board.update("lake", document=document(1, 5))
    assert CommittedProgress(board, {"lake": None}).documents() == [document(1, 5)]
