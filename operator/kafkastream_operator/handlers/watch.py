"""Watch objects through kopf, and put the objects that a change concerns into the work queue. Operator; event loop.

Nothing is decided here. The operator uses only the watches of kopf: no index, timer, daemon or diff-base annotation.
Every event goes into the operator's own cache, and a change of the cache adds keys to one queue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import kopf

from kafkastream_operator.core.rollout.budget import Limits
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING, Timing
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers.concerned import all_keys, concerned
from kafkastream_operator.handlers.health import Health
from kafkastream_operator.handlers.listings import WATCHED, Listings, is_watched
from kafkastream_operator.handlers.measurements import Measurements
from kafkastream_operator.handlers.queue import WorkQueue
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.handlers.restarts import MAX_RESTARTS, Restarts
from kafkastream_operator.handlers.subscription_view import subscription_named_in
from kafkastream_operator.handlers.watch_health import Watch
from kafkastream_operator.kube.api import (
    CLUSTERS,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache, Ref, ref_of

RESYNC_S = 300.0
"""Seconds between two resyncs: an event may be missed, or an object deleted between a listing and its watch."""
AFTER_LISTING_S = 1.0
"""Seconds from the first object of a listing of kopf's to a resync: kopf does not report which objects are gone."""
UNWATCHED_LISTING_S = 10.0
"""Seconds between listings of a namespace that is not served, and of a kind of which kopf has never delivered an event.
When a CRD appears, kopf looks for its kind once, and misses it if the API server does not serve it yet."""

log = logging.getLogger(__name__)


class Pauses:
    """Seconds between kopf's tries of a request. They never end: where one watch gives up, kopf ends all of them."""

    def __iter__(self) -> Iterator[float]:
        return chain((1, 1, 2, 3, 5, 8, 13), repeat(21))


