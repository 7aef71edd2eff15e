"""Many streams and jobs under one operator, with an API server in memory: for its benchmark, and for random stories.

Unlike `server.py`, it shows the operator each change as an event, and the operator works on what its queue holds only.
Time stands still: a look that asks to be repeated later is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from kafkastream_operator.core.document import read_document
from kafkastream_operator.errors import ConflictError, NotFoundError
from kafkastream_operator.handlers.concerned import all_keys
from kafkastream_operator.handlers.reconcile import Reconciler
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
from tests.unit.operator.server import TIMING
from tests.unit.operator.world import START, report_text

NAMESPACE = "jobs"
RUNNING = {"applicationState": {"state": "RUNNING"}}


class Fleet:
    """A namespace, and the operator that serves it.

    Attributes:
        objects: what the API server has.
        writes: the objects that the operator has written, in their order.
    """

    def __init__(self) -> None:
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.now = START
        self.operator = Operator(cast(Api, self))
        self.operator._loop = cast(Any, self)
        self._versions = 0
        reconcile = Reconciler(cast(Api, self), self.operator.cache, TIMING, lambda: self.now, self.operator.measured)
        reconcile.wake, self.operator.queue._work = self.operator._add, reconcile

    def stream(self, name: str, clusters: Sequence[Mapping[str, Any]], **drain: str) -> None:
        """Apply a KafkaStream."""
        self.put(STREAMS, name, {"spec": {"clusters": list(clusters), "drain": drain}})

    def subscription(self, application: str, **streams: Any) -> None:
        """Apply the subscription of an application, which has its name."""
        self.put(SUBSCRIPTIONS, application, {"spec": {"applicationRef": {"name": application}, "streams": streams}})

    def runs(self, application: str) -> None:
        """Let an application run, with its driver's pod."""
        pod, submission = f"{application}-driver", f"submission-{self._versions}"
        status = {**RUNNING, "driverInfo": {"podName": pod}, "submissionID": submission}
        self.put(KUBEFLOW_APPLICATIONS, application, {"status": status})
        labels = {
            "sparkoperator.k8s.io/app-name": application,
            "sparkoperator.k8s.io/submission-id": submission,
            "spark-role": "driver",
        }
        driver = self.find(KUBEFLOW_APPLICATIONS, application)["spec"].get("driver") or {}
        self.remove(PODS, pod)
        volumes = [{"name": "document", "configMap": {"name": f"{application}-kafkastreams"}}]
        mounts = [{"name": "document", "mountPath": "/metadata"}]
        containers = [{"name": "spark-kubernetes-driver", "volumeMounts": mounts}]
        spec = {"serviceAccountName": "spark", "volumes": volumes, "containers": containers}
        content = {"status": {"phase": "Running"}, "spec": spec}
        self.put(PODS, pod, content, labels=labels, annotations=dict(driver.get("annotations") or {}))

    def reports(self, application: str, beat: int = 0) -> None:
        """Let the driver of an application report the newest document as in force."""
        config_map = self.find(CONFIG_MAPS, f"{application}-kafkastreams")
        pod = self.find(PODS, f"{application}-driver")
        document = read_document(config_map.get("data") or {}, config_map.get("binaryData") or {})
        if document is None or not pod:
            return
        meta = pod["metadata"]
        text = report_text(document, meta["uid"], {}, subscription=document.subscription, beat=beat)
        self.put(PODS, meta["name"], {}, annotations={**meta["annotations"], REPORT_ANNOTATION: text})

    def put(self, resource: Resource, name: str, content: Mapping[str, Any], **metadata: Any) -> Object:
        """Store an object, and show it to the operator."""
        ref = Ref(resource, NAMESPACE, name)
        self._versions += 1
        new = {"creationTimestamp": f"2026-11-01T00:00:{self._versions % 60:02}Z", "uid": f"uid-{self._versions}"}
        known = self.objects.get(ref) or {"metadata": {**new, "generation": 0, "annotations": {}}, "spec": {}}
        meta = {**known["metadata"], **content.get("metadata", {}), **metadata, "name": name, "namespace": NAMESPACE}
        stored = {"apiVersion": resource.api_version, **known, **content}
        is_new_spec = ref not in self.objects or stored["spec"] != known["spec"]
        meta["generation"] = known["metadata"]["generation"] + is_new_spec
        stored["metadata"] = {**meta, "resourceVersion": str(self._versions)}
        self.objects[ref] = stored
        self.operator.take(resource, "MODIFIED", stored)
        return stored

    def remove(self, resource: Resource, name: str) -> None:
        """Delete an object, if it exists."""
        known = self.objects.pop(Ref(resource, NAMESPACE, name), None)
        if known is not None:
            self._versions += 1
            gone = {**known, "metadata": {**known["metadata"], "resourceVersion": str(self._versions)}}
            self.operator.take(resource, "DELETED", gone)

    def find(self, resource: Resource, name: str) -> dict[str, Any]:
        """Return an object, or an empty one."""
        return self.objects.get(Ref(resource, NAMESPACE, name), {})

    def wake_all(self) -> None:
        """Queue everything, as a resync does."""
        for job in all_keys(self.operator.cache, NAMESPACE):
            self.operator.queue.add(job)

    def settle(self) -> int:
        """Work until the queue is empty, and return the number of looks."""
        return asyncio.run(self._settle())

    async def _settle(self) -> int:
        queue, looks = self.operator.queue, 0
        while queue.depth:
            job = await queue.next()
            try:
                queue._work(job)
            except (ConflictError, NotFoundError):
                queue.add(job)
            looks += 1
        return looks

    def call_soon_threadsafe(self, add: Callable[[Ref], None], job: Ref) -> None:
        """Take a key in the event loop's place."""
        add(job)

    # -- the API server ---------------------------------------------------------------------------------------------

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return self._stored(resource, name)

    def create(self, resource: Resource, body: Object) -> Object:
        if resource == EVENTS:
            return body
        self._writes(resource, body)
        return self.put(resource, body["metadata"]["name"], body)

    def replace(self, resource: Resource, body: Object, *, subresource: str | None = None) -> Object:
        self._stored(resource, body["metadata"]["name"])
        self._writes(resource, body)
        return self.put(resource, body["metadata"]["name"], {subresource: body[subresource]} if subresource else body)

    def merge(self, resource: Resource, namespace: str, name: str, change: Object) -> Object:
        self._stored(resource, name)
        self._writes(resource, {"metadata": {"name": name}})
        return self.put(resource, name, change)

    def apply(self, resource: Resource, body: Object, *, force: bool = False) -> Object:
        self._writes(resource, body)
        return self.put(resource, body["metadata"]["name"], body)

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str = "") -> None:
        self._writes(resource, self._stored(resource, name))
        self.remove(resource, name)

    def _writes(self, resource: Resource, body: Object) -> None:
        self.writes.append(f"{resource.plural} {body['metadata']['name']}")

    def _stored(self, resource: Resource, name: str) -> Object:
        found = self.find(resource, name)
        if not found:
            raise NotFoundError("GET", 404, "NotFound", name)
        return found
