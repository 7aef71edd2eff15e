"""A world for stories about one subscription: the objects as the core sees them, and an operator that may die.

The operator's core runs alone here, without an API server. `server.py` has one in memory, for stories of the whole
operator, with the same drivers' reports. `checked_world.py` adds the events of random stories, and checks the
operator's promises after each. Each step of a story returns the world, so that steps can be chained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from dynamic_kafka.contract.driver_report import LIVE, DriverReport, ReportedTopic
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import FAILED, Application, FailedDriver, Life, Patch, Refresh
from kafkastream_operator.core.catalog import Catalog, ConfigMapText, config_map_entries, put_together, stream_entry
from kafkastream_operator.core.decide import decide
from kafkastream_operator.core.document import Document, Key
from kafkastream_operator.core.drain_evidence import Driver, Report, TopicReport
from kafkastream_operator.core.everybody import Everybody
from kafkastream_operator.core.failure import failure_in
from kafkastream_operator.core.rollout.budget import Turn
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.core.stream_status import stream_status
from kafkastream_operator.core.subscriber import Subscriber
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import ConfigMap, Plan, View
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus
from tests.support.resources import states

START = datetime(2026, 11, 1, tzinfo=UTC)
UID = "kss-uid"


class DiedError(BaseException):
    """The death of the operator between two writes. It is no Exception, so that the operator cannot catch it."""


def cluster(name: str, *topics: str, **more: Any) -> dict[str, Any]:
    """Return a cluster of a KafkaStream."""
    return {"id": name, "bootstrapServers": f"{name}:9092", "topics": list(topics or ["orders"]), **more}


def make_catalog(streams: Mapping[str, Mapping[str, Any]], config_maps: Iterable[ConfigMapText]) -> Catalog:
    """Return the catalog of a namespace. `streams` are the specs of its KafkaStreams by name."""
    return put_together(
        {name: stream_entry(name, spec) for name, spec in streams.items()},
        {config_map.name: config_map_entries(config_map) for config_map in config_maps},
    )


def report_text(
    document: Document,
    pod: str,
    draining: Mapping[Key, TopicReport],
    *,
    subscription: str = UID,
    abilities: Iterable[str] = (LIVE,),
    beat: int = 0,
) -> str:
    """Return what the driver in this pod writes when it has the document in force."""
    topics = [
        ReportedTopic(
            cluster=key.cluster,
            topic=key.topic,
            lag=topic_report.lag,
            quiet_s=topic_report.quiet_s,
            open_transaction=topic_report.open_transaction,
            kafka_id=topic_report.kafka_id,
            never_reached=topic_report.never_reached,
            finished=topic_report.finished,
        )
        for key, topic_report in draining.items()
    ]
    return DriverReport(
        abilities=tuple(abilities),
        applied=document.revision.token,
        hash=document.hash,
        subscription=subscription,
        pod=pod,
        beat=beat,
        draining=tuple(topics),
        streams=dict(document.streams),
    ).text()


def settle(act: Callable[[], object], progress: Callable[[], object], times: int = 20) -> None:
    """Act again and again, until that makes no more progress."""
    for _ in range(times):
        before = progress()
        act()
        if progress() == before:
            return
    raise AssertionError(f"it never comes to rest: {progress()}")


@dataclass
class World:
    """A namespace with one application.

    Attributes:
        streams: specs of KafkaStreams by name.
        config_maps: texts of labelled ConfigMaps by name.
        writes: what the operator wrote, one word each.
        annotated: the subscription was made from annotations.
        dies_after: the operator dies after so many writes.
        attempted: the last patch that the spec has: the same again changes nothing.
        turn: returns its place in the order of several worlds' restarts.
        timing: how long things may take; nothing is gathered, unless a story is about that.
    """

    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    config_maps: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    generation: int = 1
    status: SubscriptionStatus = field(default_factory=SubscriptionStatus)
    document: Document | None = None
    taken: bool = False
    edited: bool = False
    application: Application | None = None
    driver: Driver | None = None
    failed_driver: FailedDriver | None = None
    released: frozenset[str] = frozenset()
    retry: str = ""
    rival: str = ""
    annotated: bool = False
    now: datetime = START
    version: int = 1
    writes: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    dies_after: int | None = None
    again: datetime | None = None
    timing: Timing = field(default_factory=lambda: Timing(gather=timedelta()))
    attempted: str = ""
    turn: Callable[[], Turn | None] = lambda: None

    def __post_init__(self) -> None:
        self.spec = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}, **self.spec}

    # -- what users and Spark do ------------------------------------------------------------------------------------

    def stream(self, name: str, *clusters: Mapping[str, Any], **drain: Any) -> Self:
        """Apply a KafkaStream."""
        self.streams[name] = {"clusters": list(clusters), **({"drain": drain} if drain else {})}
        return self

    def changes(self, **spec: Any) -> Self:
        """Apply the subscription with another spec."""
        self.spec, self.generation = {**self.spec, **spec}, self.generation + 1
        return self

    def application_is(self, life: Life, *, failure: str | None = None, **more: Any) -> Self:
        """Set the state of the application, and its failure by a Spark operator's text."""
        more |= {"failure": failure_in(failure)} if failure is not None else {}
        known = replace(self.application or Application("app-uid", "1", life), life=life, **more)
        failed = known.submission if life in FAILED else ""
        self.application = replace(known, failed_submission=more.get("failed_submission", failed))
        return self

    def driver_starts(self, *, reports: bool = True) -> Self:
        """Start a driver's pod for the token of the spec, with the newest document."""
        assert self.application is not None
        count = int(self.application.submission.removeprefix("s") or 0) + 1
        self.application_is("Running", submission=f"s{count}")
        self.driver = Driver(
            f"driver-{count}",
            f"uid-{count}",
            True,
            True,
            self.application.token,
            mounted=True,
            namespace="jobs",
            account="shop",
        )
        return self.driver_reports() if reports else self

    def driver_fails(self, text: str = "") -> Self:
        """End the driver's pod with a failure, and submit the application again before the operator sees more."""
        assert self.application is not None
        assert self.driver is not None
        self.failed_driver = FailedDriver(self.driver.uid, self.application.submission, failure_in(text))
        self.driver = None
        return self.application_is("Starting")

    def driver_reports(self, *, abilities: tuple[str, ...] = (LIVE,), **draining: TopicReport) -> Self:
        """Report the newest document as in force. Topics are written `cluster__topic`."""
        assert self.driver is not None
        assert self.document is not None
        topics = {Key(*name.split("__")): topic_report for name, topic_report in draining.items()}
        self.driver = replace(self.driver, report=self.report_of(self.document, abilities, topics), silent_s=0.0)
        return self

    def report_of(self, document: Document, abilities: Iterable[str], draining: Mapping[Key, TopicReport]) -> Report:
        """Return the report of the present driver when it has a document in force."""
        assert self.driver is not None
        report = Report.parse(report_text(document, self.driver.uid, draining, abilities=abilities))
        assert report is not None
        return report

    def later(self, **delta: float) -> Self:
        """Let time pass."""
        self.now += timedelta(**delta)
        return self

    # -- what the operator does -------------------------------------------------------------------------------------

    def look(self) -> Plan:
        """Reconcile once: decide, and write in order, or die between two writes."""
        plan = decide(self.view())
        if plan.document is not None:
            self._write("document")
            self.document, self.edited = plan.document, False
            self.version += 1
            self._survive()
        if plan.status is not None:
            self._write("status")
            self.status = plan.status
            self._survive()
        if plan.effect is not None:
            self._effect(plan.effect)
            self._survive()
        if plan.after is not None:
            self._write("status")
            self.status = plan.after
            self._survive()
        self.events += plan.events
        self.again = plan.again
        return plan

    def settle(self) -> Self:
        """Reconcile until nothing more is written."""
        settle(self.look, lambda: (len(self.writes), self.writes[-10:]))
        return self

    def settle_with_deaths(self, after: int) -> None:
        """Reconcile until nothing more is written, with an operator that dies after `after` writes and starts again."""
        self.dies_after = len(self.writes) + after
        try:
            self.settle()
        except DiedError:
            self.settle()
        self.dies_after = None

    def view(self) -> View:
        """Return the view of the operator."""
        config_map = None
        if self.document is not None or self.edited or self.taken:
            document = None if self.edited or self.taken else self.document
            config_map = ConfigMap(str(self.version), not self.taken, document, self.edited)
        return View(
            uid=UID,
            generation=self.generation,
            spec=SubscriptionSpec.model_validate(self.spec),
            status=self.status,
            catalog=self.catalog(),
            config_map=config_map,
            application=self.application,
            driver=self.driver,
            now=self.now,
            fresh_lineage="fresh",
            released=self.released,
            retry=self.retry,
            rival=self.rival,
            annotated=self.annotated,
            failed_driver=self.failed_driver,
            turn=self.turn(),
            timing=self.timing,
        )

    def catalog(self) -> Catalog:
        """Return the catalog of the namespace."""
        texts = [ConfigMapText(name, {"streams.yaml": text}) for name, text in self.config_maps.items()]
        return make_catalog(self.streams, texts)

    # -- observations -----------------------------------------------------------------------------------------------

    def condition(self, kind: str) -> tuple[str, str]:
        """Return status and reason of a condition."""
        (condition,) = [candidate for candidate in self.status.conditions if candidate.type == kind]
        return condition.status, condition.reason

    def message(self, kind: str) -> str:
        """Return the message of a condition."""
        (condition,) = [candidate for candidate in self.status.conditions if candidate.type == kind]
        return condition.message

    def reader(self, life: str = "Running", **more: Any) -> Subscriber:
        """Return the subscription as a stream's reconcile finds it, for an application in this state."""
        current = self.document if not self.edited else None
        streams, revision = (current.streams, current.revision.token) if current is not None else (self.status.kept, "")
        return Subscriber("app", "app", life, self.status, **{"rendered": streams, "revision": revision, **more})

    def stream_status(
        self,
        name: str,
        readers: Iterable[Subscriber],
        before: KafkaStreamStatus | None = None,
        generation: int = 1,
        others: Iterable[Subscriber] = (),
    ) -> KafkaStreamStatus:
        """Return the status that a reconcile of the stream would write now; `others` do not read the stream."""
        known, subscribers = before or KafkaStreamStatus(), list(readers)
        everybody = Everybody([*subscribers, *others])
        return stream_status(
            name, self.catalog(), subscribers, known, everybody=everybody, generation=generation, now=stamp(self.now)
        )

    def rendered(self) -> dict[str, str]:
        """Return the states in the document: {`cluster/topic`: `Active` or `Draining`}."""
        topic_states = states(self.document)
        assert topic_states is not None
        return topic_states

    @property
    def patches(self) -> int:
        """The number of patches of the application so far."""
        return self.writes.count("patch")

    def _write(self, what: str) -> None:
        self.writes.append(what)

    def _survive(self) -> None:
        if self.dies_after is not None and len(self.writes) >= self.dies_after:
            self.dies_after = None
            raise DiedError

    def _effect(self, effect: Patch | Refresh) -> None:
        assert self.application is not None
        if isinstance(effect, Refresh):
            self._write("refresh")
            return
        assert effect.expected == self.application.resource_version
        attempted = f"{effect.token}#{effect.attempt}"
        self._write("patch")
        if attempted != self.attempted:
            # A patch that changes nothing has no effect.
            self.attempted = attempted
            self.application = replace(
                self.application,
                token=effect.token,
                attempt=effect.attempt,
                mounts=effect.secrets,
                resource_version=str(int(self.application.resource_version) + 1),
            )
            self._survive()
        if effect.pod_to_delete is not None and self.driver is not None and effect.pod_to_delete.uid == self.driver.uid:
            self._write("end")
            self.driver = None


def running(**spec: Any) -> World:
    """Return the world of an application that runs on cluster east, with its document adopted."""
    world = World(spec=spec).stream("orders", cluster("east"))
    return world.application_is("Starting").settle().driver_starts().settle()


def restarted(world: World) -> None:
    """Let Kubeflow's operator follow the patch with a new driver."""
    world.application_is("Starting").driver = None
    world.settle().driver_starts().settle()


def revision_of(world: World) -> Revision:
    """Return the revision of the document."""
    assert world.document is not None
    return world.document.revision


def drained_of(status: KafkaStreamStatus) -> tuple[str, str]:
    """Return status and message of a stream's `Drained`."""
    (condition,) = [candidate for candidate in status.conditions if candidate.type == "Drained"]
    return condition.status, condition.message
