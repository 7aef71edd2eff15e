"""Collect the operator's metrics for one scrape. Operator; runs in the thread that answers the scrape.

Nothing is stored for a scrape: it shows the objects of the cache, so a series vanishes with its object. The series of a
namespace that can no longer be listed stay as they were last seen, so that an alert in it does not resolve. An operator
that waits for the Lease shows no object, so that two replicas do not show each object twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from kafkastream_operator.core.figures import StreamFigures, SubscriptionFigures, stream_figures, subscription_figures
from kafkastream_operator.core.metrics import MetricFamilies
from kafkastream_operator.handlers.http_server import Answer, parse_address, serve
from kafkastream_operator.handlers.listings import WATCHED
from kafkastream_operator.handlers.stream_subscribers import is_left_behind
from kafkastream_operator.handlers.subscription_view import status_of, stream_status_of
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import CONFIG_MAPS, NAMESPACES, PODS, STREAMS, SUBSCRIPTIONS, Object, Resource
from kafkastream_operator.kube.cache import Ref
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus

UNREADABLE = (ValueError, OverflowError)
"""A status that another writer has edited: its schema, or one of its times. It counts as empty, as elsewhere."""
METRICS_EXAMPLE = "http://0.0.0.0:8081/metrics"


def serve_metrics(operator: Operator, url: str) -> ThreadingHTTPServer:
    """Start the thread that answers scrapes at this URL.

    Raises:
        OSError: the process cannot listen at this address.
    """
    host, port, path = parse_address(url, METRICS_EXAMPLE)
    return serve(host, port, {path: lambda: Answer(200, scrape(operator), CONTENT_TYPE_PLAIN_0_0_4)})


def scrape(operator: Operator, now: Callable[[], float] = time.time) -> str:
    """Return all metrics in Prometheus' text format.

    Args:
        now: returns seconds since the epoch.
    """
    families, moment = MetricFamilies(), now()
    for ref, stream in _shown(operator, STREAMS):
        _add_stream(families, operator, ref, stream, moment)
    for ref, subscription in _shown(operator, SUBSCRIPTIONS):
        _add_subscription(families, operator, ref, subscription, moment)
    for ref, config_map in _shown(operator, CONFIG_MAPS):
        if is_left_behind(operator.cache, config_map):
            families.add("document_left_behind", (ref.namespace, ref.name), 1)
    _add_operator(families, operator)
    return families.text()


def _shown(operator: Operator, kind: Resource) -> Iterator[tuple[Ref, Object]]:
    for ref in operator.cache.refs(kind):
        kube_object = operator.cache.get(*ref)
        if kube_object is not None and operator.listings.shows(ref.namespace):
            yield ref, kube_object


def _add_stream(families: MetricFamilies, operator: Operator, ref: Ref, stream: Object, now: float) -> None:
    labels, figures = (ref.namespace, ref.name), operator.cache.derive(stream, _stream_figures)
    families.add("stream_ready", labels, figures.ready)
    families.add("stream_generation_lag", labels, figures.generation_lag)
    families.add("stream_subscriptions", labels, figures.subscriptions)
    families.add("stream_draining_clusters", labels, figures.draining_clusters)
    families.add("stream_rollout_age_seconds", labels, _age(figures.moving_since, now))
    families.add("stream_drain_age_seconds", labels, _age(figures.draining_since, now))


def _add_subscription(families: MetricFamilies, operator: Operator, ref: Ref, subscription: Object, now: float) -> None:
    labels = (ref.namespace, ref.name)
    figures = operator.cache.derive(subscription, _subscription_figures)
    metrics = operator.measured.of(ref, subscription["metadata"]["uid"])
    families.add("subscription_ready", labels, figures.ready)
    families.add("subscription_stalled", labels, figures.stalled)
    if figures.rendered is not None:
        families.add("subscription_revision", labels, figures.rendered.counter)
    families.add("subscription_revision_lag", labels, figures.revision_lag(metrics.applied if metrics else None))
    families.add("subscription_revision_rejected", labels, figures.rejected)
    families.add("subscription_rollout_age_seconds", (*labels, figures.method), _age(figures.moving_since, now))
    families.add("subscription_rollout_paused", labels, figures.wave_paused)
    families.add("subscription_rollout_without_driver", labels, figures.without_driver)
    families.add("subscription_application_down", labels, figures.down)
    families.add("subscription_internal_topic_lost", labels, figures.topic_lost)
    families.add("subscription_draining_topics", labels, figures.draining)
    families.add("subscription_drain_age_seconds", labels, _age(figures.draining_since, now))
    families.add("subscription_drain_overdue", labels, figures.overdue)
    families.add("subscription_reporting", labels, figures.reporting)
    if metrics is not None:
        families.add("subscription_failures_total", labels, metrics.failures)
        families.add("subscription_report_age_seconds", labels, operator.measured.report_age_s(metrics))
        families.add("subscription_restarts_total", labels, metrics.restarts)
        families.add("subscription_rejected_revisions_total", labels, metrics.rejected)
        families.add_histogram("subscription_apply_to_rendered_seconds", labels, metrics.to_rendered)
        families.add_histogram("subscription_rendered_to_applied_seconds", labels, metrics.to_applied)


def _add_operator(families: MetricFamilies, operator: Operator) -> None:
    errors, serving = operator.measured.errors(), operator.health.serving()
    for resource in {resource for resource, _ in WATCHED} - {PODS}:
        families.add("reconcile_errors_total", (resource.full_name,), errors.get(resource.full_name, 0))
    for ref, count in operator.queue.failures().items():
        if operator.cache.get(*ref) is not None:
            families.add("reconcile_failures", (ref.resource.full_name, ref.namespace, ref.name), count)
    for namespace, count in list(operator.listings.failures.items()):
        families.add("reconcile_failures", (NAMESPACES.full_name, namespace, namespace), count)
    families.add("queue_depth", (), operator.queue.depth)
    families.add("serving", (), serving)
    if serving:
        for resource, _ in WATCHED:
            age_s = operator.health.watches.age_s([(resource, namespace) for namespace in operator.namespaces])
            families.add("watch_age_seconds", (resource.full_name,), age_s)


def _stream_figures(stream: Object) -> StreamFigures:
    generation = int(stream["metadata"].get("generation", 0))
    try:
        return stream_figures(stream_status_of(stream), generation)
    except UNREADABLE:
        return stream_figures(KafkaStreamStatus(), generation)


def _subscription_figures(subscription: Object) -> SubscriptionFigures:
    try:
        return subscription_figures(status_of(subscription))
    except UNREADABLE:
        return subscription_figures(SubscriptionStatus())


def _age(since: float | None, now: float) -> float | None:
    return max(0.0, now - since) if since is not None else None
