"""Collect all restarts from the cache, and let one begin at a time. Operator; `reconcile.py` calls it in workers.

`core.rollout.budget` decides. Only the order of two workers' writes is made here: a worker takes a place before it
reconciles, so that no other worker counts without it. No lock is held while a worker writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import RELEASE_ROLLOUT_ANNOTATION, config_map_name
from kafkastream_operator.core.application import Application
from kafkastream_operator.core.rollout.budget import Limits, Restart, StreamKey, Turn, restart_of, turns
from kafkastream_operator.handlers.stream_subscribers import application_api_version
from kafkastream_operator.handlers.subscription_view import document_in, status_of
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, STREAMS, SUBSCRIPTIONS, Object
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.models.stream import RolloutRules
from kafkastream_operator.models.subscription import SubscriptionStatus
from kafkastream_operator.spark.kinds import KINDS

MAX_RESTARTS = Limits(in_all=10, per_namespace=5)
"""How many restarts may be in flight, unless the options say otherwise."""


class Restarts:
    """The restarts of all subscriptions.

    Args:
        limits: how many may be in flight.
        wake: adds a subscription to the queue, because its turn has come.
    """

    def __init__(
        self, cache: Cache, limits: Limits = MAX_RESTARTS, wake: Callable[[Ref], None] = lambda job: None
    ) -> None:
        self._cache, self._limits, self._wake = cache, limits, wake
        self._lock = threading.Lock()
        self._begun: set[Ref] = set()

    @contextmanager
    def taking_turns(self, job: Ref) -> Iterator[Turn | None]:
        """Yield the place of a subscription in the order. If its turn has come, it counts while it is reconciled.

        If it has not begun a restart, yield None. Afterwards, wake the restarts whose turn has come.
        """
        before, turn = self._status(job), None
        if _has_begun(before):
            with self._lock:
                turn = self._turn_of(job)
                if turn is not None and not turn.hindrance:
                    self._begun.add(job)
        try:
            yield turn
        finally:
            self._begun.discard(job)
        after = self._status(job)
        restarts = any(status.rollout is not None and status.rollout.method == "Restart" for status in (before, after))
        if restarts and before != after:
            for turn in self._turns():
                other = Ref(SUBSCRIPTIONS, turn.restart.namespace, turn.restart.name)
                if not turn.hindrance and other != job:
                    self._wake(other)

    def _turn_of(self, job: Ref) -> Turn | None:
        own_turns = (turn for turn in self._turns(job) if (turn.restart.namespace, turn.restart.name) == job[1:])
        return next(own_turns, None)

    def _turns(self, job: Ref | None = None) -> list[Turn]:
        """Return all turns. `job` is reconciled now, and so waits for its turn, whatever its last condition says."""
        restarts = []
        for ref in self._cache.refs(SUBSCRIPTIONS):
            subscription = self._cache.get(*ref)
            if subscription is None or (restart := self._restart(subscription)) is None:
                continue
            waiting = ref == job or (restart.waiting and not subscription["metadata"].get("deletionTimestamp"))
            begins = ref in self._begun and ref != job
            restarts.append(replace(restart, waiting=waiting and not begins, in_flight=restart.in_flight or begins))
        keys = {key for restart in restarts for key in restart.streams}
        rules = {key: self._cache.derive(stream, _rules) for key in keys if (stream := self._stream(key)) is not None}
        return turns(restarts, rules, self._limits)

    def _restart(self, subscription: Object) -> Restart | None:
        status = self._cache.derive(subscription, status_of)
        if status.rollout is None or status.rollout.method != "Restart":
            return None
        meta, kind = subscription["metadata"], application_api_version(subscription)
        name = subscription["spec"]["applicationRef"]["name"]
        application = self._cache.get(APPLICATIONS[kind], meta["namespace"], name)
        rendered = self._cache.get(CONFIG_MAPS, meta["namespace"], config_map_name(name))
        document = document_in(self._cache, rendered)[0] if rendered is not None else None
        known: Application | None = None
        if application is not None:
            known = self._cache.derive(application, KINDS[kind].application_of)
        return restart_of(
            meta["namespace"],
            meta["name"],
            (document.streams if document is not None else status.kept).keys(),
            status,
            known,
            released=(meta.get("annotations") or {}).get(RELEASE_ROLLOUT_ANNOTATION, ""),
        )

    def _stream(self, key: StreamKey) -> Object | None:
        return self._cache.get(STREAMS, key.namespace, key.stream)

    def _status(self, job: Ref) -> SubscriptionStatus:
        subscription = self._cache.get(*job)
        return self._cache.derive(subscription, status_of) if subscription is not None else SubscriptionStatus()


def _has_begun(status: SubscriptionStatus) -> bool:
    return status.rollout is not None and (status.rollout.method, status.rollout.phase) == ("Restart", "Pending")


def _rules(stream: Object) -> RolloutRules:
    """Return the rules of a stream; the default if they cannot be read."""
    try:
        return RolloutRules.model_validate(stream["spec"].get("rollout") or {})
    except ValidationError:
        return RolloutRules()