class Operator:
    """The running operator: its cache, its queue and its tasks.

    Args:
        namespaces: the namespaces to serve; empty: all.
        workers: how many objects are reconciled at the same time.
        max_restarts: how many restarts may be in flight.
    """

    def __init__(
        self,
        api: Api,
        namespaces: Iterable[str] = (),
        workers: int = 4,
        timing: Timing = DEFAULT_TIMING,
        health: Health | None = None,
        *,
        max_restarts: Limits = MAX_RESTARTS,
    ) -> None:
        self.api, self.cache = api, Cache()
        self.health = health or Health()
        self.namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self.measured = Measurements()
        self.listings = Listings(api, self.namespaces)
        reconcile = Reconciler(api, self.cache, timing, measured=self.measured)
        reconcile.restarts = Restarts(self.cache, max_restarts, self._add)
        reconcile.wake = self._add
        self.queue: WorkQueue[Ref] = WorkQueue(
            lambda job: reconcile(job) if self.serves(job.namespace) else None,
            workers,
            # The status of a stream shows what its subscriptions have done.
            comes_later=lambda job: job.resource in (STREAMS, CLUSTERS),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kopf_listed = asyncio.Event()
        self.cache.on_change = self._enqueue

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Register the handlers with kopf."""
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
            self.listings.watched.add(self._watch(resource, event["object"]))
            if event.get("type") is None:
                self._kopf_listed.set()
            self.take(resource, str(event.get("type") or ""), event["object"])
            self.health.watches.record_event(self._watch(resource, event["object"]))

        changed.__name__ = f"{resource.plural}_changed"
        return changed

    def take(self, resource: Resource, kind: str, kube_object: Mapping[str, Any]) -> None:
        """Put the object of an event into the cache, or remove it."""
        if kind == "DELETED":
            # An object that loses its watched label also arrives as DELETED: its old form, with the new version.
            meta = kube_object["metadata"]
            self.cache.remove(ref_of(resource, kube_object), meta["uid"], int(meta["resourceVersion"]))
        else:
            self.cache.put(resource, kube_object)

    def serves(self, namespace: str) -> bool:
        """Return whether the objects of a namespace are reconciled: it was listed whole."""
        return namespace not in self.listings.failures

    def resync(self, *, everything: bool = True) -> None:
        """List everything, or only what is not watched, and correct the cache."""
        for namespace in self.listings.resync(self.cache, everything=everything):
            for job in all_keys(self.cache, namespace):
                self._add(job)
            for config_map in self.cache.all(CONFIG_MAPS, namespace):
                if named := subscription_named_in(config_map):  # it may be gone, and its document left behind
                    self._add(Ref(SUBSCRIPTIONS, namespace, named))

    async def _start(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.networking.error_backoffs = Pauses()
        for resource, labels in WATCHED:
            if labels is not None:
                # A handler's selector filters only after the events have arrived. This one filters at the API server,
                # because few of a cluster's ConfigMaps and pods concern the operator.
                settings.watching.label_selectors[resource] = labels
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(self.health.run_heartbeat())]
        # List everything before the first decision. With a partial cache, streams that are not listed yet would look
        # removed, and would drain.
        await self.resync_until_done()
        # Where kopf may not list namespaces, it would now try for ever. Else it takes them by their names.
        scanned = (DEFINITIONS,) if self.namespaces == (None,) else (DEFINITIONS, NAMESPACES)
        refused = [resource.plural for resource in scanned if not await asyncio.to_thread(self.api.may_list, resource)]
        settings.scanning.disabled = bool(refused)
        if refused:
            log.warning("the operator may not list %s: it sees no new one until it is restarted", " and ".join(refused))
        self.health.watches.record_listing(True)
        self._tasks += [asyncio.create_task(self.queue.run()), asyncio.create_task(self._resync_regularly())]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self.health.enter("serving")

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Make the operator not live when one of its tasks has ended: without the task it would do nothing more."""
        if not task.cancelled():
            log.critical(
                "a task of the operator has ended, so it does nothing more and has to be restarted",
                exc_info=task.exception(),
            )
            self.health.fail("broken: see the log")

    async def resync_until_done(self) -> None:
        """Repeat the resync until the API server has answered every listing."""
        while True:
            try:
                return await asyncio.to_thread(self.resync)
            except ApiError as error:
                log.warning("the cluster cannot be listed yet: %s", error)
                # Sleep here, not in the thread: a stop can interrupt this sleep, but not the thread.
                await asyncio.sleep(max(1.0, error.retry_after_s))

    async def _stop(self, **_: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _resync_regularly(self) -> None:
        last = looked_at = time.monotonic()
        while True:
            try:
                await asyncio.wait_for(self._kopf_listed.wait(), UNWATCHED_LISTING_S)
                await asyncio.sleep(AFTER_LISTING_S)
                everything = True
            except TimeoutError:
                everything = time.monotonic() - last >= RESYNC_S
            self._kopf_listed.clear()
            try:
                await asyncio.to_thread(self.resync, everything=everything)
                if everything:
                    self.health.watches.record_listing(True)
                    looked_at = self._look_at_everything(looked_at)
            except ApiError as error:
                self.health.watches.record_listing(False)
                log.warning("the cluster could not be listed: %s", error)
            except Exception:  # no error may end the resyncs: missed events are only corrected by them
                log.exception("the cluster could not be listed")
            if everything:
                last = time.monotonic()

    def _look_at_everything(self, last_s: float) -> float:
        """Queue everything if the last time is long ago: no change wakes an object that `concerned` has missed."""
        now_s = time.monotonic()
        if now_s - last_s < RESYNC_S:
            return last_s
        for namespace in {ref.namespace for kind, _ in WATCHED for ref in self.cache.refs(kind)}:
            for job in all_keys(self.cache, namespace):
                self.queue.add(job)
        return now_s

    def _watch(self, resource: Resource, kube_object: Object) -> Watch:
        """Return the watch that covers an object."""
        return resource, None if self.namespaces == (None,) else kube_object["metadata"]["namespace"]

    def _enqueue(self, ref: Ref, before: Object | None, after: Object | None) -> None:
        """Add to the queue all objects that a change of this object concerns."""
        # A deleted object may already have lost its label, and an unlabelled one was fetched by name. Label-filtered
        # watches report neither.
        if after is None:
            self.measured.forget(ref)
        elif is_watched(ref.resource, after):
            self.health.watches.expect_event(self._watch(ref.resource, after))
        try:
            jobs = dict.fromkeys(concerned(self.cache, ref, before, after))
        except Exception:  # an object may have a form that nobody expects: then everything is looked at
            log.exception("%s: cannot find out which objects this change concerns; all are looked at", ref)
            jobs = dict.fromkeys((ref, *all_keys(self.cache, ref.namespace)))
        for job in jobs:
            self._add(job)

    def _add(self, job: Ref) -> None:
        # The caller may be a thread that lists; the queue belongs to the event loop.
        assert self._loop is not None
        if job.resource == SUBSCRIPTIONS:
            self.measured.changed(job)
        self._loop.call_soon_threadsafe(self.queue.add, job)
