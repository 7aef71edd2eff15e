"""The operator's own work in a fleet: its looks and processor seconds for each change, without an API server's time.

The API server is in memory. Each job reads ten streams, and each stream is on two of twenty clusters that all share.
`looks` counts the keys that the queue hands out until nothing is left to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION, REVISION_ANNOTATION
from kafkastream_operator.core.document import Document, read_document
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import (
    CONFIG_MAPS,
    EVENTS,
    KUBEFLOW_APPLICATIONS,
    PODS,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Ref
from tests.bench.report import Report
from tests.unit.operator.world import cluster, report_text

NAMESPACE = "jobs"
SIZES = ((300, 30), (1000, 100), (3000, 300), (10_000, 1000))
"""Streams and jobs."""
CLUSTERS, STREAMS_OF_A_JOB = 20, 10


class Fleet:
    """An operator with an API server in memory, whose watch events it takes in at once.

    Attributes:
        writes: how many writes the operator has made.
    """

    def __init__(self, streams: int, jobs: int) -> None:
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.writes = self._versions = 0
        self.operator = Operator(cast(Api, self))
        self.operator._loop = cast(Any, self)
        self.jobs = jobs
        now = stamp(datetime.now(UTC))
        for number in range(streams):
            self.put(STREAMS, f"s{number}", {"spec": {"clusters": [self._cluster(number), self._cluster(number + 7)]}})
        for number in range(jobs):
            ids = [f"s{(number * STREAMS_OF_A_JOB + nth) % streams}" for nth in range(STREAMS_OF_A_JOB)]
            spec = {"applicationRef": {"name": f"app{number}"}, "streams": {"ids": ids}}
            self.put(SUBSCRIPTIONS, f"app{number}", {"spec": spec})
            state = {"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": f"app{number}-driver"}}
            self.put(KUBEFLOW_APPLICATIONS, f"app{number}", {"status": {**state, "submissionID": f"u{number}"}})
            labels = {"sparkoperator.k8s.io/app-name": f"app{number}", "spark-role": "driver"}
            labels |= {"sparkoperator.k8s.io/submission-id": f"u{number}"}
            content = {"status": {"phase": "Running"}, "spec": {"serviceAccountName": "spark", "startedAt": now}}
            self.put(PODS, f"app{number}-driver", content, labels=labels)

    @staticmethod
    def _cluster(number: int) -> dict[str, Any]:
        return cluster(f"c{number % CLUSTERS}", f"t{number}")

    def put(self, resource: Resource, name: str, content: Mapping[str, Any], **metadata: Any) -> Object:
        """Store an object, and let the operator see it."""
        ref = Ref(resource, NAMESPACE, name)
        known = self.objects.get(ref, {})
        new = {"creationTimestamp": "2026-11-01T00:00:00Z", "uid": f"{resource.plural}-{name}"}
        before = known.get("metadata", new)
        self._versions += 1
        meta = {**before, **content.get("metadata", {}), **metadata, "name": name, "namespace": NAMESPACE}
        meta["generation"] = before.get("generation", 0) + (content.get("spec", known.get("spec")) != known.get("spec"))
        meta["resourceVersion"] = str(self._versions)
        stored = {"apiVersion": resource.api_version, "spec": {}, **known, **content, "metadata": meta}
        self.objects[ref] = stored
        if resource != EVENTS:
            self.operator.take(resource, "MODIFIED", stored)
        return stored

    def reports(self, number: int, beat: int) -> None:
        """Let a job's driver report its document, with the beat of a living one."""
        name = f"app{number}-driver"
        config_map = self.objects[Ref(CONFIG_MAPS, NAMESPACE, f"app{number}-kafkastreams")]
        document = read_document(config_map.get("data") or {}, config_map.get("binaryData") or {})
        assert isinstance(document, Document)
        pod = f"pods-{name}"
        text = report_text(document, pod, {}, subscription=document.subscription, beat=beat)
        annotations = {REPORT_ANNOTATION: text, REVISION_ANNOTATION: ""}
        self.put(PODS, name, {}, annotations=annotations)

    def resync(self) -> None:
        """Queue everything, as the operator does every few minutes."""
        for ref in self.objects:
            if ref.resource in (STREAMS, SUBSCRIPTIONS, KUBEFLOW_APPLICATIONS):
                self.operator.queue.add(ref)

    def settle(self) -> int:
        """Work until nothing is left to do, and return the number of looks."""
        return asyncio.run(self._settle())

    async def _settle(self) -> int:
        queue, looks = self.operator.queue, 0
        while queue.depth:
            job = await queue.next()
            queue._work(job)
            looks += 1
        return looks

    def call_soon_threadsafe(self, add: Callable[[Ref], None], job: Ref) -> None:
        """Take a key in the event loop's place."""
        add(job)

    # -- the API that the operator writes to --------------------------------------------------------------------------

    def create(self, resource: Resource, body: Object) -> Object:
        self.writes += 1
        return self.put(resource, body["metadata"].get("name", "event"), body)

    def replace(self, resource: Resource, body: Object, *, subresource: str | None = None) -> Object:
        self.writes += 1
        name = body["metadata"]["name"]
        return self.put(resource, name, {subresource: body[subresource]} if subresource else body)

    def merge(self, resource: Resource, namespace: str, name: str, change: Object) -> Object:
        self.writes += 1
        return self.put(resource, name, change)

    def apply(self, resource: Resource, body: Object, *, force: bool = False) -> Object:
        self.writes += 1
        return self.put(resource, body["metadata"]["name"], body)


def run(report: Report) -> None:
    """Measure a cold start, and then single changes, for each size of the fleet."""
    for streams, jobs in SIZES:
        for figures in _measured(streams, jobs):
            report.row(**figures)


def _measured(streams: int, jobs: int) -> Iterator[dict[str, Any]]:
    name = f"{streams:,} streams, {jobs:,} jobs"
    fleet = Fleet(streams, jobs)

    def measure(what: str, change: Callable[[], object], times: int = 1) -> dict[str, Any]:
        looks, writes, began = 0, fleet.writes, time.process_time()
        for _ in range(times):
            change()
            looks += fleet.settle()
        seconds = (time.process_time() - began) / times
        return {
            "what": f"{name}: {what}",
            "cpu_ms": round(seconds * 1000, 2),
            "looks": round(looks / times, 1),
            "writes": round((fleet.writes - writes) / times, 1),
        }

    yield measure("cold start", lambda: None)
    for number in range(jobs):
        fleet.reports(number, 1)
    yield measure("first reports of all", lambda: None)
    beats = iter(range(2, 1000))
    yield measure("a beat of one job", lambda: fleet.reports(3, next(beats)), times=5)
    changed = iter(range(1000))

    def change_stream() -> None:
        number = next(changed) * STREAMS_OF_A_JOB
        clusters = [fleet._cluster(number), cluster(f"c{(number + 7) % CLUSTERS}", f"t{number + 7}", f"more{number}")]
        fleet.put(STREAMS, f"s{number}", {"spec": {"clusters": clusters}})

    yield measure("a changed stream", change_stream, times=5)
    alone = {"status": {"applicationState": {"state": "RUNNING"}}}
    other = iter(range(1000))
    yield measure(
        "an application without streams",
        lambda: fleet.put(KUBEFLOW_APPLICATIONS, f"batch{next(other)}", alone),
        times=5,
    )
    yield measure("a resync", fleet.resync)
