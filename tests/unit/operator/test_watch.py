"""What has to go on beside kopf's handlers: it goes on, or the probe for liveness tells."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import kopf
import pytest

from dynamic_kafka.metadata import kubernetes_names as contract
from dynamic_kafka.metadata.kubernetes_names import SUBSCRIPTION_LABEL
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers import watch
from kafkastream_operator.handlers.health import Health
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, SUBSCRIPTIONS, Listing, Resource
from kafkastream_operator.kube.cache import Ref


class Server:
    """Has nothing to list; each listing but the first of each kind fails, once it is told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.listed = threading.Semaphore(0)

    def list(self, *_: Any, **__: Any) -> Listing:
        self.listed.release()
        if self.error is not None:
            raise self.error
        return Listing([], 1)


def started(operator: Operator) -> Any:
    """Its beginning, as kopf calls it."""
    return operator._start(settings=kopf.OperatorSettings())


def test_a_queue_that_has_ended_is_not_live() -> None:
    server: Any = Server()
    operator = Operator(server)
    queue: Any = operator.queue

    async def fails() -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [OverflowError()])

    async def story() -> None:
        queue.run = fails
        await started(operator)
        await asyncio.gather(*operator._tasks[1:2], return_exceptions=True)
        assert operator.health.live() == (False, "broken: see the log")
        await operator._stop()

    asyncio.run(story())


def test_who_is_stopped_is_not_broken() -> None:
    server: Any = Server()
    operator = Operator(server)

    async def story() -> None:
        await started(operator)
        await operator._stop()
        assert operator.health.live() == (True, "serving")

    asyncio.run(story())


def test_a_listing_that_fails_in_a_way_that_nobody_thought_of_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "UNWATCHED_LISTING_S", 0.01)
    server = Server()
    api: Any = server
    operator = Operator(api)

    async def story() -> None:
        await started(operator)
        server.error = KeyError("metadata")
        first = len(watch.WATCHED)
        for _ in range(first + 3):
            assert await asyncio.to_thread(server.listed.acquire, True, 30)
        assert operator.health.live()[0]
        await operator._stop()

    asyncio.run(story())


def config_map(version: int, **labels: str) -> dict[str, Any]:
    """A ConfigMap in one of its forms."""
    meta = {"name": "one", "namespace": "ns", "uid": "u", "creationTimestamp": "x", "labels": labels}
    return {"metadata": {**meta, "resourceVersion": str(version)}, "data": {}}


LABEL = {contract.ROLE_LABEL: contract.METADATA_ROLE}


def hears(then: Callable[[Operator, Any], None]) -> bool:
    """Whether an operator is live an hour after its watch has told of a ConfigMap, and then this has happened."""
    seconds = [0.0]
    health = Health(lambda: seconds[0])
    server: Any = Server()
    operator = Operator(server, health=health)

    async def story() -> None:
        await started(operator)
        tells = operator._handler(CONFIG_MAPS)
        await tells({"type": "ADDED", "object": config_map(1, **LABEL)})
        then(
            operator, lambda version: asyncio.ensure_future(tells({"type": "", "object": config_map(version, **LABEL)}))
        )
        for _ in range(3):
            await asyncio.sleep(0)
        await operator._stop()

    asyncio.run(story())
    seconds[0] += 3600
    health.enter("serving")
    health.watches.record_listing(True)
    return health.live()[0]


def test_a_watch_that_tells_of_nothing_that_is_written_is_not_live() -> None:
    assert not hears(lambda operator, tells: operator.cache.put(CONFIG_MAPS, config_map(2, **LABEL)) and None)


def test_a_watch_that_tells_later_or_of_what_is_known_is_live() -> None:
    def written_and_told(operator: Operator, tells: Any) -> None:
        operator.cache.put(CONFIG_MAPS, config_map(2, **LABEL))
        tells(2)

    assert hears(written_and_told)
    assert hears(lambda operator, tells: tells(2))


def test_nothing_is_expected_of_a_watch_where_nothing_changes_or_where_it_does_not_look() -> None:
    assert hears(lambda operator, tells: None)
    assert hears(lambda operator, tells: operator.cache.put(CONFIG_MAPS, config_map(1, **LABEL)) and None)
    assert hears(lambda operator, tells: operator.cache.put(CONFIG_MAPS, config_map(2)) and None)
    assert hears(lambda operator, tells: operator.cache.remove(Ref(CONFIG_MAPS, "ns", "one"), "u") and None)


def test_who_is_told_to_stop_while_nobody_answers_ends() -> None:
    server = Server()
    api: Any = server
    operator = Operator(api)
    server.error = ApiError("GET x", 0, "NewConnectionError", "refused")

    async def story() -> None:
        starting = asyncio.create_task(started(operator))
        assert await asyncio.to_thread(server.listed.acquire, True, 30)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await operator._stop()

    ending = threading.Thread(target=asyncio.run, args=(story(),), daemon=True)
    ending.start()
    ending.join(30)
    ended = not ending.is_alive()
    server.error = None  # whatever still waits for an answer has one
    ending.join(30)
    assert ended


class Heard(Operator):
    """An operator whose queue is read by the test."""

    def __init__(self) -> None:
        server: Any = Server()
        super().__init__(server)
        self.added: list[Ref] = []
        self.count = 0

    def _add(self, job: Ref) -> None:
        self.added.append(job)

    def put(self, resource: Resource, name: str, application: str = "", **meta: Any) -> None:
        """An object in its next form; afterwards `added` has what that concerns."""
        self.count += 1
        self.added.clear()
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(self.count), **meta}
        spec = {"applicationRef": {"name": application}} if application else {}
        self.cache.put(resource, {"metadata": metadata, "spec": spec})


def test_whatever_happens_to_a_subscription_concerns_the_application_of_its_name() -> None:
    """Its annotations may have asked for the subscription."""
    operator = Heard()
    application = Ref(KUBEFLOW_APPLICATIONS, "ns", "app")
    operator.put(SUBSCRIPTIONS, "app", "app")
    assert application not in operator.added
    operator.put(KUBEFLOW_APPLICATIONS, "app")
    operator.put(SUBSCRIPTIONS, "other", "app")
    assert application not in operator.added
    operator.put(SUBSCRIPTIONS, "app", "app")
    assert application in operator.added
    operator.added.clear()
    operator.cache.remove(Ref(SUBSCRIPTIONS, "ns", "app"))
    assert application in operator.added


@pytest.mark.parametrize("labels", [{}, {SUBSCRIPTION_LABEL: "app"}, {SUBSCRIPTION_LABEL: "other"}])
def test_whoever_a_document_is_said_to_be_of_it_concerns_whom_its_name_is_of(labels: dict[str, str]) -> None:
    operator = Heard()
    operator.put(SUBSCRIPTIONS, "app", "app")
    operator.put(CONFIG_MAPS, "app-kafkastreams", labels=labels)
    assert Ref(SUBSCRIPTIONS, "ns", "app") in operator.added
