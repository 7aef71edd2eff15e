"""Objects that are deleted, made anew, or damaged by hand: a successor is served, and nothing is settled too early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkastream_operator.handlers import watch
from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Ref
from tests.unit.operator.server import NAMESPACE, Operator, Server, rest
from tests.unit.operator.world import cluster

SPEC = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}}
DELETED = "2026-11-01T00:00:01Z"


def condition(server: Server, kind: str, resource: Any = SUBSCRIPTIONS, name: str = "app") -> tuple[str, str]:
    """Return status and reason of a condition."""
    stored = server.find(resource, name)
    assert stored is not None
    return next((entry["status"], entry["reason"]) for entry in stored["status"]["conditions"] if entry["type"] == kind)


@pytest.fixture
def server() -> Server:
    """Return a server on which the driver of `app` reads east and west."""
    server = Server()
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.put(STREAMS, "orders", {"clusters": [cluster("east"), cluster("west")], "drain": {"policy": "Immediate"}})
    return server


def test_a_subscription_stuck_in_deletion_blocks_no_successor(server: Server) -> None:
    server.put(SUBSCRIPTIONS, "a-former", SPEC)
    server.put(SUBSCRIPTIONS, "successor", SPEC)
    operator = Operator(server)
    operator.reconcile(SUBSCRIPTIONS, "successor")
    assert condition(server, "StreamsResolved", name="successor") == ("False", "ApplicationTaken")
    server.put(SUBSCRIPTIONS, "a-former", SPEC, deletionTimestamp=DELETED, finalizers=["somebody.else/waits"])
    operator.works()
    assert condition(server, "StreamsResolved", name="successor") == ("True", "Resolved")
    assert server.document() is not None


@pytest.mark.parametrize("how", ["MODIFIED", "DELETED"])
def test_a_successor_is_reconciled_when_its_turn_comes(how: str) -> None:
    seen: set[str] = set()

    async def story() -> None:
        api: Any = None
        operator = watch.Operator(api)
        operator._loop = asyncio.get_running_loop()
        for name in ("former", "successor", "of-another"):
            app = {"applicationRef": {"name": "other" if name == "of-another" else "app"}}
            operator.take(SUBSCRIPTIONS, "ADDED", subscription(name, "1", app))
        await asyncio.sleep(0)
        while operator.queue._waiting:
            await operator.queue.next()
        leaving = subscription("former", "2", {"applicationRef": {"name": "app"}})
        leaving["metadata"]["deletionTimestamp"] = DELETED
        operator.take(SUBSCRIPTIONS, how, leaving)
        await asyncio.sleep(0)
        seen.update(key.name for key in operator.queue._waiting if isinstance(key, Ref))

    asyncio.run(story())
    assert seen == {"former", "successor"}


def subscription(name: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription as a watch brings it."""
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": version}
    return {"metadata": meta, "spec": spec}


@pytest.mark.parametrize("at", ["yesterday", "2026-11-01T00:00:00"])
def test_a_damaged_time_in_a_status_stops_nothing(server: Server, at: str) -> None:
    server.subscription(updateStrategy="Restart")
    rest(server)
    server.report()
    rest(server)
    stored = server.find(SUBSCRIPTIONS)
    assert stored is not None
    before = server.document()
    server.put(SUBSCRIPTIONS, "app", stored["spec"], {"status": {**stored["status"], "restartedAt": at}})
    operator = Operator(server)
    operator.reconcile(SUBSCRIPTIONS)
    assert condition(server, "Ready")[0] == "True"
    server.put(STREAMS, "orders", {"clusters": [cluster("east"), cluster("west"), cluster("north")]})
    operator.reconcile(SUBSCRIPTIONS)
    assert server.document() != before


def test_a_new_stream_is_not_settled_before_its_document(server: Server) -> None:
    server.subscription(streams={"pattern": ".*"})
    rest(server)
    server.report()
    rest(server)
    server.put(STREAMS, "payments", {"clusters": [cluster("east", "payments")]})
    operator = Operator(server)
    operator.reconcile(STREAMS, "payments")
    assert condition(server, "Reconciling", STREAMS, "payments") == ("True", "RollingOut")
    rest(server)
    server.report()
    rest(server)
    assert condition(server, "Reconciling", STREAMS, "payments") == ("False", "Settled")


def test_a_stream_made_anew_is_not_safe_at_once(server: Server) -> None:
    """Its former life had east, and the driver still reads it."""
    server.subscription(updateStrategy="Reload")
    rest(server)
    server.report()
    rest(server)
    server.remove(STREAMS, "orders")
    operator = Operator(server)
    operator.reconcile(SUBSCRIPTIONS)
    document = server.document()
    assert document is not None
    assert "orders" not in document.streams
    server.put(STREAMS, "orders", {"clusters": [cluster("west")], "drain": {"policy": "Immediate"}})
    operator.reconcile(STREAMS, "orders")
    assert condition(server, "Drained", STREAMS, "orders") == ("False", "Draining")
    operator.works()
    server.report()
    operator.works()
    assert condition(server, "Drained", STREAMS, "orders") == ("True", "NothingDrains")
