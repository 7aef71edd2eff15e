"""The failures after which a query is restarted within the process."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.app.query.sink_query import MAX_IN_VAIN, MAX_PAUSE_S, RestartPolicy
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.app.query.supervisor import Supervisor
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.errors import ReadTimeoutError
from dynamic_kafka.kafka.commits import GroupCommitter
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress

TIMEOUT = "Task failed: dynamic_kafka.errors.ReadTimeoutError: [READ_TIMEOUT cluster=east] no progress"


def policy(*, stall: bool, named: bool = True) -> RestartPolicy:
    return RestartPolicy(stall=stall, is_named=lambda _: named, pause_s=1)


@pytest.mark.parametrize(
    ("stall", "named", "restarts"),
    [(True, True, True), (True, False, True), (False, False, True), (False, True, False)],
)
def test_a_hanging_cluster_restarts_under_stall_or_if_removed(stall: bool, named: bool, restarts: bool) -> None:
    assert (policy(stall=stall, named=named).pause_before(TIMEOUT) is not None) == restarts


@pytest.mark.parametrize("text", ["[CLUSTER_ERROR cluster=east] wrong password", "DataLossError: gone", "/ by zero"])
def test_other_failures_end_the_application(text: str) -> None:
    assert policy(stall=True).pause_before(text) is None


def test_a_cluster_that_refuses_us_is_left_out_under_stall() -> None:
    refused = "dynamic_kafka.errors.ClusterRefusedError: [CLUSTER_REFUSED cluster=east] the login"
    assert policy(stall=True).pause_before(refused) == 1
    assert policy(stall=False).pause_before(refused) is None


def test_restarts_in_vain_wait_longer_and_end() -> None:
    restarts = policy(stall=True)
    pauses = [restarts.pause_before(TIMEOUT) for _ in range(MAX_IN_VAIN)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == MAX_PAUSE_S
    assert restarts.pause_before(TIMEOUT) is None


def test_a_committed_batch_begins_the_count_anew() -> None:
    restarts = policy(stall=True)
    for _ in range(5):
        restarts.pause_before(TIMEOUT)
    restarts.progressed()
    assert restarts.pause_before(TIMEOUT) == 1


def test_the_end_does_not_wait_for_the_cluster_that_caused_it() -> None:
    waited: list[Any] = []
    committer = SimpleNamespace(flush=lambda left, unreachable: waited.append(unreachable) or True, close=lambda: None)
    query = SimpleNamespace(query=None, finished=True, failure=None, committer=committer, commit_reached=lambda: None)
    query.sink = SimpleNamespace(name="lake")
    supervisor: Any = Supervisor.__new__(Supervisor)
    supervisor._config = SimpleNamespace(file=SimpleNamespace(grace_period=30_000))
    supervisor._stop, supervisor._queries = StopRequest(), {"lake": query}
    supervisor._board, supervisor._internal = StatusBoard(["lake"]), None
    supervisor.reason = f"ReadTimeoutError: {ReadTimeoutError('east', 'no progress')}"
    assert supervisor._end(ExitCode.CLUSTER) == ExitCode.CLUSTER
    assert waited == [["east"]]


def test_nobody_waits_for_the_commits_of_a_hopeless_cluster() -> None:
    released = threading.Event()

    def reach(cluster: str) -> Any:
        released.wait(60)
        raise KeyError(cluster)

    committer = GroupCommitter("group", reach)
    east = ClusterProgress({"orders": TopicProgress("st", {0: 5})})
    committer.commit(OffsetDocument("q", 1, "p", clusters={"east": east}))
    began = time.monotonic()
    assert not committer.flush(60, unreachable=["east"])
    assert time.monotonic() - began < 30
    released.set()
    assert committer.flush(60)
    committer.close()
