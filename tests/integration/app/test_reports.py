"""The driver's reports to the operator, from real brokers to a fake API server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.driver.report.drain_tracker import DrainTracker, TopicDrain
from dynamic_kafka.driver.report.lag_prober import LagProber
from dynamic_kafka.metadata.document import document_hash
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from kafkastream_operator.core.document import Key, make_document
from kafkastream_operator.core.drain_evidence import Driver, Report, missing_evidence
from tests.integration.app.driving import AppRun, write_app
from tests.integration.source.evaluators import END
from tests.support.api_server import TOKEN, FakeApiServer
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.mounted import mount
from tests.support.streams import assert_rows, produce

DEEP = pytest.mark.deep("more contents of a report")

SUBSCRIPTION = "uid-of-subscription"


def rendered(revision: int, at: KafkaCluster, topics: list[str], **more: Any) -> str:
    """The document that the operator renders for the stream `st` on the cluster `a`."""
    cluster = {"bootstrapServers": at.bootstrap, "topics": topics, **more}
    streams = {"st": {"clusters": {"a": cluster}}}
    return make_document(Revision(lineage="l", counter=revision), streams, {}, SUBSCRIPTION).text()


# -- what clusters are asked ---------------------------------------------------------------------------------------


class Probing:
    """A prober on one cluster, whose topic drains; without an application."""

    def __init__(self, at: KafkaCluster, topic: str, folder: Path, **properties: str) -> None:
        self.at, self.topic = at, topic
        mount(folder, "1", rendered(1, at, [topic], state="Draining", properties=properties), "streams.json")
        options = parse_options({"streamIds": "st", "metadataPath": str(folder)}, mode="streaming")
        self.discovery = make_discovery(options)
        self.discovery.start()
        self.drains = _Rounds()
        self.prober = LagProber(options, self.discovery, 0.05, drains=self.drains)
        self.prober.start()

    def until(self, done: Callable[[TopicDrain], bool], what: str) -> TopicDrain:
        """The first state of the topic that is as wanted, for a sink that has read all there was when it was asked."""
        for _ in range(400):
            self.drains.wait()
            (state,) = self.drains.states([self.all_read()], time.monotonic())
            if done(state):
                return state
        raise AssertionError(f"{what} did not come: {state}")

    def all_read(self) -> OffsetDocument:
        """A sink that has read all that is committed."""
        progress = TopicProgress("st", self.at.end_offsets(self.topic, committed=True))
        return OffsetDocument("q", 1, clusters={"a": ClusterProgress({self.topic: progress})})


class _Rounds(DrainTracker):
    def __init__(self) -> None:
        super().__init__()
        self._over = threading.Semaphore(0)

    def record(self, *arguments: Any, **more: Any) -> None:
        super().record(*arguments, **more)
        self._over.release()

    def wait(self) -> None:
        assert self._over.acquire(timeout=30)


@pytest.fixture
def probing(brokers: Brokers, topic: Topic, tmp_path: Path) -> Iterator[Callable[..., Probing]]:
    made: list[Probing] = []

    def start(**properties: str) -> Probing:
        name = brokers.a.create_topic(topic("drains"))
        brokers.a.produce(name, ["x"] * 5)
        made.append(Probing(brokers.a, name, tmp_path / name, **properties))
        return made[-1]

    yield start
    for probe in made:
        probe.prober.stop()
        probe.discovery.stop()


def test_read_committed_sees_an_open_transaction(probing: Callable[..., Probing]) -> None:
    probe = probing(**{"isolation.level": "read_committed"})
    probe.until(lambda state: state.lag == 0 and state.quiet_s > 0.1, "quiet")

    transaction = probe.at.transaction()
    transaction.produce(probe.topic, ["y"] * 3)
    state = probe.until(lambda state: state.open_transaction, "the open transaction")
    assert state.lag == 0, "as far as the last stable offset all is read"

    transaction.abort()
    state = probe.until(lambda state: not state.open_transaction, "its end")
    probe.until(lambda state: state.lag == 0 and state.quiet_s > 0.1, "quiet")


@DEEP
def test_read_uncommitted_sees_a_transactions_records_at_once(probing: Callable[..., Probing]) -> None:
    probe = probing()
    transaction = probe.at.transaction()
    transaction.produce(probe.topic, ["y"] * 3)
    state = probe.until(lambda state: state.lag == 3, "its records")
    assert not state.open_transaction
    transaction.abort()


@DEEP
def test_an_added_partition_leaves_the_lag_unknown_until_read(probing: Callable[..., Probing]) -> None:
    probe = probing()
    read_before = probe.all_read()
    probe.until(lambda state: state.lag == 0 and state.quiet_s > 0.1, "quiet")
    probe.at.create_partitions(probe.topic, 2)
    probe.until(lambda state: probe.drains.states([read_before], time.monotonic())[0].lag is None, "the partition")
    probe.until(lambda state: state.lag == 0, "a sink that has read it")


# -- the application -----------------------------------------------------------------------------------------------


@DEEP
@pytest.mark.timeout(600)
def test_a_drain_in_a_mounted_document_is_reported_as_evidence(brokers: Brokers, topic: Topic, tmp_path: Path) -> None:
    old, new = topic("old"), topic("new")
    for name in (old, new):
        brokers.a.create_topic(name)
    wanted = produce("a", brokers.a, old, 30) + produce("a", brokers.a, new, 10)
    folder = tmp_path / "kafkastreams"
    mount(folder, "1", rendered(1, brokers.a, [old]), "streams.json")
    config = write_app(tmp_path, metadata=str(folder))

    with FakeApiServer(tmp_path) as server:
        environment = {**server.environment(), "KAFKASTREAMS_REVISION": "l/2"}
        with AppRun(config, environment=environment) as run:
            # The start waits for the revision in the run's environment.
            run.wait_until(lambda: bool(run.events("application")), "the start")
            mount(folder, "2", rendered(2, brokers.a, [old, new]), "streams.json")
            run.wait_rows(wanted)
            run.wait_until(lambda: any(report["applied"] for report in server.reports()), "the first report")
            first = server.reports()[-1]
            assert (first["applied"], first["draining"], first["pod"]) == ("l/2", [], server.uid)
            assert first["hash"] == document_hash(first["streams"])

            # Nothing is produced any more, and the document now drains one topic.
            mount(folder, "3", rendered(3, brokers.a, [old, new], drainingTopics=[old]), "streams.json")
            run.wait_until(lambda: not evidence(server, old, quiet_s=5), "evidence that it is drained")
            assert "has not been quiet" in evidence(server, old, quiet_s=3600)
            assert "reports nothing about" in evidence(server, new, quiet_s=5)
            beats = [report for report in server.reports() if report["draining"]]
            quiet = [beat["draining"][0]["quiet"] for beat in beats]
            assert quiet[0] == 0 and quiet == sorted(quiet), quiet
            assert all(beat["draining"][0]["lag"] == 0 for beat in beats)
            run.terminate()
            assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
        assert TOKEN not in run.text() + json.dumps(server.annotations)


@DEEP
@pytest.mark.parametrize("trigger", [{"interval": "200ms"}, {"availableNow": True}], ids=str)
def test_the_last_report_says_that_all_has_ended(
    brokers: Brokers, topic: Topic, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    name = brokers.a.create_topic(topic("day"))
    wanted = produce("a", brokers.a, name, 5)
    brokers.a.produce(name, [END, "late"])
    mount(tmp_path / "kafkastreams", "1", rendered(1, brokers.a, [name]), "streams.json")
    options = {"startingOffsets": "earliest", "recordEvaluator": "tests.integration.source.evaluators:is_end"}
    config = write_app(tmp_path, metadata=str(tmp_path / "kafkastreams"), options=options, trigger=trigger)
    with FakeApiServer(tmp_path) as server, AppRun(config, environment=server.environment()) as run:
        assert run.wait_exit() == 0, run.last_lines()
        report = json.loads(server.annotations["kafkastream.dev/report"])
    assert (report["finished"], report["openSplits"], report["applied"]) == (True, [], "l/1")
    assert_rows(run.rows(), wanted)


def evidence(server: FakeApiServer, topic: str, *, quiet_s: float) -> str:
    """Return the evidence that the operator misses in the pod's annotation to end the drain of a topic."""
    report = Report.parse(server.annotations.get("kafkastream.dev/report"))
    driver = Driver(server.name, server.uid, owned=True, running=True, report=report)
    return missing_evidence(
        Key("a", topic),
        since=Revision(lineage="l", counter=3),
        quiet_s=quiet_s,
        subscription=SUBSCRIPTION,
        life="Running",
        driver=driver,
    )
