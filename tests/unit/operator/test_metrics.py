"""The operator's metrics: each shows the present state, and series vanish with their object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest
import urllib3

from dynamic_kafka.contract.kubernetes_names import RENDERED_ROLE, ROLE_LABEL
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.metrics import METRICS, PREFIX, Histogram, MetricFamilies
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers.listings import WATCHED, Listings
from kafkastream_operator.handlers.measurements import Measurements
from kafkastream_operator.handlers.metrics import scrape, serve_metrics
from kafkastream_operator.handlers.queue import WorkQueue
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, PODS, STREAMS, SUBSCRIPTIONS, Api
from kafkastream_operator.kube.cache import Cache, Ref
from tests.support.places import ROOT
from tests.support.ports import reserve_ports
from tests.support.prometheus import Samples, samples
from tests.unit.operator.server import DOCUMENT, NAMESPACE, TIMING, Server
from tests.unit.operator.world import cluster

TOPIC = {"cluster": "east", "topic": "orders", "stream": "orders", "revision": 1}
PAGE = (ROOT / "docs" / "reference" / "operator-metrics.md").read_text(encoding="utf-8")


def parsed(text: str) -> Samples:
    """Return the samples of a scrape by their names without the prefix."""
    return {(name.removeprefix(PREFIX), labels): value for (name, labels), value in samples(text).items()}


class Scraped:
    """A whole operator against an API server in memory, whose changes it takes in one at a time."""

    def __init__(self) -> None:
        self.server = Server()
        api, clock = cast(Api, self.server), lambda: self.server.seconds
        self.operator = Operator(api)
        self.operator.cache, self.operator.measured = Cache(clock), Measurements(clock)
        self.operator.cache.on_change = self.operator._enqueue
        self.work = Reconciler(api, self.operator.cache, TIMING, lambda: self.server.now, self.operator.measured)
        self.work.wake = self.operator._add
        self.operator.queue = WorkQueue(self.work)
        self.jobs: dict[Ref, None] = {}
        self.operator._loop = cast(Any, self)

    def call_soon_threadsafe(self, _: Callable[[Ref], None], job: Ref) -> None:
        """Take a job instead of the event loop."""
        self.jobs[job] = None

    def sees(self) -> None:
        """Let the operator see all changes."""
        for resource, _ in WATCHED:
            listing = partial(self.server.list, resource, NAMESPACE)
            self.operator.cache.apply_listing(resource, NAMESPACE, cast(Any, listing))

    def works(self) -> None:
        """Let the operator see everything, and reconcile until it is at rest."""
        self.sees()
        while self.jobs:
            job = next(iter(self.jobs))
            del self.jobs[job]
            self.work(job)
            self.sees()

    def live(self) -> None:
        """Let the operator and Spark act until nothing changes any more."""
        for _ in range(4):
            self.works()
            self.server.spark()
        self.works()

    def later(self, **time: float) -> None:
        """Let time pass."""
        self.server.now += timedelta(**time)

    def scrape(self) -> Samples:
        """Return all samples."""
        return parsed(scrape(self.operator, self.server.now.timestamp))

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample of the stream, or the subscription; None if there is none."""
        kind = name.partition("_")[0]
        own = {"namespace": NAMESPACE, kind: "orders" if kind == "stream" else "app"}
        return self.scrape().get((name, frozenset((own | labels).items())))

    def present(self) -> set[str]:
        """Return the names of the metrics that have samples of objects."""
        return {name for name, labels in self.scrape() if ("namespace", NAMESPACE) in labels}


@pytest.fixture
def world() -> Scraped:
    """Return an application that reads the first document of the stream `orders`, and reports."""
    made = Scraped()
    made.server.stream(cluster("east"))
    made.server.subscription(updateStrategy="Reload")
    made.server.put(KUBEFLOW_APPLICATIONS, "app", {})
    made.live()
    made.server.report()
    made.live()
    return made


