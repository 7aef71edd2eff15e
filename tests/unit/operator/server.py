"""An API server in memory, with Spark's operators, for stories of the whole operator.

It records the operator's writes in their order, and enforces their preconditions. Stories of the core alone use
`world.py`, and reports are those of that world.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, cast

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION, REVISION_ANNOTATION, SUBSCRIPTION_LABEL
from kafkastream_operator.core.document import Document, Key, read_document
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.errors import ApiError, ConflictError, NotFoundError
from kafkastream_operator.handlers.listings import WATCHED
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.kube.api import (
    APACHE_APPLICATIONS,
    CONFIG_MAPS,
    EVENTS,
    KUBEFLOW_APPLICATIONS,
    PODS,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Listing,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.spark.conf import ATTEMPT_ANNOTATION
from tests.unit.operator.world import START, DiedError, report_text, settle

NAMESPACE = "ns"
TIMING = replace(DEFAULT_TIMING, gather=timedelta())
DOCUMENT = "app-kafkastreams"
_CONF = "spark.kubernetes.driver.annotation."


class Write(NamedTuple):
    """A write that the operator made."""

    method: str
    plural: str
    name: str
    body: Mapping[str, Any]


class Server:
    """An API server with one namespace.

    Attributes:
        writes: the writes of the operator.
        dies_after: returns whether the operator dies right after a write; it dies once.
        refuses: returns the HTTP status for a refused write; 0: the write is accepted.
        submissions: how many drivers were started.
    """

    def __init__(self) -> None:
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.now = START
        self.writes: list[Write] = []
        self.dies_after: Callable[[Write], bool] = lambda write: False
        self.refuses: Callable[[Write], int] = lambda write: 0
        self.submissions = 0
        self._versions, self._uids = 0, Counter[Ref]()

    @property
    def seconds(self) -> float:
        """A monotonic clock."""
        return (self.now - START).total_seconds()

    # -- users ------------------------------------------------------------------------------------------------------

    def put(
        self,
        resource: Resource,
        name: str,
        spec: Mapping[str, Any],
        content: Mapping[str, Any] | None = None,
        **metadata: Any,
    ) -> None:
        """Apply a whole object. `content` is all that it has beside metadata and spec."""
        ref = Ref(resource, NAMESPACE, name)
        known = self.objects.get(ref)
        meta = {**(known["metadata"] if known else self._new(ref)), "annotations": {}, **metadata}
        self._store(ref, {"status": {}, **(known or {}), **(content or {}), "metadata": meta, "spec": dict(spec)})

    def stream(self, *clusters: Mapping[str, Any]) -> None:
        """Apply the stream `orders`."""
        self.put(STREAMS, "orders", {"clusters": list(clusters)})

    def subscription(self, **spec: Any) -> None:
        """Apply a subscription of `app`."""
        self.put(SUBSCRIPTIONS, "app", {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}, **spec})

    def remove(self, resource: Resource, name: str) -> None:
        """Delete an object, if it exists."""
        self.objects.pop(Ref(resource, NAMESPACE, name), None)

    def find(self, resource: Resource, name: str = "app") -> dict[str, Any] | None:
        """Return an object, or None."""
        return self.objects.get(Ref(resource, NAMESPACE, name))

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """The Events that the operator created."""
        return [write.body for write in self.writes if write.plural == EVENTS.plural]

    def document(self) -> Document | None:
        """Return the rendered document."""
        stored = self.find(CONFIG_MAPS, DOCUMENT)
        return None if stored is None else read_document(stored.get("data") or {}, stored.get("binaryData") or {})

    # -- Spark, its operators, the driver ---------------------------------------------------------------------------

    def spark(self) -> None:
        """Act as Spark's operators: start a driver for each application, with the annotations of its spec."""
        kubeflow, apache = self.find(KUBEFLOW_APPLICATIONS), self.find(APACHE_APPLICATIONS)
        pods = {ref.name: stored for ref, stored in self.objects.items() if ref.resource == PODS}
        if kubeflow is not None:
            wanted = dict((kubeflow["spec"].get("driver") or {}).get("annotations") or {})
            pod = pods.get("app-driver")
            shown = pod["metadata"]["annotations"] if pod is not None else {}
            if pod is None or any(
                shown.get(key) != wanted.get(key) for key in (REVISION_ANNOTATION, ATTEMPT_ANNOTATION)
            ):
                self._driver("app-driver", "sparkoperator.k8s.io/app-name", kubeflow, wanted)
                state = {"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": "app-driver"}}
                self._status(KUBEFLOW_APPLICATIONS, {**state, "submissionID": f"s{self.submissions}"})
        elif apache is not None:
            if not pods:
                conf = apache["spec"].get("sparkConf") or {}
                attempt, name = self.submissions, f"app-{self.submissions}-driver"
                wanted = {key.removeprefix(_CONF): value for key, value in conf.items() if key.startswith(_CONF)}
                self._driver(name, "spark.operator/spark-app-name", apache, wanted)
                state = {"currentState": {"currentStateSummary": "RunningHealthy"}}
                self._status(APACHE_APPLICATIONS, {**state, "currentAttemptSummary": {"attemptInfo": {"id": attempt}}})
        else:
            for name in pods:
                self.remove(PODS, name)

    def _driver(self, name: str, label: str, owner: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
        self.remove(PODS, name)
        self.submissions += 1
        labels, owners = {"spark-role": "driver", label: "app"}, [{"uid": owner["metadata"]["uid"]}]
        volumes = [{"name": "streams", "configMap": {"name": DOCUMENT}}]
        containers = [{"name": "spark-kubernetes-driver", "volumeMounts": [{"name": "streams", "mountPath": "/x"}]}]
        spec = {"volumes": volumes, "containers": containers}
        self.put(PODS, name, spec, labels=labels, ownerReferences=owners, annotations=dict(annotations))
        self.objects[Ref(PODS, NAMESPACE, name)]["status"] = {"phase": "Running"}

    def _status(self, resource: Resource, status: Mapping[str, Any]) -> None:
        ref = Ref(resource, NAMESPACE, "app")
        self._store(ref, {**self.objects[ref], "status": dict(status)})

    def report(self, beat: int = 1, **draining: TopicReport) -> None:
        """Report the newest document as in force. Topics are written `cluster__topic`."""
        document, pod = self.document(), self.find(PODS, "app-driver")
        assert document is not None
        assert pod is not None
        topics = {Key(*name.split("__")): topic_report for name, topic_report in draining.items()}
        report = report_text(document, pod["metadata"]["uid"], topics, subscription=document.subscription, beat=beat)
        annotations = {**pod["metadata"]["annotations"], REPORT_ANNOTATION: report}
        self.put(PODS, "app-driver", pod["spec"], annotations=annotations)

    # -- what the operator calls: see `kafkastream_operator.kube.api.Api` ---------------------------------------------

    def within(self, deadline_s: float) -> Server:
        return self

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        stored = self.objects.get(Ref(resource, namespace, name))
        if stored is None:
            raise NotFoundError("GET", 404, "NotFound", name)
        return copy.deepcopy(stored)

    def list(self, resource: Resource, namespace: str | None, *, labels: str | None = None) -> Listing:
        stored = [copy.deepcopy(stored) for ref, stored in self.objects.items() if ref.resource == resource]
        return Listing(stored, self._versions)

    def create(self, resource: Resource, body: Object) -> Object:
        ref, write = self._begins("POST", resource, body["metadata"]["name"], body)
        if ref in self.objects:
            raise ConflictError("POST", 409, "AlreadyExists", ref.name)
        meta = {**body["metadata"], **self._new(ref)}
        if resource != EVENTS:
            self._store(ref, {**copy.deepcopy(body), "metadata": meta})
        return self._ends(ref, write)

    def replace(self, resource: Resource, body: Object, *, subresource: str | None = None) -> Object:
        ref, write = self._begins("PUT", resource, body["metadata"]["name"], body)
        known = self.objects.get(ref)
        if known is None:
            raise NotFoundError("PUT", 404, "NotFound", ref.name)
        self._is_still(known, body["metadata"])
        part = (
            {"status": body["status"]}
            if subresource
            else {**body, "metadata": {**known["metadata"], **body["metadata"]}}
        )
        self._store(ref, copy.deepcopy({**known, **part}))
        return self._ends(ref, write)

    def apply(self, resource: Resource, body: Object, *, force: bool = False) -> Object:
        ref, write = self._begins("PATCH", resource, body["metadata"]["name"], body)
        known = self.objects.get(ref)
        if known is None:
            if "uid" in body["metadata"]:
                raise ConflictError("PATCH", 409, "Conflict", "it is another by now")
            known = {"metadata": self._new(ref), "status": {}}
        self._is_still(known, body["metadata"])
        self._store(
            ref, _merged(known, {"metadata": {"labels": body["metadata"].get("labels", {})}, "spec": body["spec"]})
        )
        return self._ends(ref, write)

    def merge(self, resource: Resource, namespace: str, name: str, change: Object) -> Object:
        ref, write = self._begins("PATCH", resource, name, change)
        if ref not in self.objects:
            raise NotFoundError("PATCH", 404, "NotFound", name)
        self._store(ref, _merged(self.objects[ref], change))
        return self._ends(ref, write)

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str = "") -> None:
        ref, write = self._begins("DELETE", resource, name, {})
        known = self.objects.get(ref)
        if known is None:
            raise NotFoundError("DELETE", 404, "NotFound", name)
        self._is_still(known, {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})})
        del self.objects[ref]
        self._ends(ref, write)

    def _begins(self, method: str, resource: Resource, name: str, body: Mapping[str, Any]) -> tuple[Ref, Write]:
        write = Write(method, resource.plural, name, copy.deepcopy(dict(body)))
        if status := self.refuses(write):
            raise ApiError(method, status, "Forbidden", f"exceeded quota: count/{resource.plural}")
        return Ref(resource, NAMESPACE, name), write

    def _ends(self, ref: Ref, write: Write) -> Object:
        self.writes.append(write)
        if self.dies_after(write):
            self.dies_after = lambda write: False
            raise DiedError
        return copy.deepcopy(self.objects.get(ref, {}))

    @staticmethod
    def _is_still(known: Object, meta: Mapping[str, Any]) -> None:
        if any(meta.get(key, known["metadata"][key]) != known["metadata"][key] for key in ("uid", "resourceVersion")):
            raise ConflictError("PUT", 409, "Conflict", "it is another by now")

    def _new(self, ref: Ref) -> dict[str, Any]:
        self._uids[ref] += 1
        uid = f"{ref.resource.plural}-{ref.name}-{self._uids[ref]}"
        meta = {"name": ref.name, "namespace": NAMESPACE, "uid": uid, "generation": 0}
        return {**meta, "resourceVersion": "0", "creationTimestamp": stamp(self.now)}

    def _store(self, ref: Ref, content: Mapping[str, Any]) -> None:
        self._versions += 1
        before = self.objects.get(ref, {})
        changed = before.get("spec") != content.get("spec")
        generation = before.get("metadata", {}).get("generation", 0) + changed
        meta = {**content["metadata"], "resourceVersion": str(self._versions), "generation": generation}
        # Only a patch of an application repeats its kind; the items of a real listing may lack it.
        applications = (KUBEFLOW_APPLICATIONS, APACHE_APPLICATIONS)
        kind = {"kind": "SparkApplication"} if ref.resource in applications else {}
        version = {"apiVersion": ref.resource.api_version, **kind}
        self.objects[ref] = {**version, **copy.deepcopy(dict(content)), "metadata": meta}


