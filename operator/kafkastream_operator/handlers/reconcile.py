"""Reconcile one object: read the cache, let the core decide, make the writes. Operator; runs in a worker's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import config_map_name
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.located import Findings
from kafkastream_operator.core import contest
from kafkastream_operator.core.annotated import (
    MADE_LABEL,
    ineffective_annotation,
    is_applied_by_hand,
    requested_subscription,
    subscription_for,
)
from kafkastream_operator.core.conditions.subscription import with_conditions
from kafkastream_operator.core.decide import decide
from kafkastream_operator.core.figures import seconds_to_apply
from kafkastream_operator.core.rollout.budget import Turn
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING, Timing
from kafkastream_operator.core.stream_status import stream_status
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.verdicts import is_outdated
from kafkastream_operator.errors import ApiError, ConflictError, NotFoundError
from kafkastream_operator.handlers.apply_plan import PERMANENT_REFUSALS, apply_plan, send_event, write_status
from kafkastream_operator.handlers.failed_drivers import FailedDrivers
from kafkastream_operator.handlers.left_behind import KEPT, keep_or_delete
from kafkastream_operator.handlers.measurements import Measurements
from kafkastream_operator.handlers.occurrences import Occurrences, Problem
from kafkastream_operator.handlers.restarts import Restarts
from kafkastream_operator.handlers.stream_subscribers import (
    application_api_version,
    everybody,
    is_left_behind,
)
from kafkastream_operator.handlers.subscription_view import (
    catalog_of,
    labels_of,
    observe_subscription,
    status_of,
    stream_status_of,
    subscription_named_in,
)
from kafkastream_operator.kube.api import (
    APPLICATIONS,
    CLUSTERS,
    CONFIG_MAPS,
    MANAGER,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.kube.tags import cluster_tag, former_tag
from kafkastream_operator.models.conditions import condition
from kafkastream_operator.models.subscription import ApplicationRef, SubscriptionSpec

log = logging.getLogger(__name__)


class Applied(NamedTuple):
    """The subscription last applied for annotations: its spec, the time, and how often in succession."""

    spec: Mapping[str, Any]
    at: datetime
    times: int


class Reconciler:
    """The work of the queue: it reconciles subscriptions, streams, users' ConfigMaps and applications."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        timing: Timing = DEFAULT_TIMING,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        measured: Measurements | None = None,
    ) -> None:
        self._measured = measured or Measurements()
        self._api, self._cache, self._timing, self._now = api, cache, timing, now
        self._occurrences = Occurrences(api, now)
        self._applied: dict[Ref, Applied] = {}
        self._failed, self.restarts = FailedDrivers(), Restarts(cache)
        self.wake: Callable[[Ref], None] = lambda job: None
        cache.on_stored = self._failed.observe

    def __call__(self, job: Ref) -> float | None:
        """Reconcile one object. Return the seconds until it has to be reconciled again; None: not by itself."""
        since = self._measured.take(job)
        try:
            again = self._reconcile(job, since)
        except Exception as error:
            self._measured.failed(job, since)
            self._occurrences.failed(job, self._cache.get(*job), error)
            raise
        self._occurrences.succeeded(job)
        return again

    def _reconcile(self, job: Ref, since: float | None) -> float | None:
        if job.resource == SUBSCRIPTIONS:
            with self.restarts.taking_turns(job) as turn:
                return self._reconcile_subscription(job, since, turn)
        if job.resource == STREAMS:
            return self._reconcile_stream(job)
        if job.resource == CLUSTERS:
            self._find_streams(job)
            return None
        if job.resource == CONFIG_MAPS:
            return self._reconcile_config_map(job)
        return self._reconcile_application(job)

    def _reconcile_subscription(self, job: Ref, since: float | None, turn: Turn | None) -> float | None:
        now = self._now()
        try:
            where = self._cache, job.namespace, job.name
            seen = observe_subscription(*where, now, self._timing, failed=self._failed, turn=turn)
        except ValidationError as error:
            self._report_unreadable_spec(job, error)
            return None
        if seen is None:
            return self._tend_left_behind(job, now)
        metrics = self._measured.observe(job, seen.view)
        plan = decide(seen.view)
        try:
            plan = apply_plan(self._api, self._cache, seen, plan)
        except (ConflictError, NotFoundError) as error:
            # Another writer was faster, or the cache is behind: fetch the objects before the retry.
            log.info("%s: reconciled again, with fresh objects: %s", job, error)
            self._refresh_cache(job, seen.view.spec.application_ref)
            raise
        before = seen.view.status
        after = plan.after or plan.status or before
        self._measured.count(
            metrics,
            {reason for reason, _ in plan.events},
            since=since,
            seconds_to_apply=seconds_to_apply(before, after, now),
        )
        return None if plan.again is None else max(0.05, (plan.again - now).total_seconds())

    def _tend_left_behind(self, job: Ref, now: datetime) -> float | None:
        """Report a document whose subscription is gone as an Event of its ConfigMap, and delete it in its time."""
        moments = []
        for config_map in self._cache.all(CONFIG_MAPS, job.namespace):
            if subscription_named_in(config_map) == job.name and is_left_behind(self._cache, config_map):
                text = f"KafkaStreamSubscription {job.name} is gone, and no change reaches this document any more: make"
                text += " the subscription again, or delete the ConfigMap when no job reads it. The operator deletes it"
                text += f" when its application has been gone for {KEPT.days} days"
                self._occurrences.report(CONFIG_MAPS, config_map, [("DocumentLeftBehind", text)])
                moments.append(keep_or_delete(self._api, self._cache, config_map, now))
        return min(((moment - now).total_seconds() for moment in moments if moment is not None), default=None)

    def _report_unreadable_spec(self, job: Ref, error: ValidationError) -> None:
        """Report a spec that this version cannot read, because it is of a newer CRD. Its document stays as it is."""
        subscription = self._cache.get(*job)
        if subscription is None:
            return
        why = Findings(explain(error, SubscriptionSpec, at=("spec",)))
        text = f"this operator cannot read the spec: {why}. Correct it, or update the operator; the document stays"
        before = status_of(subscription)
        resolved = condition("StreamsResolved", "InvalidSubscription", text)
        generation = int(subscription["metadata"].get("generation", 0))
        status = with_conditions(before, (resolved,), generation=generation, now=stamp(self._now()))
        if status != before:
            log.warning("%s: %s", job, text)
            written = write_status(self._api, self._cache, SUBSCRIPTIONS, subscription, status)
            send_event(self._api, SUBSCRIPTIONS, written, "InvalidSubscription", text)

    def _reconcile_config_map(self, job: Ref) -> float | None:
        """Report problems of a user's ConfigMap as Events, because it has no conditions."""
        config_map = self._cache.get(CONFIG_MAPS, job.namespace, job.name)
        if config_map is None:
            return None
        catalog = catalog_of(self._cache, job.namespace)
        origin = f"ConfigMap {job.name}"
        events = [("Invalid", catalog.broken[origin])] if origin in catalog.broken else []
        events += [
            ("Shadowed", f"stream {stream} is read from {winner}, which takes precedence; remove it from one of them")
            for stream, winner in sorted(catalog.shadowed.get(origin, {}).items())
        ]
        events += [
            ("Conflict", f"stream {stream} {entry.conflict}: a subscription that reads both rolls out neither")
            for stream, entry in catalog.streams.items()
            if entry.origin == origin and entry.conflict
        ]
        self._occurrences.report(CONFIG_MAPS, config_map, events)
        return None

    def _reconcile_application(self, job: Ref) -> float | None:
        """Create, correct or delete the subscription that an application's annotations ask for."""
        application = self._cache.get(job.resource, job.namespace, job.name)
        if application is None or application["metadata"].get("deletionTimestamp"):
            return None
        annotations = application["metadata"].get("annotations") or {}
        asked = requested_subscription(job.name, job.resource.api_version, annotations)
        known = self._cache.get(SUBSCRIPTIONS, job.namespace, job.name)
        by_annotations = known is not None and MADE_LABEL in labels_of(known)
        kind = application_api_version(known) if known is not None else job.resource.api_version
        problems = list[Problem]()
        again = None
        if (ineffective := ineffective_annotation(annotations)) and (asked is None or not asked.problem):
            problems.append(("InvalidAnnotation", ineffective))
        if asked is None:
            if by_annotations and known is not None and kind == job.resource.api_version:
                self._unsubscribe(job, known)
        elif asked.spec is None:
            problems.append(("InvalidAnnotation", asked.problem))
        elif known is not None and not by_annotations:
            text = f"KafkaStreamSubscription {job.name} was created by a user and counts; remove the annotations"
            problems.append(("SubscriptionExists", text))
        elif kind != job.resource.api_version:
            text = f"KafkaStreamSubscription {job.name} is for the SparkApplication {job.name} of {kind}: rename one"
            problems.append(("SubscriptionExists", text))
        else:
            wanted = subscription_for(job.namespace, job.name, asked.spec)
            if known is None or any(known["spec"].get(key) != value for key, value in wanted["spec"].items()):
                again = self._subscribe(job, application, wanted, problems)
        self._occurrences.report(job.resource, application, problems)
        return again

    def _unsubscribe(self, job: Ref, known: Object) -> None:
        """Delete the subscription, because the annotations were removed. Its document stays, for the running driver.

        If a user has applied a manifest of the subscription, it stays, too, and belongs to the user from now on.
        """
        if not is_applied_by_hand(known, manager=MANAGER):
            self._api.delete(SUBSCRIPTIONS, job.namespace, job.name, uid=known["metadata"]["uid"])
            return
        meta = {"resourceVersion": known["metadata"]["resourceVersion"], "labels": {MADE_LABEL: None}}
        self._cache.put(SUBSCRIPTIONS, self._api.merge(SUBSCRIPTIONS, job.namespace, job.name, {"metadata": meta}))

    def _subscribe(self, job: Ref, application: Object, wanted: Object, problems: list[Problem]) -> float | None:
        """Apply the subscription: at once, or after a growing pause if somebody keeps reverting it.

        Args:
            problems: of the application; a hindrance of this is added.

        Returns:
            The seconds until the next attempt; None if there is nothing left to do.
        """
        now, last = self._now(), self._applied.get(job)
        if last is not None and (last.spec != wanted["spec"] or now - last.at > contest.MEMORY):
            last = None
        count = last.times if last is not None else 0
        left_s = (contest.pause_after(count) - (now - last.at)).total_seconds() if last is not None else 0.0
        if left_s > 0:
            text = f"somebody keeps changing or deleting KafkaStreamSubscription {job.name}, which these annotations"
            text += " ask for, and the operator restores it each time; stop that, or remove the annotations"
            problems.append(("SubscriptionTakenBack", text))
            return left_s
        body = {"apiVersion": SUBSCRIPTIONS.api_version, "kind": "KafkaStreamSubscription", **wanted}
        try:
            self._cache.put(SUBSCRIPTIONS, self._api.apply(SUBSCRIPTIONS, body, force=True))
        except ApiError as error:
            if error.status in PERMANENT_REFUSALS:
                text = f"the API server refuses the KafkaStreamSubscription of these annotations: {error.message}"
                self._occurrences.report(job.resource, application, [*problems, ("SubscriptionRefused", text)])
            raise
        self._applied[job] = Applied(wanted["spec"], now, count + 1)
        return None

    def _reconcile_stream(self, job: Ref) -> float | None:
        stream = self._cache.get(STREAMS, job.namespace, job.name)
        if stream is None or stream["metadata"].get("deletionTimestamp"):
            return None
        catalog = catalog_of(self._cache, job.namespace)
        before = self._cache.derive(stream, stream_status_of)
        candidates = everybody(self._cache, job.namespace)
        status = stream_status(
            job.name,
            catalog,
            candidates.of(job.name, {subscriber.name for subscriber in before.subscribers}),
            before,
            everybody=candidates,
            generation=int(stream["metadata"].get("generation", 0)),
            now=stamp(self._now()),
        )
        if status != before:
            written = write_status(self._api, self._cache, STREAMS, stream, status)
            known = {(old.reason, old.message) for old in before.conditions if old.type == "Ready"}
            for present in status.conditions:
                if (present.type, present.status) == ("Ready", "False") and (
                    present.reason,
                    present.message,
                ) not in known:
                    send_event(self._api, STREAMS, written, present.reason, present.message)
        return None

    def _find_streams(self, job: Ref) -> None:
        """Wake the streams whose status names other readers of a cluster than there are now."""
        now = everybody(self._cache, job.namespace)
        for tag in (cluster_tag(job.name), former_tag(job.name)):
            for stream in self._cache.tagged(STREAMS, job.namespace, tag):
                if is_outdated(self._cache.derive(stream, stream_status_of), job.name, now):
                    self.wake(Ref(STREAMS, job.namespace, stream["metadata"]["name"]))

    def _refresh_cache(self, job: Ref, application: ApplicationRef) -> None:
        for resource, name in (
            (SUBSCRIPTIONS, job.name),
            (CONFIG_MAPS, config_map_name(application.name)),
            (APPLICATIONS[application.api_version], application.name),
        ):
            self._cache.refresh(Ref(resource, job.namespace, name), partial(self._find, resource, job.namespace, name))

    def _find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self._api.get(resource, namespace, name)
        except NotFoundError as error:
            if error.reason != "NotFound":
                raise  # not from Kubernetes but from a proxy, or the server does not serve the kind yet
            return None