def test_the_page_lists_all_metrics_with_labels_and_kind() -> None:
    rows = re.findall(rf"^\| `{PREFIX}(\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", PAGE, re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"\w+", labels)), doc) for name, kind, labels, doc in rows}
    assert documented == {name: (metric.kind, metric.labels, metric.help) for name, metric in METRICS.items()}


def test_every_sample_has_the_labels_that_are_described(world: Scraped) -> None:
    world.server.stream(cluster("west"))
    world.works()
    world.operator.queue._failures[Ref(SUBSCRIPTIONS, NAMESPACE, "app")] = 2
    world.operator.health.enter("serving")
    world.server.put(CONFIG_MAPS, "gone-kafkastreams", {}, labels={ROLE_LABEL: RENDERED_ROLE})
    world.sees()
    scraped = world.scrape()
    shown = {re.sub("_(bucket|sum|count)$", "", name): {key for key, _ in labels} - {"le"} for name, labels in scraped}
    assert shown == {name: set(metric.labels) for name, metric in METRICS.items()}


def test_a_fleet_at_rest_has_few_series_per_object(world: Scraped) -> None:
    """Ten thousand streams are scraped at a time: docs/reference/operator-metrics.md states these figures."""
    kinds = [name.partition("_")[0] for name, labels in world.scrape() if ("namespace", NAMESPACE) in labels]
    assert (kinds.count("stream"), kinds.count("subscription")) == (4, 38)


def test_at_rest_a_stream_and_its_subscription_are_in_force(world: Scraped) -> None:
    assert (world.value("stream_ready"), world.value("stream_generation_lag")) == (1, 0)
    assert (world.value("stream_subscriptions"), world.value("stream_draining_clusters")) == (1, 0)
    assert (world.value("subscription_ready"), world.value("subscription_stalled")) == (1, 0)
    assert (world.value("subscription_revision"), world.value("subscription_revision_lag")) == (1, 0)
    assert (world.value("subscription_reporting"), world.value("subscription_draining_topics")) == (1, 0)
    assert world.value("subscription_restarts_total") == world.value("subscription_revision_rejected") == 0
    assert not {name for name in world.present() if "age" in name} - {"subscription_report_age_seconds"}


def test_a_spec_that_the_operator_has_not_taken_up_lags(world: Scraped) -> None:
    world.server.stream(cluster("east"), cluster("west"))
    world.sees()
    assert world.value("stream_generation_lag") == 1
    world.works()
    assert world.value("stream_generation_lag") == 0


def test_a_revision_lags_until_the_driver_reports_it(world: Scraped) -> None:
    world.later(seconds=10)
    world.server.stream(cluster("east"), cluster("west"))
    world.works()
    world.later(seconds=7)
    assert (world.value("subscription_revision"), world.value("subscription_revision_lag")) == (2, 1)
    assert world.value("subscription_rollout_age_seconds", method="Reload") == 7
    assert world.value("stream_rollout_age_seconds") == 7
    assert world.value("subscription_report_age_seconds") == 17
    world.server.report(beat=2)
    world.works()
    assert (world.value("subscription_revision_lag"), world.value("subscription_report_age_seconds")) == (0, 0)
    assert world.value("subscription_rollout_age_seconds", method="Reload") is None
    assert world.value("stream_rollout_age_seconds") is None


def test_a_driver_that_has_ended_has_no_report_age(world: Scraped) -> None:
    assert world.value("subscription_report_age_seconds") is not None
    pod = world.server.find(PODS, "app-driver")
    assert pod is not None
    annotations = pod["metadata"]["annotations"]
    world.server.put(PODS, "app-driver", pod["spec"], {"status": {"phase": "Failed"}}, annotations=annotations)
    world.works()
    assert world.value("subscription_report_age_seconds") is None


def test_without_a_report_the_lag_is_at_least_one(world: Scraped) -> None:
    world.server.subscription(updateStrategy="Restart")
    for name in ("west", "north"):
        world.server.stream(cluster("east"), cluster(name))
        world.works()
    pod = world.server.find(PODS, "app-driver")
    assert pod is not None
    world.server.put(PODS, "app-driver", pod["spec"], annotations={})
    world.works()
    assert world.value("subscription_revision_lag") == 1
    assert world.value("subscription_report_age_seconds") is None


