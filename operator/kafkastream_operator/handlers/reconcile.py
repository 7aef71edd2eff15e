"""One key at a time: see, decide, write. In a worker's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError

from dynamic_kafka.metadata.kubernetes_names import config_map_name
from dynamic_kafka.metadata.validation_errors import explain
from kafkastream_operator.core.annotated import (
    MADE_LABEL,
    ineffective_annotation,
    is_applied_by_hand,
    requested_subscription,
    subscription_for,
)
from kafkastream_operator.core.conditions.subscription import with_conditions
from kafkastream_operator.core.decide import decide
from kafkastream_operator.core.rollout.step import USUAL, Timing
from kafkastream_operator.core.stream_status import stream_status
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.errors import ApiError, ConflictError, NotFoundError
from kafkastream_operator.handlers.execute import execute, tell, write_status
from kafkastream_operator.handlers.observe import catalog_of, see, status_of
from kafkastream_operator.handlers.subscribers import kind_of, subscribers_of
from kafkastream_operator.kube.api import (
    APPLICATIONS,
    CONFIG_MAPS,
    MANAGER,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.models.conditions import condition
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import ApplicationRef, SubscriptionSpec

TOLD_AGAIN_S = 3000.0
"""Between Events of what has no conditions that stay: Kubernetes forgets an Event after an hour."""
LONGEST_S, FORGIVEN_S = 60.0, 600.0
"""Between two times that the same is put right for annotations, if somebody changes it each time; and after what time
that is forgotten."""

log = logging.getLogger(__name__)


class Applied(NamedTuple):
    """What was applied for annotations, when, and how often in succession."""

    spec: Mapping[str, Any]
    at: datetime
    times: int


class Reconciler:
    """Looks at subscriptions and streams."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        timing: Timing = USUAL,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._cache, self._timing, self._now = api, cache, timing, now
        self._said: dict[tuple[str, str], datetime] = {}
        self._applied: dict[Ref, Applied] = {}

    def __call__(self, job: Ref) -> float | None:
        """Look at one. Returns in how many seconds to look again."""
        if job.resource == SUBSCRIPTIONS:
            return self._subscription(job)
        if job.resource == STREAMS:
            return self._stream(job)
        if job.resource == CONFIG_MAPS:
            return self._config_map(job)
        return self._application(job)

    def _subscription(self, job: Ref) -> float | None:
        now = self._now()
        try:
            seen = see(self._cache, job.namespace, job.name, now, self._timing)
        except ValidationError as error:
            self._unreadable(job, error)
            return None
        if seen is None:
            return None
        plan = decide(seen.view)
        try:
            execute(self._api, self._cache, seen, plan)
        except (ConflictError, NotFoundError) as error:
            # Somebody was first. The cache may be behind: ask for what there is now.
            log.info("%s: looked at again: %s", job, error)
            self._refresh(job, seen.view.spec.application_ref)
            raise
        return None if plan.again is None else max(0.05, (plan.again - now).total_seconds())

    def _unreadable(self, job: Ref, error: ValidationError) -> None:
        """A spec that the API server has let through and this version does not know: that of a newer CRD. Whatever
        was rendered for it stays as it is."""
        found = self._cache.get(*job)
        if found is None:
            return
        text = "; ".join(
            f"spec.{'.'.join(map(str, each.path))}: {each.text}" for each in explain(error, SubscriptionSpec)
        )
        text = f"this operator cannot read it, what was rendered stays: {text}. Mend it, or update the operator"
        before = status_of(found)
        said = (condition("StreamsResolved", False, "InvalidSubscription", text),)
        generation = int(found["metadata"].get("generation", 0))
        status = with_conditions(before, said, generation=generation, now=stamp(self._now()))
        if status != before:
            log.warning("%s: %s", job, text)
            written = write_status(self._api, self._cache, SUBSCRIPTIONS, found, status)
            tell(self._api, SUBSCRIPTIONS, written, "InvalidSubscription", text)

    def _config_map(self, job: Ref) -> float | None:
        """A ConfigMap of a user's has no conditions: what is to be said of it is an Event."""
        found = self._cache.get(CONFIG_MAPS, job.namespace, job.name)
        if found is None:
            return None
        catalog = catalog_of(self._cache, job.namespace)
        origin = f"ConfigMap {job.name}"
        said = [("Invalid", catalog.broken[origin])] if origin in catalog.broken else []
        for stream, winner in sorted(catalog.shadowed.get(origin, {}).items()):
            said.append(
                ("Shadowed", f"stream {stream} is read from {winner}, which wins; take it out of one of the two")
            )
        for stream, entry in catalog.streams.items():
            if entry.origin == origin and entry.conflict:
                said.append(
                    ("Conflict", f"stream {stream} {entry.conflict}: where both are read, neither is rolled out")
                )
        for reason, text in said:
            self._tell_now_and_then(CONFIG_MAPS, found, reason, text)
        return TOLD_AGAIN_S if said else None

    def _tell_now_and_then(self, resource: Resource, found: Object, reason: str, text: str) -> float:
        """An Event about an object without conditions of ours, for as long as it is so. Returns in how many seconds to
        look again."""
        key, now = (found["metadata"]["uid"], text), self._now()
        self._said = {each: at for each, at in self._said.items() if (now - at).total_seconds() < TOLD_AGAIN_S}
        if key not in self._said:
            self._said[key] = now
            tell(self._api, resource, found, reason, text)
        return TOLD_AGAIN_S

    def _application(self, job: Ref) -> float | None:
        """An application's annotations ask for a subscription."""
        found = self._cache.get(job.resource, job.namespace, job.name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        annotations = found["metadata"].get("annotations") or {}
        asked = requested_subscription(job.name, job.resource.api_version, annotations)
        known = self._cache.get(SUBSCRIPTIONS, job.namespace, job.name)
        made = known is not None and MADE_LABEL in (known["metadata"].get("labels") or {})
        kind = kind_of(known) if known is not None else job.resource.api_version
        again = None
        if (vain := ineffective_annotation(annotations)) and (asked is None or not asked.problem):
            again = self._tell_now_and_then(job.resource, found, "InvalidAnnotation", vain)
        if asked is None:
            if made and known is not None and kind == job.resource.api_version:
                self._unsubscribe(job, known)
        elif asked.spec is None:
            again = self._tell_now_and_then(job.resource, found, "InvalidAnnotation", asked.problem)
        elif known is not None and not made:
            text = f"KafkaStreamSubscription {job.name} was made by hand and counts; take the annotations out"
            again = self._tell_now_and_then(job.resource, found, "SubscriptionExists", text)
        elif kind != job.resource.api_version:
            text = f"KafkaStreamSubscription {job.name} is for the SparkApplication {job.name} of {kind}: rename one"
            again = self._tell_now_and_then(job.resource, found, "SubscriptionExists", text)
        else:
            wanted = subscription_for(job.namespace, job.name, asked.spec)
            if known is None or any(known["spec"].get(key) != value for key, value in wanted["spec"].items()):
                again = self._subscribe(job, found, wanted)
        return again

    def _unsubscribe(self, job: Ref, known: Object) -> None:
        """The annotations were taken out: what is rendered stays for the driver that runs. And so does a subscription
        that somebody has applied as well, secrets and all: from now on it is theirs."""
        if not is_applied_by_hand(known, manager=MANAGER):
            self._api.delete(SUBSCRIPTIONS, job.namespace, job.name, uid=known["metadata"]["uid"])
            return
        meta = {"resourceVersion": known["metadata"]["resourceVersion"], "labels": {MADE_LABEL: None}}
        self._cache.put(SUBSCRIPTIONS, self._api.merge(SUBSCRIPTIONS, job.namespace, job.name, {"metadata": meta}))

    def _subscribe(self, job: Ref, application: Object, wanted: Object) -> float | None:
        """Put it right: at once, unless somebody takes exactly that back again and again. Returns in how many seconds
        to look again."""
        now, last = self._now(), self._applied.get(job)
        if last is not None and (last.spec != wanted["spec"] or (now - last.at).total_seconds() > FORGIVEN_S):
            last = None
        count = last.times if last is not None else 0
        left = min(LONGEST_S, 2.0 ** (count - 2)) - (now - last.at).total_seconds() if last and count > 1 else 0.0
        if left > 0:
            text = f"KafkaStreamSubscription {job.name} is put right again and again: somebody else writes or deletes"
            text += " what these annotations ask for; end that, or take the annotations out"
            self._tell_now_and_then(job.resource, application, "SubscriptionTakenBack", text)
            return left
        body = {"apiVersion": SUBSCRIPTIONS.api_version, "kind": "KafkaStreamSubscription", **wanted}
        try:
            self._cache.put(SUBSCRIPTIONS, self._api.apply(SUBSCRIPTIONS, body, force=True))
        except ApiError as error:
            if error.status in (400, 403, 422):
                text = f"the API server takes no KafkaStreamSubscription {job.name} for it: {error.message}"
                self._tell_now_and_then(job.resource, application, "SubscriptionRefused", text)
            raise
        self._applied[job] = Applied(wanted["spec"], now, count + 1)
        return None

    def _stream(self, job: Ref) -> float | None:
        found = self._cache.get(STREAMS, job.namespace, job.name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        catalog = catalog_of(self._cache, job.namespace)
        try:
            before = KafkaStreamStatus.model_validate(found.get("status") or {})
        except ValidationError:
            before = KafkaStreamStatus()
        status = stream_status(
            job.name,
            catalog,
            subscribers_of(self._cache, job.namespace, job.name, {each.name for each in before.subscribers}),
            before,
            generation=int(found["metadata"].get("generation", 0)),
            now=stamp(self._now()),
        )
        if status != before:
            written = write_status(self._api, self._cache, STREAMS, found, status)
            ready, known = (
                next((each for each in those.conditions if each.type == "Ready"), None) for those in (status, before)
            )
            was = (known.reason, known.message) if known is not None else None
            if ready is not None and ready.status == "False" and (ready.reason, ready.message) != was:
                tell(self._api, STREAMS, written, ready.reason, ready.message)
        return None

    def _refresh(self, job: Ref, application: ApplicationRef) -> None:
        for resource, name in (
            (SUBSCRIPTIONS, job.name),
            (CONFIG_MAPS, config_map_name(application.name)),
            (APPLICATIONS[application.api_version], application.name),
        ):
            self._cache.take_answer(
                Ref(resource, job.namespace, name), partial(self._find, resource, job.namespace, name)
            )

    def _find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self._api.get(resource, namespace, name)
        except NotFoundError as error:
            if error.reason != "NotFound":
                raise  # not Kubernetes' own word: somebody in between, or a server that does not know the kind yet
            return None
