"""One namespace with streams, a subscription, a SparkApplication, and a driver's pod that the test plays."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from kafkastream_operator.core.document import Document, read_document
from tests.support.kube import KubeCluster, KubeError
from tests.support.kube.pods import PODS, set_phase
from tests.support.operator import CONFIG_MAPS, STREAMS, SUBSCRIPTIONS
from tests.support.resources import condition, states

APPLICATIONS = "sparkoperator.k8s.io/v1beta2/sparkapplications"
DOCUMENT = "app-kafkastreams"


def cluster(name: str, *topics: str, **more: Any) -> dict[str, Any]:
    """Return a cluster of a KafkaStream."""
    return {"id": name, "bootstrapServers": f"{name}:9092", "topics": list(topics or ["orders"]), **more}


class Stage:
    """The actions of users, Spark and drivers in one namespace, and the objects that they see."""

    def __init__(self, kube: KubeCluster, namespace: str) -> None:
        self.kube, self.namespace = kube, namespace
        self.api = kube.api

    # -- users ------------------------------------------------------------------------------------------------------

    def stream(self, name: str, *clusters: Mapping[str, Any], **drain: Any) -> None:
        """Apply a KafkaStream."""
        spec = {"clusters": list(clusters)} | ({"drain": drain} if drain else {})
        self._apply(STREAMS, "KafkaStream", {"name": name}, spec)

    def subscription(self, name: str = "app", **spec: Any) -> None:
        """Apply a subscription of `app` to the stream `orders`."""
        content = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}, **spec}
        self._apply(SUBSCRIPTIONS, "KafkaStreamSubscription", {"name": name}, content)

    def application(self, name: str = "app", annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Apply a SparkApplication, as an image would have it."""
        content = {
            "type": "Python",
            "mode": "cluster",
            "image": "none",
            "sparkVersion": "4.2.0",
            "mainApplicationFile": "local:///app.py",
            "driver": {"cores": 1, "memory": "512m", "serviceAccount": "default"},
            "executor": {"instances": 1, "cores": 1, "memory": "512m"},
            **spec,
        }
        metadata = {"name": name, "annotations": dict(annotations or {})}
        self._apply(APPLICATIONS, "SparkApplication", metadata, content)

    def deleted(self) -> None:
        """Delete the application and its driver."""
        self.api.delete(APPLICATIONS, "app", self.namespace)
        # Kubeflow's operator submits once, and fails while the old pod is there. The garbage collector would delete it
        # too, but it looks for new kinds, such as the application's, only every 30 s.
        self.api.delete(PODS, "app-driver", self.namespace)
        self.api.wait(PODS, "app-driver", self.namespace, until=lambda pod: pod is None)

    def _apply(self, resource: str, kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        """Apply an object as a GitOps tool does."""
        manifest = {
            "apiVersion": resource.rpartition("/")[0],
            "kind": kind,
            "metadata": {**metadata, "namespace": self.namespace},
            "spec": spec,
        }
        self.api.apply(resource, manifest, manager="gitops", force=True)

    # -- Spark and the driver -----------------------------------------------------------------------------------------

    def driver_runs(self, *, after: str | None = None) -> dict[str, Any]:
        """Wait for the driver's pod, one with another UID than `after`, and set its phase to Running."""
        pod = self.api.wait(
            PODS,
            "app-driver",
            self.namespace,
            until=lambda driver: _is_another(driver, after),
            timeout=60,
        )
        assert pod is not None
        return dict(set_phase(self.api, pod, "Running"))

    def report(self, pod: Mapping[str, Any], **content: Any) -> None:
        """Write a driver report onto the pod, with the newest document unless `content` overrides it."""
        document = self.document()
        assert document is not None
        report = {
            "contract": 1,
            "reader": 1,
            "abilities": ["live"],
            "applied": document.revision.token,
            "hash": document.hash,
            "subscription": document.subscription,
            "pod": pod["metadata"]["uid"],
            "beat": 1,
            "draining": [],
            **content,
        }
        change = {"metadata": {"annotations": {REPORT_ANNOTATION: json.dumps(report)}}}
        self.api.patch(PODS, pod["metadata"]["name"], self.namespace, change)

    def reports_until(self, pod: Mapping[str, Any], wanted: Mapping[str, str], **content: Any) -> Document:
        """Report the present document again and again, as a live driver does, until the document is as wanted."""
        document = self.document()
        assert document is not None
        content = {"applied": document.revision.token, "hash": document.hash, **content}
        for beat in range(2, 12):
            self.report(pod, beat=beat, **content)
            with contextlib.suppress(KubeError):
                return self.wait_document(wanted, timeout=3)
        return self.wait_document(wanted)

    # -- observations -------------------------------------------------------------------------------------------------

    def document(self, name: str = DOCUMENT) -> Document | None:
        """Return the rendered document."""
        configmap = self.api.find(CONFIG_MAPS, name, self.namespace)
        return None if configmap is None else read_document(configmap.get("data", {}), configmap.get("binaryData", {}))

    def wait_document(self, wanted: Mapping[str, str], name: str = DOCUMENT, timeout: float = 60) -> Document:
        """Wait until the document has exactly these states: {`cluster/topic`: `Active` or `Draining`}."""
        configmap = self.api.wait(
            CONFIG_MAPS, name, self.namespace, until=lambda config: states(_document(config)) == wanted, timeout=timeout
        )
        document = _document(configmap)
        assert document is not None
        return document

    def wait_condition(self, kind: str, reason: str, name: str = "app", timeout: float = 60) -> dict[str, Any]:
        """Wait until a condition of the subscription has this reason, and return the condition."""
        subscription = self.api.wait(
            SUBSCRIPTIONS,
            name,
            self.namespace,
            until=lambda candidate: condition(candidate, kind).get("reason") == reason,
            timeout=timeout,
        )
        return condition(subscription, kind)

    def wait_annotation(self, config_map: str, annotation: str, *, there: bool) -> None:
        """Wait until a ConfigMap has an annotation, or has it no longer."""

        def has(known: Any) -> bool:
            return known is not None and (annotation in known["metadata"].get("annotations", {})) == there

        self.api.wait(CONFIG_MAPS, config_map, self.namespace, until=has)

    def wait_verdict(self, name: str, state: str, text: str = "", timeout: float = 60) -> dict[str, Any]:
        """Wait until the status of `orders` has this verdict on a cluster, with this text in its message; return it."""

        def verdict(stream: Any) -> dict[str, Any]:
            listed = (stream or {}).get("status", {}).get("clusters", [])
            return next((entry for entry in listed if entry["id"] == name), {})

        stream = self.api.wait(
            STREAMS,
            "orders",
            self.namespace,
            until=lambda kafka_stream: (
                verdict(kafka_stream).get("state") == state and text in verdict(kafka_stream).get("message", "")
            ),
            timeout=timeout,
        )
        return verdict(stream)

    def events(self) -> set[tuple[str, str]]:
        """Return type and reason of the namespace's Events."""
        listed = self.api.list("events.k8s.io/v1/events", self.namespace)
        return {(str(event["type"]), str(event["reason"])) for event in listed}

    def notes(self, reason: str) -> list[str]:
        """Return the notes of the Events with this reason."""
        events = self.api.list("events.k8s.io/v1/events", self.namespace)
        return [str(event.get("note", "")) for event in events if event["reason"] == reason]

    def subscription_now(self, name: str = "app") -> dict[str, Any]:
        """Return the present subscription."""
        return dict(self.api.get(SUBSCRIPTIONS, name, self.namespace))

    def application_now(self) -> dict[str, Any]:
        """Return the present SparkApplication."""
        return dict(self.api.get(APPLICATIONS, "app", self.namespace))


def _is_another(pod: Mapping[str, Any] | None, uid: str | None) -> bool:
    return pod is not None and pod["metadata"]["uid"] != uid and "deletionTimestamp" not in pod["metadata"]


def _document(configmap: Mapping[str, Any] | None) -> Document | None:
    return None if configmap is None else read_document(configmap.get("data", {}), configmap.get("binaryData", {}))