def buckets(world: Scraped, name: str) -> dict[str, float]:
    """Return the cumulative counts of a histogram by its bounds."""
    scraped = world.scrape().items()
    return {dict(labels)["le"]: value for (sample, labels), value in scraped if sample == f"{name}_bucket"}


def test_a_change_is_measured_until_its_document_is_written(world: Scraped) -> None:
    name = "subscription_apply_to_rendered_seconds"
    before = buckets(world, name)
    world.later(minutes=5)
    world.server.stream(cluster("east"), cluster("west"))
    world.sees()
    world.later(seconds=0.3)
    world.works()
    after = buckets(world, name)
    assert {bound: after[bound] - before[bound] for bound in after} == {
        **dict.fromkeys(("0.05", "0.1", "0.25"), 0),
        **dict.fromkeys(("0.5", "1", "2.5", "10", "60", "+Inf"), 1),
    }


def test_a_refused_write_does_not_shorten_the_time(world: Scraped) -> None:
    name = "subscription_apply_to_rendered_seconds_sum"
    before = world.value(name) or 0
    world.server.stream(cluster("east"), cluster("west"))
    world.server.refuses = lambda write: 500 if write.plural == "configmaps" else 0
    with pytest.raises(ApiError):
        world.works()
    world.later(seconds=20)
    world.server.refuses = lambda write: 0
    world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
    assert world.value(name) == before + 20
    assert world.scrape()["reconcile_errors_total", frozenset({("resource", SUBSCRIPTIONS.full_name)})] == 1


def test_a_roll_out_is_measured_until_it_is_in_force(world: Scraped) -> None:
    world.server.stream(cluster("east"), cluster("west"))
    world.works()
    world.later(seconds=8)
    world.works()
    world.server.report(beat=2)
    world.works()
    assert buckets(world, "subscription_rendered_to_applied_seconds")["5"] == 0
    assert buckets(world, "subscription_rendered_to_applied_seconds")["10"] == 1
    assert world.value("subscription_rendered_to_applied_seconds_sum") == 8


def test_restarts_and_the_wait_for_their_driver_are_counted(world: Scraped) -> None:
    world.server.subscription(updateStrategy="Restart")
    world.server.stream(cluster("east"), cluster("west"))
    world.works()
    world.works()
    world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
    world.later(seconds=30)
    assert world.value("subscription_restarts_total") == 1
    assert world.value("subscription_rollout_age_seconds", method="Restart") == 30
    world.live()
    assert world.value("subscription_rollout_age_seconds", method="Restart") is None
    assert world.value("subscription_rendered_to_applied_seconds_count") == 1


