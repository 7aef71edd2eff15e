"""Other writers, a front end in place of the API server, and events between a write and its note."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import kopf
import pytest

from dynamic_kafka.metadata.kubernetes_names import STREAMS_ANNOTATION
from kafkastream_operator.errors import NotFoundError
from kafkastream_operator.handlers import watch
from kafkastream_operator.handlers.health import Health
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Ref
from tests.unit.operator.server import Operator, Server, rest
from tests.unit.operator.test_watch import LABEL, config_map
from tests.unit.operator.test_watch import Server as Nothing
from tests.unit.operator.world import cluster


def test_a_second_writer_of_a_subscription_is_fought_slowly() -> None:
    server = Server()
    server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations={STREAMS_ANNOTATION: "orders"})
    server.stream(cluster("east"))
    rest(server)
    operator = Operator(server)
    before = len(server.writes)
    for _ in range(50):  # within one second: a GitOps tool or another controller applies its own manifest
        found = server.find(SUBSCRIPTIONS)
        assert found is not None
        server.put(
            SUBSCRIPTIONS, "app", {**found["spec"], "updateStrategy": "Reload"}, labels=found["metadata"]["labels"]
        )
        operator.works()
    applied = [each for each in server.writes[before:] if (each.method, each.plural) == ("PATCH", SUBSCRIPTIONS.plural)]
    assert 2 <= len(applied) < 10
    reasons = [each.body["reason"] for each in server.writes if "somebody keeps changing" in each.body.get("note", "")]
    assert reasons == ["SubscriptionTakenBack"]


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

        def pause_between(ref: Ref, found: Any) -> None:
            between.set()
            time.sleep(0.2)  # the worker's thread has to wait
            look(ref, found)

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
    """Return the status of the stream's `SafeToDecommission`."""
    found = server.find(STREAMS, "orders")
    assert found is not None
    return next(each["status"] for each in found["status"]["conditions"] if each["type"] == "SafeToDecommission")
