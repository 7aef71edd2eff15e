"""kopf's side: it watches, and says what has changed. Nothing is decided here.

No kopf index, timer, daemon or diff-base annotation: every event puts keys into one queue over our own cache.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import kopf

from dynamic_kafka.metadata.kubernetes_names import ROLE_LABEL, SUBSCRIPTION_LABEL
from kafkastream_operator.core.rollout.step import USUAL, Timing
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers.health import Health
from kafkastream_operator.handlers.observe import claims
from kafkastream_operator.handlers.queue import WorkQueue
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.handlers.watch_health import Watch
from kafkastream_operator.kube.api import (
    APPLICATIONS,
    CONFIG_MAPS,
    PODS,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache, Ref, ref_of
from kafkastream_operator.spark.kinds import application_named_by

RESYNC_S = 300.0
"""An event may be missed, and an object may go between a listing and the watch that follows it."""
AFTER_LISTING_S = 1.0
"""From the first object of a listing of kopf's to a listing of our own: kopf does not say what is no longer there."""
UNHEARD_S = 10.0
"""Between listings of a kind that kopf has never spoken of: it looks for one that is installed later only once, right
when it is, and overlooks it if the API server does not serve it by then."""
WATCHED: tuple[tuple[Resource, str | None], ...] = (
    (STREAMS, None),
    (SUBSCRIPTIONS, None),
    (CONFIG_MAPS, ROLE_LABEL),
    *((each, None) for each in APPLICATIONS.values()),
    (PODS, "spark-role=driver"),
)
"""What is watched, and with which label selector."""

log = logging.getLogger(__name__)


