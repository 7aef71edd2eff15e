"""The operator's tasks beside kopf's handlers, its watches, and the objects that a change enqueues."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import kopf
import pytest

from dynamic_kafka.contract import kubernetes_names
from dynamic_kafka.contract.kubernetes_names import SUBSCRIPTION_LABEL
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers import watch
from kafkastream_operator.handlers.health import Health
from kafkastream_operator.handlers.listings import LOGGED_EVERY, WATCHED
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import (
    CONFIG_MAPS,
    KUBEFLOW_APPLICATIONS,
    NAMESPACES,
    SUBSCRIPTIONS,
    Listing,
    Resource,
)
from kafkastream_operator.kube.cache import Ref


class Server:
    """An API server without objects, whose listings fail while `error` is set."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.listed = threading.Semaphore(0)
        self.refused = frozenset[str]()
        self.scanned = True

    def list(self, resource: Resource, namespace: str | None, **_: Any) -> Listing:
        if resource == NAMESPACES:
            return Listing([{"metadata": {"name": "any"}}], 1)
        self.listed.release()
        if self.error is not None:
            raise self.error
        if namespace in self.refused:
            raise ApiError("GET x", 403, "Forbidden", "no Role")
        return Listing([], 1)

    def may_list(self, _: Resource) -> bool:
        return self.scanned


def started(operator: Operator) -> Any:
    """Start an operator as kopf does."""
    return operator._start(settings=kopf.OperatorSettings())


def test_an_operator_whose_queue_ended_is_not_live() -> None:
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


def test_a_stopped_operator_is_not_broken() -> None:
    server: Any = Server()
    operator = Operator(server)

    async def story() -> None:
        await started(operator)
        await operator._stop()
        assert operator.health.live() == (True, "serving")

    asyncio.run(story())


def test_the_listing_of_the_start_renews_the_watches() -> None:
    server: Any = Server()
    now = [0.0]
    operator = Operator(server, health=Health(lambda: now[0]))
    now[0] = 86400.0  # the operator has waited for the Lease for a day

    async def story() -> None:
        await started(operator)
        assert operator.health.watches.age_s([(SUBSCRIPTIONS, None)]) == 0
        await operator._stop()

    asyncio.run(story())


def test_a_listing_is_repeated_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "UNWATCHED_LISTING_S", 0.01)
    server = Server()
    api: Any = server
    operator = Operator(api)

    async def story() -> None:
        await started(operator)
        server.error = KeyError("metadata")
        first = len(WATCHED)
        for _ in range(first + 3):
            assert await asyncio.to_thread(server.listed.acquire, True, 30)
        assert operator.health.live()[0]
        await operator._stop()

    asyncio.run(story())


def config_map(version: int, **labels: str) -> dict[str, Any]:
    """Return a ConfigMap in one of its versions."""
    meta = {"name": "one", "namespace": "ns", "uid": "u", "creationTimestamp": "x", "labels": labels}
    return {"metadata": {**meta, "resourceVersion": str(version)}, "data": {}}


LABEL = {kubernetes_names.ROLE_LABEL: kubernetes_names.METADATA_ROLE}


def is_live_after(then: Callable[[Operator, Any], None]) -> bool:
    """Return whether an operator is live an hour after an event of a ConfigMap, followed by `then`.

    Args:
        then: takes the operator, and a function that delivers an event of the ConfigMap in some version.
    """
    seconds = [0.0]
    health = Health(lambda: seconds[0])
    server: Any = Server()
    operator = Operator(server, health=health)

    async def story() -> None:
        await started(operator)
        deliver = operator._handler(CONFIG_MAPS)
        await deliver({"type": "ADDED", "object": config_map(1, **LABEL)})
        then(
            operator,
            lambda version: asyncio.ensure_future(deliver({"type": "", "object": config_map(version, **LABEL)})),
        )
        for _ in range(3):
            await asyncio.sleep(0)
        await operator._stop()

    asyncio.run(story())
    seconds[0] += 3600
    health.enter("serving")
    health.watches.record_listing(True)
    return health.live()[0]


