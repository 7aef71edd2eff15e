"""Which failures restart a query in the process."""

from __future__ import annotations

import pytest

from dynamic_kafka.app.restarts import MAX_IN_VAIN, MAX_PAUSE_S, RestartPolicy

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
