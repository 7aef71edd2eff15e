"""A stream whose document is stored packed, since it has more than 64 KiB. No application reads it."""

from __future__ import annotations

import base64
import gzip

from dynamic_kafka.contract.kubernetes_names import PACKED_DOCUMENT_KEY, config_map_name
from tests.support.kube.api import Api, Json
from tests.support.operator import CONFIG_MAPS, STREAMS, SUBSCRIPTIONS

NAME = "large"
DOCUMENT = config_map_name(NAME)
_CLUSTERS, _TOPICS = 4, 200


def stream() -> Json:
    """Return the KafkaStream: 800 topics with names of 120 characters."""
    topics = [f"{'department.' * 10}topic-{number:04d}" for number in range(_TOPICS)]
    servers = "10.200.0.1:1"  # nobody connects to them
    clusters = [{"id": f"large-{n}", "bootstrapServers": servers, "topics": topics} for n in range(_CLUSTERS)]
    return {"metadata": {"name": NAME}, "spec": {"clusters": clusters}}


def subscription() -> Json:
    """Return a subscription of an application that does not exist."""
    return {"metadata": {"name": NAME}, "spec": {"applicationRef": {"name": NAME}, "streams": {"ids": [NAME]}}}


def create(api: Api, namespace: str) -> None:
    """Create both objects; the operator then renders the document."""
    api.create(STREAMS, _of_kind("KafkaStream", stream()), namespace)
    api.create(SUBSCRIPTIONS, _of_kind("KafkaStreamSubscription", subscription()), namespace)


def is_rendered(api: Api, namespace: str) -> bool:
    """Return whether the packed document is there."""
    return PACKED_DOCUMENT_KEY in (api.find(CONFIG_MAPS, DOCUMENT, namespace) or {}).get("binaryData", {})


def pack_otherwise(api: Api, namespace: str) -> None:
    """Store the same text compressed to other bytes, as an operator with another zlib does."""
    packed = base64.b64decode(api.get(CONFIG_MAPS, DOCUMENT, namespace)["binaryData"][PACKED_DOCUMENT_KEY])
    other = packed_otherwise(packed)
    patch = {"binaryData": {PACKED_DOCUMENT_KEY: base64.b64encode(other).decode()}}
    api.patch(CONFIG_MAPS, DOCUMENT, namespace, patch)


def change_subscription(api: Api, namespace: str) -> None:
    """Change the subscription in a way that does not change its document."""
    current = api.get(SUBSCRIPTIONS, NAME, namespace)["spec"].get("updateStrategy")
    strategy = "Reload" if current != "Reload" else "Restart"
    api.patch(SUBSCRIPTIONS, NAME, namespace, {"spec": {"updateStrategy": strategy}})


def is_reconciled(api: Api, namespace: str) -> bool:
    """Return whether the operator has reconciled the newest form of the subscription, and so its document before."""
    current = api.get(SUBSCRIPTIONS, NAME, namespace)
    return bool(current.get("status", {}).get("observedGeneration") == current["metadata"]["generation"])


def packed_otherwise(packed: bytes) -> bytes:
    """Return other bytes that unpack to the same text."""
    other = gzip.compress(gzip.decompress(packed), compresslevel=1, mtime=0)
    assert other != packed
    return other


def delete(api: Api, namespace: str) -> None:
    """Delete everything; a document outlives its subscription."""
    for resource, name in ((SUBSCRIPTIONS, NAME), (STREAMS, NAME), (CONFIG_MAPS, DOCUMENT)):
        api.delete(resource, name, namespace)


def _of_kind(kind: str, manifest: Json) -> Json:
    return {"apiVersion": "kafkastream.dev/v1alpha1", "kind": kind, **manifest}
