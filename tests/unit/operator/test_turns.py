"""The restarts as workers begin them: one after the other, and each when its turn has come."""

from __future__ import annotations

import threading
from typing import Any

from kafkastream_operator.core.rollout.budget import Limits
from kafkastream_operator.handlers.restarts import Restarts
from kafkastream_operator.kube.api import SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.test_budget import status

A, B, C = (Ref(SUBSCRIPTIONS, "ns", name) for name in "abc")
WAITING, PATCHED = status("Pending", "Queued"), status("Patched", "RollingOut")


def put(cache: Cache, job: Ref, stored_status: SubscriptionStatus, version: int = 1) -> None:
    """Store a subscription with this status."""
    meta: dict[str, Any] = {"name": job.name, "namespace": "ns", "uid": job.name, "resourceVersion": str(version)}
    content = {"status": stored_status.model_dump(by_alias=True), "spec": {"applicationRef": {"name": job.name}}}
    cache.put(SUBSCRIPTIONS, {"metadata": meta, **content})


def cached(**statuses: SubscriptionStatus) -> Cache:
    cache = Cache()
    for name, stored_status in statuses.items():
        put(cache, Ref(SUBSCRIPTIONS, "ns", name), stored_status)
    return cache


def test_the_next_restart_is_woken_when_one_ends() -> None:
    woken: list[Ref] = []
    cache = cached(a=PATCHED, b=WAITING, c=WAITING)
    restarts = Restarts(cache, Limits(1, 1), woken.append)
    with restarts.taking_turns(A):
        pass
    assert woken == []
    with restarts.taking_turns(A):
        put(cache, A, status("Confirmed", "Confirmed"), version=2)
    assert woken == [B]


def test_two_workers_do_not_take_the_same_turn() -> None:
    cache = cached(b=WAITING, c=status("Pending", "Queued", rollout={"attempts": 1}))
    restarts, hindrances = Restarts(cache, Limits(1, 1)), list[str]()

    def other_worker() -> None:
        with restarts.taking_turns(B) as turn:
            assert turn is not None
            hindrances.append(turn.hindrance)

    worker = threading.Thread(target=other_worker)
    with restarts.taking_turns(C) as turn:
        assert turn is not None
        assert turn.hindrance == ""
        worker.start()
        worker.join(10)
        assert not worker.is_alive(), "it waits for the writes of the first one"
    assert [hindrance.partition(". ")[0] for hindrance in hindrances] == [
        "as many restarts are in flight or about to begin as --max-restarts allows (1): c"
    ]


def test_nothing_waits_for_a_subscription_that_is_deleted() -> None:
    cache = cached(b=WAITING, c=WAITING)
    known = dict(cache.get(*B) or {})
    cache.put(
        SUBSCRIPTIONS, {**known, "metadata": {**known["metadata"], "deletionTimestamp": "now", "resourceVersion": "2"}}
    )
    with Restarts(cache, Limits(1, 1)).taking_turns(C) as turn:
        assert turn is not None
        assert (turn.place, turn.hindrance) == (1, "")