class Operator:
    """The cache, the queue, and who puts what into them.

    Args:
        namespaces: the namespaces it serves; empty: all.
        health: told how far it is.
    """

    def __init__(
        self,
        api: Api,
        namespaces: Iterable[str] = (),
        workers: int = 4,
        timing: Timing = USUAL,
        health: Health | None = None,
    ) -> None:
        self.api, self.cache = api, Cache()
        self.health = health or Health()
        self.namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self.queue: WorkQueue[Ref] = WorkQueue(Reconciler(api, self.cache, timing), workers)
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listed_anew = asyncio.Event()
        self._heard_of: set[Resource] = set()
        self.cache.on_change = self._look

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Have kopf call the handlers."""
        kopf.on.startup(registry=registry)(self._start)
        kopf.on.cleanup(registry=registry)(self._stop)
        for resource, labels in WATCHED:
            selector: dict[str, Any] = {}
            if labels is not None:
                key, _, value = labels.partition("=")
                selector = {key: value or kopf.PRESENT}
            kopf.on.event(
                resource.group, resource.version, resource.plural, labels=selector or None, registry=registry
            )(self._handler(resource))

    def _handler(self, resource: Resource) -> Any:
        async def changed(event: Mapping[str, Any], **_: Any) -> None:
            self._heard_of.add(resource)
            if event.get("type") is None:
                self._listed_anew.set()
            self.take(resource, str(event.get("type") or ""), event["object"])
            self.health.hearing.told(self._watch(resource, event["object"]))

        changed.__name__ = f"{resource.plural}_changed"
        return changed

    def take(self, resource: Resource, kind: str, found: Mapping[str, Any]) -> None:
        """Take an event in."""
        if kind == "DELETED":
            # Also of one that has lost the label by which it is watched: its form before that, with the version after.
            meta = found["metadata"]
            self.cache.drop(ref_of(resource, found), meta["uid"], int(meta["resourceVersion"]))
        else:
            self.cache.put(resource, found)

    def resync(self, *, but: Collection[Resource] = ()) -> None:
        """List everything anew, but these kinds."""
        for resource, labels in WATCHED:
            for namespace in self.namespaces if resource not in but else ():
                # A kind that is not installed (yet) has none: kopf waits for it.
                self.cache.take_listing(resource, namespace, partial(self.api.list, resource, namespace, labels=labels))

    async def _start(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        for resource, labels in WATCHED:
            if labels is not None:
                # What a handler chooses it chooses at home; of all ConfigMaps and pods that there are, few concern us.
                settings.watching.label_selectors[resource] = labels
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(self.health.beat())]
        # Everything is known before anything is decided: half a picture would drain what has not been listed yet.
        await self.resync_until_done()
        self._tasks += [asyncio.create_task(self.queue.run()), asyncio.create_task(self._resync_now_and_then())]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self.health.becomes("serving")

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of them ends by itself: without it nothing would be done any more, and nobody would notice."""
        if not task.cancelled():
            log.critical("the operator works no more, and has to be started again", exc_info=task.exception())
            self.health.breaks("broken: see the log")

    async def resync_until_done(self) -> None:
        """List until the API server has answered all of it."""
        while True:
            try:
                return await asyncio.to_thread(self.resync)
            except ApiError as error:
                log.warning("the cluster cannot be listed yet: %s", error)
                # Not in the thread: who is told to stop meanwhile would wait for it for as long as nobody answers.
                await asyncio.sleep(max(1.0, error.retry_after_s))

    async def _stop(self, **_: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _resync_now_and_then(self) -> None:
        last = time.monotonic()
        while True:
            try:
                await asyncio.wait_for(self._listed_anew.wait(), UNHEARD_S)
                await asyncio.sleep(AFTER_LISTING_S)
                everything = True
            except TimeoutError:
                everything = time.monotonic() - last >= RESYNC_S
            self._listed_anew.clear()
            try:
                await asyncio.to_thread(self.resync, but=() if everything else frozenset(self._heard_of))
                if everything:
                    self.health.hearing.listed(True)
            except ApiError as error:
                self.health.hearing.listed(False)
                log.warning("the cluster could not be listed: %s", error)
            except Exception:  # whatever it is: what is missed stays missed until it is listed
                log.exception("the cluster could not be listed")
            if everything:
                last = time.monotonic()

    def _watch(self, resource: Resource, found: Object) -> Watch:
        """The watch that tells of an object."""
        return resource, None if self.namespaces == (None,) else found["metadata"]["namespace"]

    def _look(self, ref: Ref, found: Object) -> None:
        """Put into the queue what an object concerns."""
        namespace, resource = ref.namespace, ref.resource
        # What goes may have lost its label before, and what lacks it was asked for by name: no watch tells of that.
        if self.cache.get(*ref) is not None and _is_watched(resource, found):
            self.health.hearing.changed(self._watch(resource, found))
        if resource == SUBSCRIPTIONS:
            self._add(Ref(resource, namespace, ref.name))
            self._add_all(STREAMS, namespace)
            for kind in APPLICATIONS.values():
                # Annotations on it ask for exactly this one, whatever somebody has done to it.
                if self.cache.get(kind, namespace, ref.name) is not None:
                    self._add(Ref(kind, namespace, ref.name))
        elif resource == STREAMS:
            self._add(Ref(resource, namespace, ref.name))
            self._add_all(SUBSCRIPTIONS, namespace)
            self._add_metadata(namespace)
            self._add_neighbours(found, namespace)
        elif resource == CONFIG_MAPS:
            self._look_at_config_map(ref, found["metadata"].get("labels") or {})
        else:
            name = ref.name
            if resource != PODS:
                self._add(Ref(resource, namespace, name))
                self._add_all(STREAMS, namespace)
            else:
                name = application_named_by(found["metadata"].get("labels") or {})
            for each in self.cache.all(SUBSCRIPTIONS, namespace):
                if each["spec"]["applicationRef"]["name"] == name or not name:
                    self._add(Ref(SUBSCRIPTIONS, namespace, each["metadata"]["name"]))

    def _look_at_config_map(self, ref: Ref, labels: Mapping[str, str]) -> None:
        if SUBSCRIPTION_LABEL not in labels:
            self._add_all(SUBSCRIPTIONS, ref.namespace)
            self._add_all(STREAMS, ref.namespace)
            self._add_metadata(ref.namespace)
            return
        known = self.cache.all(SUBSCRIPTIONS, ref.namespace)
        owners = {each["metadata"]["name"] for each in known if claims(each, ref.name)}
        for name in owners | {labels[SUBSCRIPTION_LABEL]}:
            self._add(Ref(SUBSCRIPTIONS, ref.namespace, name))
        if labels[SUBSCRIPTION_LABEL] not in owners:
            self._add_all(STREAMS, ref.namespace)  # nobody's document: no status follows that would do so

    def _add_metadata(self, namespace: str) -> None:
        """Those ConfigMaps that users label: each may shadow another one, or disagree with it."""
        for each in self.cache.all(CONFIG_MAPS, namespace):
            if SUBSCRIPTION_LABEL not in (each["metadata"].get("labels") or {}):
                self._add(Ref(CONFIG_MAPS, namespace, each["metadata"]["name"]))

    def _add_neighbours(self, found: Object, namespace: str) -> None:
        """Streams with a cluster of this one: they may disagree now. And those that did with any, perhaps with this."""
        mine = _clusters(found)
        for each in self.cache.all(STREAMS, namespace):
            if mine & _clusters(each) or _is_in_conflict(each):
                self._add(Ref(STREAMS, namespace, each["metadata"]["name"]))

    def _add_all(self, resource: Resource, namespace: str) -> None:
        for each in self.cache.all(resource, namespace):
            self._add(Ref(resource, namespace, each["metadata"]["name"]))

    def _add(self, job: Ref) -> None:
        # Perhaps from a thread that lists: the queue belongs to the loop.
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.queue.add, job)


def _clusters(stream: Object) -> set[str]:
    """The ids by which a stream calls its clusters, or called them before. Nothing is known of its form yet."""
    clusters = (stream.get("spec") or {}).get("clusters") or []
    return {str(each[key]) for each in clusters for key in ("id", "renamedFrom") if each.get(key)}


def _is_in_conflict(stream: Object) -> bool:
    conditions = (stream.get("status") or {}).get("conditions") or []
    return any(each.get("reason") == "Conflict" for each in conditions)


def _is_watched(resource: Resource, found: Object) -> bool:
    """Whether an object has the label by which its kind is watched."""
    key, _, value = (dict(WATCHED)[resource] or "").partition("=")
    there = (found["metadata"].get("labels") or {}).get(key)
    return not key or (there is not None and there == (value or there))