class Operator:
    """One life of an operator, which starts with an empty cache."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cache = Cache(lambda: server.seconds)
        self._reconciler = Reconciler(cast(Api, server), self._cache, TIMING, lambda: server.now)

    def reconcile(self, resource: Resource, name: str = "app") -> float | None:
        """Reconcile one object of the server, and return the seconds until the next reconcile."""
        self.sees()
        return self._reconciler(Ref(resource, NAMESPACE, name))

    def reconcile_unseen(self, resource: Resource, name: str) -> float | None:
        """Reconcile one object with the cache as it is, which may lack what the server has."""
        return self._reconciler(Ref(resource, NAMESPACE, name))

    def works(self) -> None:
        """Reconcile everything until nothing more is written."""
        settle(self._reconcile_all, lambda: (len(self._server.writes), self._server.writes[-5:]))

    def _reconcile_all(self) -> None:
        self.sees()
        for resource in (KUBEFLOW_APPLICATIONS, APACHE_APPLICATIONS, SUBSCRIPTIONS, STREAMS, CONFIG_MAPS):
            for ref in self._cache.refs(resource):
                self._looks(ref)

    def sees(self) -> None:
        """Fill the cache, without a reconcile."""
        for resource, _labels in WATCHED:
            self._cache.apply_listing(resource, NAMESPACE, partial(self._server.list, resource, NAMESPACE))

    def _looks(self, ref: Ref) -> None:
        entry = self._cache.get(*ref)
        if entry is None or (ref.resource == CONFIG_MAPS and SUBSCRIPTION_LABEL in entry["metadata"].get("labels", {})):
            return
        with suppress(ApiError):  # the queue would retry it
            self._reconciler(ref)


def rest(server: Server) -> None:
    """Alternate operators that have just started and Spark's operators, until nothing changes any more."""

    def live() -> None:
        Operator(server).works()
        server.spark()

    settle(live, lambda: (len(server.writes), server.submissions), times=10)


def _merged(known: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(dict(known))
    for key, value in change.items():
        if isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged
