"""Other writers, a front end in place of the API server, and events between a write and its note."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import kopf
import pytest

from dynamic_kafka.contract.kubernetes_names import STREAMS_ANNOTATION
from kafkastream_operator.core.contest import MEMORY, pause_after
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.errors import NotFoundError
from kafkastream_operator.handlers import watch
from kafkastream_operator.handlers.health import Health
from kafkastream_operator.kube.api import CONFIG_MAPS, EVENTS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Ref
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.recorded_states import contested
from tests.unit.operator.server import DOCUMENT, Operator, Server, rest
from tests.unit.operator.test_watch import LABEL, config_map
from tests.unit.operator.test_watch import Server as Nothing
from tests.unit.operator.world import cluster, running


def test_a_second_writer_of_a_subscription_is_fought_slowly() -> None:
    server = Server()
    server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations={STREAMS_ANNOTATION: "orders"})
    server.stream(cluster("east"))
    rest(server)
    operator = Operator(server)
    before = len(server.writes)
    for _ in range(50):  # within one second: a GitOps tool or another controller applies its own manifest
        stored = server.find(SUBSCRIPTIONS)
        assert stored is not None
        server.put(
            SUBSCRIPTIONS, "app", {**stored["spec"], "updateStrategy": "Reload"}, labels=stored["metadata"]["labels"]
        )
        operator.works()
    applied = [call for call in server.writes[before:] if (call.method, call.plural) == ("PATCH", SUBSCRIPTIONS.plural)]
    assert 2 <= len(applied) < 10
    reasons = [
        write.body["reason"] for write in server.writes if "somebody keeps changing" in write.body.get("note", "")
    ]
    assert reasons == ["SubscriptionTakenBack"]


@pytest.mark.parametrize("how", ["deleted", "edited", "an older one"])
def test_a_second_writer_of_the_document_is_fought_slowly(how: str) -> None:
    server = Server()
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.stream(cluster("east"))
    server.subscription()
    rest(server)
    older = server.find(CONFIG_MAPS, DOCUMENT)
    assert older is not None
    server.stream(cluster("east", "orders", "retry"))
    rest(server)
    newest, operator = server.document(), Operator(server)
    operator.works()
    before = len(server.writes)
    for _ in range(200):  # within one second: a GitOps tool that prunes, or another controller
        if how == "deleted":
            server.remove(CONFIG_MAPS, DOCUMENT)
        else:
            content = {"data": {"streams.json": "{}"} if how == "edited" else older["data"]}
            server.put(CONFIG_MAPS, DOCUMENT, {}, content, labels=older["metadata"]["labels"])
        operator.works()
    assert [write.plural for write in server.writes[before:]].count("configmaps") == 2
    expected = ["Restored", "Restored", "DocumentContested"]
    assert [event["reason"] for event in events_since(server, before)] == expected
    assert ready(server) == ("False", "DocumentContested")
    server.now += timedelta(seconds=1)
    operator.works()
    assert server.document() == newest
    assert ready(server) == ("False", "DocumentContested")  # the other writer may come again
    server.now += MEMORY
    operator.works()
    assert ready(server)[1] != "DocumentContested"
    assert [event["reason"] for event in events_since(server, before) if event["reason"] in expected] == expected


def test_a_new_revision_waits_for_no_contest() -> None:
    world = contested()
    world.stream("orders", cluster("east"), cluster("west")).look()
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.condition("Ready") == ("False", "DocumentContested")


def test_no_driver_is_restarted_onto_a_foreign_document() -> None:
    world = running(updateStrategy="Restart").later(hours=1)
    world.timing = replace(world.timing, gather=timedelta(seconds=1))
    world.stream("orders", cluster("east"), cluster("west")).look()
    for _ in range(3):
        world.edited = True
        world.look()
    world.later(seconds=1)
    world.status = replace_restored(world.status, at=world.now)
    assert (world.edited, world.look().effect) == (True, None)
    assert world.status.rollout is not None
    assert world.status.rollout.phase == "Pending"
    world.later(seconds=60).settle()
    assert (world.edited, world.patches) == (False, 1)


def test_the_pause_in_a_contest_has_a_bound() -> None:
    assert [pause_after(count).total_seconds() for count in (0, 1, 2, 3, 8, 10_000)] == [0, 0, 1, 2, 60, 60]


def replace_restored(status: SubscriptionStatus, *, at: datetime) -> SubscriptionStatus:
    """Return the status as after twenty restorations, the last one at this time."""
    assert status.rendered is not None
    rendered = status.rendered.model_copy(update={"restored": 20, "restored_at": stamp(at)})
    return status.model_copy(update={"rendered": rendered})


def events_since(server: Server, count: int) -> list[Mapping[str, Any]]:
    """Return the Events among the writes after so many."""
    return [write.body for write in server.writes[count:] if write.plural == EVENTS.plural]


def ready(server: Server) -> tuple[str, str]:
    """Return status and reason of the subscription's `Ready`."""
    stored = server.find(SUBSCRIPTIONS)
    assert stored is not None
    return next((flag["status"], flag["reason"]) for flag in stored["status"]["conditions"] if flag["type"] == "Ready")


def test_an_event_between_a_write_and_its_note_counts() -> None:
    """A worker's thread caches the answer to a write, while the event loop caches the watch event of the same write."""
    seconds = [0.0]
    health = Health(lambda: seconds[0])
    api: Any = Nothing()
    operator = watch.Operator(api, health=health)

    async def story() -> None:
        await operator._start(settings=kopf.OperatorSettings())
        handle = operator._handler(CONFIG_MAPS)
        await handle({"type": "ADDED", "object": config_map(1, **LABEL)})
        look, between = operator.cache.on_change, threading.Event()

        def pause_between(ref: Ref, before: Any, after: Any) -> None:
            between.set()
            time.sleep(0.2)  # the worker's thread has to wait
            look(ref, before, after)

        operator.cache.on_change = pause_between
        worker = asyncio.create_task(asyncio.to_thread(operator.cache.put, CONFIG_MAPS, config_map(2, **LABEL)))
        await asyncio.to_thread(between.wait, 10)
        await handle({"type": "MODIFIED", "object": config_map(2, **LABEL)})
        await worker
        await operator._stop()

    asyncio.run(story())
    seconds[0] += 3600
    health.enter("serving")
    health.watches.record_listing(True)
    assert health.live() == (True, "serving")


def absent(*_: Any, **__: Any) -> Any:
    raise NotFoundError("GET", 404, "Not Found", "default backend - 404")


@pytest.mark.parametrize("after_s", [0, 3600])
def test_an_object_wrongly_reported_missing_is_listed_again(after_s: float) -> None:
    server = Server()
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.stream(cluster("east"), cluster("west"))
    server.subscription()
    rest(server)
    server.report()
    server.stream(cluster("east"))
    operator = Operator(server)
    operator.works()
    assert safe(server) == "False"  # west drains
    well = server.get, server.replace
    server.get = server.replace = absent  # type: ignore[method-assign]
    server.subscription(updateStrategy="Reload")  # so that its status has to be written
    operator.works()
    server.get, server.replace = well  # type: ignore[method-assign]
    server.now += timedelta(seconds=after_s)
    operator.works()  # the resync, as every five minutes
    assert (operator._cache.get(SUBSCRIPTIONS, "ns", "app") is not None, safe(server)) == (True, "False")


def safe(server: Server) -> str:
    """Return the status of the stream's `Drained`."""
    stream = server.find(STREAMS, "orders")
    assert stream is not None
    return next(entry["status"] for entry in stream["status"]["conditions"] if entry["type"] == "Drained")