def test_a_watch_that_misses_the_operators_writes_is_not_live() -> None:
    assert not is_live_after(lambda operator, deliver: operator.cache.put(CONFIG_MAPS, config_map(2, **LABEL)) and None)


def test_a_watch_with_late_or_known_events_is_live() -> None:
    def write_and_deliver(operator: Operator, deliver: Any) -> None:
        operator.cache.put(CONFIG_MAPS, config_map(2, **LABEL))
        deliver(2)

    assert is_live_after(write_and_deliver)
    assert is_live_after(lambda operator, deliver: deliver(2))


def test_no_event_is_owed_without_a_change_in_the_watch() -> None:
    assert is_live_after(lambda operator, deliver: None)
    assert is_live_after(lambda operator, deliver: operator.cache.put(CONFIG_MAPS, config_map(1, **LABEL)) and None)
    assert is_live_after(lambda operator, deliver: operator.cache.put(CONFIG_MAPS, config_map(2)) and None)
    assert is_live_after(lambda operator, deliver: operator.cache.remove(Ref(CONFIG_MAPS, "ns", "one"), "u") and None)


def test_an_operator_can_be_stopped_while_the_api_server_is_away() -> None:
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
    server.error = None  # answer calls that still wait
    ending.join(30)
    assert ended


class RecordingOperator(Operator):
    """An operator that records the objects it enqueues."""

    def __init__(self, *namespaces: str) -> None:
        self.server: Any = Server()
        super().__init__(self.server, namespaces)
        self.added: list[Ref] = []
        self.count = 0

    def _add(self, job: Ref) -> None:
        self.added.append(job)

    def put(self, resource: Resource, name: str, application: str = "", **meta: Any) -> None:
        """Store the next version of an object; `added` then has the objects that it enqueues."""
        self.count += 1
        self.added.clear()
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(self.count), **meta}
        spec = {"applicationRef": {"name": application}} if application else {}
        self.cache.put(resource, {"metadata": metadata, "spec": spec})


def test_a_changed_subscription_enqueues_its_application() -> None:
    """Because the annotations of the application may have asked for the subscription."""
    operator = RecordingOperator()
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
def test_a_changed_document_enqueues_its_subscription(labels: dict[str, str]) -> None:
    operator = RecordingOperator()
    operator.put(SUBSCRIPTIONS, "app", "app")
    operator.put(CONFIG_MAPS, "app-kafkastreams", labels=labels)
    assert Ref(SUBSCRIPTIONS, "ns", "app") in operator.added


def test_a_namespace_that_is_refused_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    operator = RecordingOperator("here", "ns")
    operator.server.refused = {"ns"}
    for _ in range(3):
        operator.resync()
    assert operator.serves("here")
    assert operator.listings.failures == {"ns": 3}
    assert not operator.listings.shows("ns")
    (logged,) = [record.getMessage() for record in caplog.records]
    assert "namespace ns is not served" in logged
    assert "403 Forbidden: no Role" in logged
    # kopf may watch it before it is listed: with such a part of its objects, no job may run.
    operator.put(SUBSCRIPTIONS, "app", "app")
    assert operator.queue._work(Ref(SUBSCRIPTIONS, "ns", "app")) is None


def test_a_namespace_is_served_again_when_it_is_listed() -> None:
    operator = RecordingOperator("ns", "other")
    operator.server.refused = {"ns"}
    operator.resync()
    operator.put(SUBSCRIPTIONS, "app", "app")
    operator.put(KUBEFLOW_APPLICATIONS, "app")
    operator.server.refused, operator.added = frozenset(), []
    listed = []

    def list_one(resource: Resource, namespace: str, **_: Any) -> Listing:
        listed.append((resource, namespace))
        return Listing(operator.cache.all(resource, namespace), operator.count)

    operator.server.list = list_one
    operator.listings.watched |= {(kind, where) for kind, _ in WATCHED for where in ("ns", "other")}
    operator.resync(everything=False)
    assert operator.serves("ns")
    assert listed == [(kind, "ns") for kind, _ in WATCHED]
    assert operator.added == [Ref(SUBSCRIPTIONS, "ns", "app"), Ref(KUBEFLOW_APPLICATIONS, "ns", "app")]