def test_a_roll_out_is_as_old_as_its_begin(world: Scraped) -> None:
    """The time in which the change was held up before says nothing about the restart."""
    secrets = [{"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}]
    world.server.subscription(updateStrategy="Reload", secrets=secrets)
    world.server.stream(cluster("east"), cluster("west", secretRef={"name": "login"}))
    world.works()
    assert (world.value("subscription_stalled"), world.value("subscription_revision_lag")) == (1, 1)
    world.later(hours=2)
    world.server.subscription(updateStrategy="Restart", secrets=secrets)
    world.works()
    world.later(seconds=30)
    assert world.value("subscription_rollout_age_seconds", method="Restart") == 30
    world.later(minutes=2)
    world.server.stream(cluster("east"), cluster("north"), cluster("west", secretRef={"name": "login"}))
    world.works()
    assert world.value("subscription_rollout_age_seconds", method="Restart") == 150


def test_revisions_do_not_set_the_age_back(world: Scraped) -> None:
    """A driver that hangs would else never look late: the next revision ends `NotConfirmed`."""
    for number in range(4):
        world.server.stream(cluster("east"), cluster(f"west{number}"))
        world.works()
        assert world.value("subscription_rollout_age_seconds", method="Reload") == 600 * number
        world.later(minutes=10)
        world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
        world.works()
        assert world.value("subscription_stalled") == 1
    world.server.report(beat=2)
    world.works()
    assert world.value("subscription_rollout_age_seconds", method="Reload") is None


def test_a_refused_restart_is_no_restart(world: Scraped) -> None:
    world.server.subscription(updateStrategy="Restart")
    world.server.stream(cluster("east"), cluster("west"))
    world.server.refuses = lambda write: 403 if write.plural == "sparkapplications" else 0
    world.works()
    world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
    assert (world.value("subscription_restarts_total"), world.value("subscription_stalled")) == (0, 1)
    assert "PatchRefused" in [event["reason"] for event in world.server.events]


def test_a_drain_has_an_age_and_becomes_overdue(world: Scraped) -> None:
    world.server.put(STREAMS, "orders", {"clusters": [cluster("west")], "drain": {"timeout": "1h"}})
    world.works()
    world.server.report(beat=2, east__orders=TopicReport(5, 0.0))
    world.works()
    world.later(minutes=61)
    world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
    world.works()
    assert (world.value("subscription_draining_topics"), world.value("stream_draining_clusters")) == (1, 1)
    ages = (world.value("subscription_drain_age_seconds"), world.value("stream_drain_age_seconds"))
    assert ages == (3660, 3660)
    assert world.value("subscription_drain_overdue") == 1


def reject(world: Scraped) -> None:
    """Let the driver reject a revision with one more cluster."""
    world.server.stream(cluster("east"), cluster("west"))
    world.works()
    pod, document = world.server.find(PODS, "app-driver"), world.server.document()
    assert pod is not None
    assert document is not None
    annotation = "kafkastream.dev/report"
    report = pod["metadata"]["annotations"][annotation]
    rejected = f'"rejected":{{"revision":"{document.revision.token}","reason":"another Kafka cluster"}}'
    report = re.sub(r'"rejected": ?null', rejected, report)
    world.server.put(PODS, "app-driver", pod["spec"], annotations={annotation: report})
    world.works()


def test_a_rejected_revision_is_shown_and_counted(world: Scraped) -> None:
    reject(world)
    assert world.value("subscription_revision_rejected") == world.value("subscription_rejected_revisions_total") == 1
    assert (world.value("subscription_revision_lag"), world.value("subscription_ready")) == (1, 0)


@pytest.mark.parametrize(("state", "without"), [("PENDING_RERUN", 1), ("FAILED", 1), ("COMPLETED", 0)])
def test_a_roll_out_may_be_without_a_driver(world: Scraped, state: str, without: int) -> None:
    reject(world)
    assert world.value("subscription_rollout_without_driver") == 0
    world.server.remove(PODS, "app-driver")
    world.server._status(KUBEFLOW_APPLICATIONS, {"applicationState": {"state": state}})
    world.works()
    assert world.value("subscription_revision_rejected") == 0
    assert world.value("subscription_rollout_without_driver") == without


def tries_again(world: Scraped, **submission: int) -> None:
    """Give the application a policy by which Spark's operator tries again after a failure."""
    policy = {"type": "Always", "onFailureRetryInterval": 5, **submission}
    spec = world.server.objects[Ref(KUBEFLOW_APPLICATIONS, NAMESPACE, "app")]["spec"]
    world.server.put(KUBEFLOW_APPLICATIONS, "app", {**spec, "restartPolicy": policy})


def test_each_failure_of_the_application_is_counted(world: Scraped) -> None:
    tries_again(world)
    world.works()
    for count in (1, 2):
        for state in ("FAILING", "FAILING", "PENDING_RERUN", "SUBMITTED", "RUNNING"):
            running = state == "RUNNING"
            driver = {"driverInfo": {"podName": "app-driver"}} if running else {}
            status = {"applicationState": {"state": state}, "submissionID": f"s{count}", **driver}
            world.server._status(KUBEFLOW_APPLICATIONS, status)
            world.works()
            assert world.value("subscription_ready") == running
            assert world.value("subscription_failures_total") == count
            assert (world.value("subscription_stalled"), world.value("subscription_rollout_without_driver")) == (0, 0)
    tries_again(world, onSubmissionFailureRetryInterval=5)
    for count in (3, 4):
        status = {"applicationState": {"state": "SUBMISSION_FAILED"}, "submissionID": f"s{count}"}
        world.server._status(KUBEFLOW_APPLICATIONS, status)
        world.works()
        assert world.value("subscription_failures_total") == count


def test_a_failure_counts_once_though_a_later_write_fails(world: Scraped) -> None:
    # Given a restart whose patch meets another writer's, again and again
    tries_again(world)
    world.server.refuses = lambda write: 409 if write.plural == "sparkapplications" else 0
    world.server.subscription(updateStrategy="Restart")
    world.server.stream(cluster("east"), cluster("west"))
    with pytest.raises(ApiError):
        world.works()

    # When the application fails, and the status with the failure is refused once, then the failure counts already
    refused = ["kafkastreamsubscriptions", "sparkapplications", "sparkapplications"]
    world.server.refuses = lambda write: 409 if write.plural == refused[0] else 0
    status = {"applicationState": {"state": "FAILING"}, "submissionID": "s1"}
    world.server._status(KUBEFLOW_APPLICATIONS, status)
    for sent in (0, 1, 1):
        world.sees()
        with pytest.raises(ApiError):
            world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
        assert world.value("subscription_failures_total") == 1
        assert reasons(world).count("ApplicationFailed") == sent
        assert "Restarting" not in reasons(world)
        del refused[0]

    # And neither it nor its Event is repeated when the patch succeeds
    world.server.refuses = lambda write: 0
    world.works()
    world.work(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
    assert world.value("subscription_failures_total") == world.value("subscription_restarts_total") == 1
    assert reasons(world).count("ApplicationFailed") == reasons(world).count("Restarting") == 1


def reasons(world: Scraped) -> list[str]:
    """Return the reasons of all Events."""
    return [event["reason"] for event in world.server.events]


@pytest.mark.parametrize(
    ("state", "down"), [("RUNNING", 1), ("PENDING_RERUN", 1), ("FAILED", 1), ("COMPLETED", 0), ("SUSPENDED", 0)]
)
def test_an_application_without_a_driver_is_down_at_rest_too(world: Scraped, state: str, down: int) -> None:
    """As after the eviction of its driver, where the next one waits for a quota: no roll-out waits for it."""
    assert world.value("subscription_application_down") == 0
    world.server.remove(PODS, "app-driver")
    world.server._status(KUBEFLOW_APPLICATIONS, {"applicationState": {"state": state}})
    world.works()
    assert world.value("subscription_application_down") == down
    assert world.value("subscription_rollout_without_driver") == 0


def test_a_failed_application_at_rest_has_no_roll_out(world: Scraped) -> None:
    world.server._status(KUBEFLOW_APPLICATIONS, {"applicationState": {"state": "FAILED"}})
    world.works()
    assert world.value("subscription_rollout_without_driver") == 0


def test_a_roll_out_has_no_age_in_a_pause(world: Scraped) -> None:
    world.server.stream(cluster("east"), cluster("west"))
    world.works()
    assert world.value("subscription_rollout_age_seconds", method="Reload") == 0
    world.server.subscription(updateStrategy="Reload", pause={"reason": "freeze"})
    world.works()
    assert world.value("subscription_rollout_age_seconds", method="Reload") is None
    world.server.subscription(updateStrategy="Reload")
    world.works()
    assert world.value("subscription_rollout_age_seconds", method="Reload") == 0


def drain_since(world: Scraped, since: str) -> None:
    """Write a status with this begin of a drain, and a stream's condition of that time."""
    for resource, name in ((SUBSCRIPTIONS, "app"), (STREAMS, "orders")):
        ref = Ref(resource, NAMESPACE, name)
        stored = world.server.objects[ref]
        status = {**stored["status"], "draining": [{**TOPIC, "since": since}]} if name == "app" else stored["status"]
        safe = {"type": "Drained", "status": "False", "reason": "Draining", "lastTransitionTime": since}
        status = status if name == "app" else {**status, "conditions": [safe]}
        world.server._store(ref, {**stored, "status": status})
    world.sees()


@pytest.mark.parametrize("since", ["soon", "2026-02-31T00:00:00Z"])
def test_an_unreadable_status_does_not_end_the_scrape(world: Scraped, since: str) -> None:
    world.server.put(STREAMS, "other", {"clusters": [cluster("east")]})
    world.works()
    drain_since(world, since)
    assert (world.value("subscription_ready"), world.value("stream_ready")) == (0, 0)
    others = {"namespace": NAMESPACE, "stream": "other"}
    assert world.scrape()["stream_ready", frozenset(others.items())] == 1


def test_a_time_in_lower_case_is_read(world: Scraped) -> None:
    drain_since(world, world.server.now.strftime("%Y-%m-%dt%H:%M:%Sz"))
    world.later(minutes=1)
    ages = (world.value("subscription_drain_age_seconds"), world.value("stream_drain_age_seconds"))
    assert [round(seconds or 0, -1) for seconds in ages] == [60, 60]


def test_the_series_vanish_with_their_object(world: Scraped) -> None:
    assert {name.partition("_")[0] for name in world.present()} == {"stream", "subscription"}
    world.server.remove(SUBSCRIPTIONS, "app")
    world.works()
    assert {name.partition("_")[0] for name in world.present()} == {"stream", "document"}
    assert not world.operator.measured._metrics
    world.server.remove(STREAMS, "orders")
    world.works()
    assert world.present() == {"document_left_behind"}
    world.server.remove(CONFIG_MAPS, DOCUMENT)
    world.works()
    assert world.present() == set()


def test_a_document_without_its_subscription_is_shown(world: Scraped) -> None:
    series = "document_left_behind", frozenset({("namespace", NAMESPACE), ("document", DOCUMENT)})
    assert series not in world.scrape()
    world.server.remove(SUBSCRIPTIONS, "app")
    world.works()
    assert world.scrape()[series] == 1
    world.server.subscription(updateStrategy="Reload")
    world.works()
    assert series not in world.scrape()


def test_a_subscription_made_again_counts_from_zero(world: Scraped) -> None:
    assert world.value("subscription_apply_to_rendered_seconds_count") == 1
    world.server.remove(SUBSCRIPTIONS, "app")
    world.server.subscription(updateStrategy="Reload")
    world.operator.cache.put(SUBSCRIPTIONS, world.server.objects[Ref(SUBSCRIPTIONS, NAMESPACE, "app")])
    assert world.value("subscription_restarts_total") is None
    world.works()
    assert world.value("subscription_restarts_total") == 0


def test_a_failing_object_is_named_while_it_fails(world: Scraped) -> None:
    failing = Ref(SUBSCRIPTIONS, NAMESPACE, "app")
    world.operator.queue._failures.update({failing: 3, Ref(SUBSCRIPTIONS, NAMESPACE, "gone"): 1})
    labels = {"resource": SUBSCRIPTIONS.full_name, "namespace": NAMESPACE}
    failures = {key: value for key, value in world.scrape().items() if key[0] == "reconcile_failures"}
    assert failures == {("reconcile_failures", frozenset((labels | {"name": "app"}).items())): 3}


def test_a_namespace_that_was_never_served_is_a_failure(world: Scraped) -> None:
    """kopf may have delivered a part of its objects."""
    assert "stream_ready" in world.present()
    world.operator.listings.failures[NAMESPACE] = 12
    labels = {"resource": "namespaces", "namespace": NAMESPACE, "name": NAMESPACE}
    assert world.scrape()["reconcile_failures", frozenset(labels.items())] == 12
    assert world.present() == {"reconcile_failures"}


def test_the_alerts_of_a_namespace_outlast_its_refusal(world: Scraped, monkeypatch: pytest.MonkeyPatch) -> None:
    reject(world)
    before = world.present()
    listing = world.server.list

    refused = set[str]()

    def lists(resource: Any, namespace: str, **more: Any) -> Any:
        if namespace in refused:
            raise ApiError("GET x", 403, "Forbidden", "no Role")
        return listing(resource, namespace, **more)

    monkeypatch.setattr(world.server, "list", lists)
    world.operator.listings = Listings(cast(Api, world.server), (NAMESPACE, "other"))
    world.operator.resync()
    refused.add(NAMESPACE)
    world.operator.resync()
    assert not world.operator.serves(NAMESPACE)
    assert world.present() == before | {"reconcile_failures"}
    assert world.value("subscription_revision_rejected") == 1
    world.operator.cache.remove(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))  # its watch still delivers a deletion
    assert world.value("subscription_revision_rejected") is None


def test_a_standby_operator_shows_no_object_and_no_watch() -> None:
    waiting = parsed(scrape(Scraped().operator))
    assert {name for name, _ in waiting} == {"serving", "queue_depth", "reconcile_errors_total"}
    assert waiting["serving", frozenset()] == 0


def test_a_watch_is_as_old_as_its_last_event_or_listing(world: Scraped) -> None:
    world.operator.health = type(world.operator.health)(lambda: world.server.seconds)
    world.operator.health.enter("serving")

    def age(plural: str) -> float:
        return world.scrape()["watch_age_seconds", frozenset({("resource", plural)})]

    world.later(seconds=400)
    world.operator.health.watches.record_event((STREAMS, None))
    world.later(seconds=5)
    assert (age("kafkastreams.kafkastream.dev"), age("pods")) == (5, 405)
    world.operator.health.watches.record_listing(False)
    assert age("pods") == 405
    world.operator.health.watches.record_listing(True)
    assert age("pods") == 0


def test_a_scrape_has_only_names_of_objects(world: Scraped) -> None:
    world.server.stream(cluster("west", startingOffsets="sometimes"))
    world.works()
    text = scrape(world.operator)
    values = set(re.findall(r'="([^"]*)"', text)) - {resource.full_name for resource, _ in WATCHED}
    assert {label for label in values if not re.fullmatch(r"[\d.]+|\+Inf", label)} == {NAMESPACE, "orders", "app"}


def test_labels_with_quotes_stay_one_value() -> None:
    made = MetricFamilies()
    made.add("reconcile_failures", ("a", 'b"\\', "c\nd"), 1)
    ((_, labels),) = parsed(made.text())
    assert dict(labels) == {"resource": "a", "namespace": 'b"\\', "name": "c\nd"}


@pytest.mark.parametrize(("seconds", "bound"), [(0.0, "0.05"), (0.05, "0.05"), (0.051, "0.1"), (61.0, "+Inf")])
def test_an_observation_falls_into_its_bucket(seconds: float, bound: str) -> None:
    histogram, made = Histogram.of("subscription_apply_to_rendered_seconds"), MetricFamilies()
    histogram.observe(seconds)
    made.add_histogram("subscription_apply_to_rendered_seconds", ("team", "app"), histogram)
    lines = [dict(labels)["le"] for (name, labels), value in parsed(made.text()).items() if "bucket" in name and value]
    assert lines[0] == bound


def served(operator: Operator) -> Iterable[urllib3.BaseHTTPResponse]:
    """Yield the answers to a scrape and to another path."""
    (port,) = reserve_ports(1)
    server = serve_metrics(operator, f"http://127.0.0.1:{port}/metrics")
    try:
        yield from (urllib3.request("GET", f"http://127.0.0.1:{port}/{path}") for path in ("metrics", "healthz"))
    finally:
        server.shutdown()
        server.server_close()


def test_a_scrape_is_answered_over_http(world: Scraped) -> None:
    scraped, elsewhere = served(world.operator)
    assert (scraped.status, elsewhere.status) == (200, 404)
    assert scraped.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert ("stream_ready", frozenset({("namespace", NAMESPACE), ("stream", "orders")})) in parsed(
        scraped.data.decode()
    )
