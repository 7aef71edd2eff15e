"""The reporter between its sources and the pod: what it gathers, when it speaks, and that trouble stays its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.app.kubernetes.driver_report import PAUSE_S
from dynamic_kafka.app.kubernetes.pod import own_pod
from dynamic_kafka.app.kubernetes.reporter import CommittedProgress, Reporter
from dynamic_kafka.app.query.sink_status import StatusBoard
from dynamic_kafka.app.telemetry.drain_tracker import ClusterListing, DrainTracker
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.metadata.kubernetes_names import REPORT_BEAT_S
from dynamic_kafka.metadata.model import Rendering, Revision
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.support.api_server import TOKEN, FakeApiServer

REVISION = Revision("sha256:x", 17, "6f1c", Rendering("uid-of-subscription", {}))
SUMMARY = {"clusters": {}, "document": 1, "revision": "17", "lineage": "6f1c"}
EAST = {"east": frozenset({"old"})}


def document(number: int, next_offset: int, previous: str = "") -> OffsetDocument:
    east = ClusterProgress({"old": TopicProgress("orders", {0: next_offset})}, "K")
    return OffsetDocument("q", number, previous, clusters={"east": east})


class Application:
    """What a reporter sees of an application, and the reporter."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server, self.now = server, 1000.0
        self.found = DiscoveryStatus(REVISION, 0, None, None)
        self.board = StatusBoard(["lake", "mine"])
        self.board.update("lake", document=document(1, 5), summary=SUMMARY)
        self.board.update("mine", document=document(1, 5), summary=SUMMARY)
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
        """A round of listing, at the moment."""
        answer = ClusterObservation({"old": TopicObservation({0: end})}, "K")
        self.drains.take(EAST, {"east": ClusterListing(self.now, self.now, EAST["east"], answer)}, ())

    def after(self, seconds: float) -> list[dict[str, Any]]:
        """All reports there are, once this time has passed."""
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
    assert application.probing > 0, "the prober is there when something drains"


def test_a_new_revision_is_reported_when_the_planners_have_it(application: Application) -> None:
    application.after(1)
    application.found = replace(application.found, revision=replace(REVISION, counter=18))
    application.board.update("lake", summary={**SUMMARY, "revision": "18"})
    assert len(application.after(PAUSE_S)) == 1
    application.board.update("mine", summary={**SUMMARY, "revision": "18"})
    assert [each["applied"] for each in application.after(1)] == ["6f1c/17", "6f1c/18"]


def test_a_sink_that_has_finished_is_not_waited_for(application: Application) -> None:
    application.after(1)
    application.board.update("mine", state="finished")
    application.found = replace(application.found, revision=replace(REVISION, counter=18))
    application.board.update("lake", summary={**SUMMARY, "revision": "18"})
    assert [each["applied"] for each in application.after(PAUSE_S)] == ["6f1c/17", "6f1c/18"]


def test_a_document_that_is_not_the_operators_is_not_reported(application: Application) -> None:
    for revision in (None, replace(REVISION, rendering=None), replace(REVISION, counter=None)):
        application.found = replace(application.found, revision=revision)
        assert application.after(100) == []
    assert application.server.requests == []
    assert application.probing == 0


def test_while_a_topic_drains_every_beat_tells_how_far_it_is(application: Application) -> None:
    application.listed(7)
    assert application.after(1)[-1]["draining"] == [
        {"cluster": "east", "topic": "old", "lag": 2, "quiet": 0.0, "openTransaction": False, "kafkaId": "K"}
    ]
    for name in ("lake", "mine"):
        application.board.update(name, document=document(2, 7))
        application.listed(7)
        (told,) = application.after(REPORT_BEAT_S)[-1]["draining"]
        assert told["lag"] == (2 if name == "lake" else 0), "the sink that is behind counts"
    assert told["quiet"] == 11.0
    assert [each["beat"] for each in application.server.reports()] == [1, 2, 3]


def test_a_query_that_has_committed_nothing_since_it_is_there_has_no_known_lag(application: Application) -> None:
    application.board.update("mine", document=OffsetDocument())
    application.listed(5)
    assert application.after(1)[-1]["draining"][0]["lag"] is None


def test_what_is_refused_is_said_once_without_the_token_and_tried_again(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    application.server.refuse = (403, "pods is forbidden")
    for _ in range(5):
        application.after(PAUSE_S)
    assert len(application.server.requests) == 5

    application.server.refuse = None
    application.after(PAUSE_S)
    assert [each["beat"] for each in application.server.reports()] == [6]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("no reports to the operator, so drains cannot end; reading goes on: pods is forbidden; ")
    assert "needs a Role in namespace jobs" in said[0]
    assert said[1] == "reports to the operator get through again"
    assert TOKEN not in caplog.text


def test_whatever_is_raised_ends_neither_the_thread_nor_anything_else(
    application: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dynamic_kafka.app.kubernetes.reporter.POLL_S", 0.001)
    application.raising = 3
    application.reporter.start()
    try:
        application.server.wait(lambda: len(application.server.requests) == 2, "the report", 20)
    finally:
        application.reporter.stop()
    assert caplog.text.count("RuntimeError: a bug") == 1


# -- what was left out ---------------------------------------------------------------------------------------------


def left_out(of: OffsetDocument, start: int, end: int) -> Amendment:
    part = SplitRange(Split("east", "old", 0), start, end)
    return Amendment(of.query, of.number, of.previous, fingerprint(of), (part,), {"east": "unreachable"}, 1)


def test_what_a_committed_batch_had_to_leave_out_is_not_read(tmp_path: Path) -> None:
    board, uri = StatusBoard(["lake"]), str(tmp_path / "state")
    progress = CommittedProgress(board, {"lake": uri})
    ended = document(2, 9, fingerprint(document(1, 5)))
    StateLocation(uri).save_amendment(left_out(ended, 5, 9))

    board.update("lake", document=ended)
    (found,) = progress.documents()
    assert found is not None
    assert found.next_of(Split("east", "old", 0)) == 5

    board.update("lake", document=document(3, 9, fingerprint(ended)))
    (found,) = progress.documents()
    assert found is not None
    assert found.next_of(Split("east", "old", 0)) == 9


def test_nothing_is_known_before_the_first_commit_or_while_the_state_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    board, folder = StatusBoard(["lake"]), tmp_path / "state"
    progress = CommittedProgress(board, {"lake": str(folder)})
    assert progress.documents() == [None]

    board.update("lake", document=document(1, 5))
    (folder / "q" / "amendments").mkdir(parents=True)
    (folder / "q" / "amendments" / "1.json").write_text("{")
    assert [progress.documents(), progress.documents()] == [[None], [None]]
    assert caplog.text.count("what drains has no known lag for now") == 1

    (folder / "q" / "amendments" / "1.json").unlink()
    assert progress.documents() == [document(1, 5)]


def test_without_a_state_location_nothing_was_left_out() -> None:
    board = StatusBoard(["lake"])
    board.update("lake", document=document(1, 5))
    assert CommittedProgress(board, {"lake": None}).documents() == [document(1, 5)]