def test_a_watch_in_one_namespace_is_none_in_another() -> None:
    """After a refusal, kopf's watch of that namespace comes back later than the namespace."""
    operator = RecordingOperator("ns", "other")
    application = {"metadata": {"name": "app", "namespace": "ns", "uid": "u", "resourceVersion": "1"}}

    def event(namespace: str) -> None:
        meta = {**application["metadata"], "namespace": namespace, "uid": namespace}
        asyncio.run(operator._handler(KUBEFLOW_APPLICATIONS)({"type": "ADDED", "object": {"metadata": meta}}))

    def listed() -> set[str]:
        """Return the namespaces in which a resync lists the applications."""
        namespaces = set()

        def list_one(resource: Resource, namespace: str, **_: Any) -> Listing:
            if namespace in operator.server.refused:
                raise ApiError("GET x", 403, "Forbidden", "no Role")
            if resource == KUBEFLOW_APPLICATIONS:
                namespaces.add(namespace)
            return Listing(operator.cache.all(resource, namespace), operator.count)

        operator.server.list = list_one
        operator.resync(everything=False)
        return namespaces

    assert listed() == {"ns", "other"}
    event("ns")
    assert listed() == set()  # an empty namespace shows no watch, and need not be listed all the time
    operator.server.refused = {"ns"}
    operator.resync()
    event("other")
    operator.server.refused = frozenset()
    assert [listed(), listed()] == [{"ns"}, {"ns"}]
    event("ns")
    assert listed() == set()


def test_a_namespace_that_stays_refused_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    operator = RecordingOperator("here", "ns")
    operator.server.refused = {"ns"}
    for _ in range(2 * LOGGED_EVERY):
        operator.resync()
    assert len(caplog.records) == 2


@pytest.mark.parametrize("there", [False, True])
def test_a_namespace_that_does_not_exist_is_logged_once(caplog: pytest.LogCaptureFixture, there: bool) -> None:
    operator = RecordingOperator("jbos")
    asked = []

    def list_some(resource: Resource, namespace: str | None, labels: str | None = None) -> Listing:
        if resource != NAMESPACES:
            return Listing([], 1)
        asked.append((namespace, labels))
        return Listing([{"metadata": {"name": "jbos"}}] if there else [], 1)

    operator.server.list = list_some
    operator.resync()
    operator.resync()
    assert asked == [(None, "kubernetes.io/metadata.name=jbos")]
    assert ["namespace jbos does not exist" in record.getMessage() for record in caplog.records] == [True] * (not there)


@pytest.mark.parametrize("namespaces", [("gone",), ("gone", "away")])
def test_an_operator_that_may_list_nothing_does_not_serve(namespaces: tuple[str, ...]) -> None:
    operator = RecordingOperator(*namespaces)
    operator.server.refused = {"gone", "away"}
    with pytest.raises(ApiError, match="no Role"):
        operator.resync()


def test_an_api_server_in_trouble_is_no_missing_namespace() -> None:
    operator = RecordingOperator("here", "there")
    operator.server.error = ApiError("GET x", 503, "ServiceUnavailable", "")
    with pytest.raises(ApiError):
        operator.resync()
    assert not operator.listings.failures


@pytest.mark.parametrize("scanned", [True, False])
def test_kopf_tries_for_ever_what_it_may_watch(scanned: bool, caplog: pytest.LogCaptureFixture) -> None:
    server, settings = Server(), kopf.OperatorSettings()
    server.scanned = scanned

    async def story() -> None:
        operator = Operator(cast(Any, server), ["here", "gone"])
        await operator._start(settings=settings)
        await operator._stop()

    asyncio.run(story())
    pauses: Any = settings.networking.error_backoffs
    assert [len(list(islice(pauses, 1000))) for _ in range(2)] == [1000, 1000]
    assert max(islice(pauses, 1000)) < watch.UNWATCHED_LISTING_S * 3
    assert settings.scanning.disabled is not scanned
    assert ("list customresourcedefinitions and namespaces" in caplog.text) is not scanned
