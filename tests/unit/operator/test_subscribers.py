"""The subscribers of a stream: every document that a job may read counts, even without its subscription."""

from __future__ import annotations

import base64
import gzip
import re
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import (
    METADATA_ROLE,
    PACKED_DOCUMENT_KEY,
    RENDERED_ROLE,
    ROLE_LABEL,
    SUBSCRIPTION_LABEL,
)
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.decide import decide
from kafkastream_operator.core.document import Key, draining_in, make_document, pack
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from kafkastream_operator.core.stream_status import stream_status
from kafkastream_operator.handlers import subscription_view
from kafkastream_operator.handlers.stream_subscribers import everybody
from kafkastream_operator.handlers.subscription_view import catalog_of, observe_subscription
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS, Resource
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.models.stream import KafkaStreamStatus
from tests.unit.operator.world import START, cluster

EAST = {"orders": {"clusters": {"east": {"bootstrapServers": "east:9092", "topics": ["orders"]}}}}
UNREADABLE = {"draining": "nothing"}


class Namespace:
    """A namespace in the cache: the stream has moved to west, and the document of `app` still has east."""

    def __init__(self) -> None:
        self.cache, self.count = Cache(), 0
        self.put(STREAMS, "orders", spec={"clusters": [cluster("west")]})
        self.put(KUBEFLOW_APPLICATIONS, "app", status={"applicationState": {"state": "RUNNING"}})

    def put(self, resource: Resource, name: str, labels: dict[str, str] | None = None, **content: Any) -> None:
        self.count += 1
        meta = {"name": name, "namespace": "ns", "uid": f"{resource.plural}-{name}", "labels": labels or {}}
        meta["resourceVersion"] = str(self.count)
        meta["creationTimestamp"] = "2026-11-01T00:00:00Z"
        self.cache.put(resource, {"metadata": meta, **content})

    def subscription(self, **status: Any) -> None:
        spec = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}}
        self.put(SUBSCRIPTIONS, "app", spec=spec, status=status)

    def document(self, text: str | None = None, name: str = "app-kafkastreams") -> None:
        data, _ = pack(make_document(Revision(lineage="l", counter=3), EAST, {}, "uid"))
        labels = {ROLE_LABEL: RENDERED_ROLE, SUBSCRIPTION_LABEL: "app"}
        self.put(CONFIG_MAPS, name, labels, data=data if text is None else {"streams.json": text})

    def stream(self) -> KafkaStreamStatus:
        candidates, catalog = everybody(self.cache, "ns"), catalog_of(self.cache, "ns")
        readers, now = candidates.of("orders"), "2026-11-01T00:00:00Z"
        return stream_status(
            "orders", catalog, readers, KafkaStreamStatus(), everybody=candidates, generation=1, now=now
        )

    def safe(self) -> tuple[bool, str]:
        (condition,) = [candidate for candidate in self.stream().conditions if candidate.type == "Drained"]
        return condition.status == "True", condition.message


@pytest.fixture
def there() -> Namespace:
    return Namespace()


def test_the_document_of_a_deleted_subscription_still_counts(there: Namespace) -> None:
    there.document()
    safe, message = there.safe()
    assert not safe
    cause = "still has east/orders, .*subscription is gone: delete ConfigMap app-kafkastreams "
    assert re.fullmatch(rf"0 of 1 drained; .*app \(Running, .*{cause}.*\)", message)
    assert [(entry.id, entry.state) for entry in there.stream().clusters] == [("west", "InUse"), ("east", "Draining")]
    assert there.stream().subscribers == ()
    there.cache.remove(Ref(CONFIG_MAPS, "ns", "app-kafkastreams"))
    assert there.safe()[0]


def test_a_document_that_its_subscription_abandoned_counts(there: Namespace) -> None:
    there.document(name="before-kafkastreams")
    there.subscription()
    safe, message = there.safe()
    assert not safe
    assert re.search(r"before \(Absent, .*still has east/orders, .*subscription is gone", message)


def test_an_unreadable_orphan_document_is_not_safe(there: Namespace) -> None:
    there.document("edited by hand")
    assert not there.safe()[0]
    assert "neither its status" in there.safe()[1]


def test_an_unreadable_status_does_not_hide_the_document(there: Namespace) -> None:
    there.subscription(**UNREADABLE)
    there.document()
    safe, message = there.safe()
    assert not safe
    assert "its document still has east/orders" in message
    assert [subscriber.name for subscriber in there.stream().subscribers] == ["app"]


@pytest.mark.parametrize(
    "status",
    [UNREADABLE, {"rendered": {"configMap": "app-kafkastreams", "lineage": "l", "counter": 3, "hash": "h"}}],
    ids=["unreadable", "too large for a copy"],
)
def test_a_subscriber_with_an_unreadable_document_counts(there: Namespace, status: dict[str, Any]) -> None:
    there.subscription(**status)
    there.document("edited by hand")
    assert not there.safe()[0]


def edited(there: Namespace, labels: dict[str, str], uid: str = "kafkastreamsubscriptions-app") -> None:
    """Store the document of subscription `app` with these labels."""
    data, _ = pack(make_document(Revision(lineage="l", counter=3), EAST, {}, uid))
    there.subscription()
    there.put(CONFIG_MAPS, "app-kafkastreams", labels, data=data)


RIGHT = {ROLE_LABEL: RENDERED_ROLE, SUBSCRIPTION_LABEL: "app"}
LABELS = {
    "as they were": RIGHT,
    "without the role": {SUBSCRIPTION_LABEL: "app"},
    "with another role": {**RIGHT, ROLE_LABEL: METADATA_ROLE},
    "without the subscription": {ROLE_LABEL: RENDERED_ROLE},
    "with another subscription": {**RIGHT, SUBSCRIPTION_LABEL: "other"},
    "without both": {},
}


@pytest.mark.parametrize("what", LABELS)
def test_a_document_with_edited_labels_keeps_its_subscription(there: Namespace, what: str) -> None:
    edited(there, LABELS[what])
    seen = observe_subscription(there.cache, "ns", "app", START, DEFAULT_TIMING)
    assert seen is not None
    assert seen.view.config_map is not None
    assert seen.view.config_map.ours
    assert seen.view.config_map.drifted == (what != "as they were")
    # Until its labels are restored, it counts neither as left behind nor as a user's metadata.
    assert "is gone" not in there.safe()[1]
    assert [subscriber.name for subscriber in there.stream().subscribers] == ["app"]
    assert (list(seen.view.catalog.streams), dict(seen.view.catalog.broken)) == (["orders"], {})


@pytest.mark.parametrize(("more", "drifted"), [(b"", False), (b" ", True)], ids=["another zlib", "another text"])
def test_a_large_documents_text_decides_about_drift(there: Namespace, more: bytes, *, drifted: bool) -> None:
    topics = [f"topic-{number:05d}" for number in range(5000)]
    streams = {"orders": {"clusters": {"east": {"bootstrapServers": "east:9092", "topics": topics}}}}
    document = make_document(Revision(lineage="l", counter=3), streams, {}, "kafkastreamsubscriptions-app")
    packed = gzip.compress(document.text().encode() + more, compresslevel=1, mtime=7)
    there.subscription()
    binary = {PACKED_DOCUMENT_KEY: base64.b64encode(packed).decode()}
    there.put(CONFIG_MAPS, "app-kafkastreams", RIGHT, binaryData=binary)
    seen = observe_subscription(there.cache, "ns", "app", START, DEFAULT_TIMING)
    assert seen is not None
    assert seen.view.config_map is not None
    assert seen.view.config_map.document == document
    assert seen.view.config_map.drifted == drifted


@pytest.mark.parametrize("what", ["without the role", "without both"])
def test_a_document_without_label_and_uid_is_not_ours(there: Namespace, what: str) -> None:
    edited(there, LABELS[what] | {SUBSCRIPTION_LABEL: "other"}, "another-uid")
    seen = observe_subscription(there.cache, "ns", "app", START, DEFAULT_TIMING)
    assert seen is not None
    assert seen.view.config_map is not None
    assert not seen.view.config_map.ours


@pytest.mark.parametrize("is_there", [True, False], ids=["is there", "is gone"])
def test_a_document_goes_over_when_its_subscription_is_gone(there: Namespace, *, is_there: bool) -> None:
    # Given the document of another subscription of the same application, as after a rename
    edited(there, LABELS["with another subscription"], "another-uid")
    if is_there:
        spec = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}}
        there.put(SUBSCRIPTIONS, "other", spec=spec, status={})
    seen = observe_subscription(there.cache, "ns", "app", START, DEFAULT_TIMING)
    assert seen is not None and seen.view.config_map is not None
    assert seen.view.config_map.ours != is_there
    if not is_there:
        # Then what it read and drained is kept, under this subscription
        document = decide(seen.view).document
        assert document is not None
        assert document.subscription == "kafkastreamsubscriptions-app"
        assert list(draining_in(document.streams)) == [Key("east", "orders")]
        assert "is gone" not in there.safe()[1]


def test_a_subscription_without_a_document_blocks_nothing(there: Namespace) -> None:
    there.subscription()
    assert there.safe()[0]


def test_an_object_is_parsed_once_per_version(there: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parse = subscription_view.config_map_entries
    monkeypatch.setattr(subscription_view, "config_map_entries", lambda found: read.append(found.name) or parse(found))
    text = "- streamId: {}\n  clusterMetadataList: [{{clusterId: c, bootstrapServers: 'c:1', topics: [t]}}]\n"
    labels = {ROLE_LABEL: METADATA_ROLE}
    for name in ("a", "b"):
        there.put(CONFIG_MAPS, name, labels, data={"x": text.format(name)})
    for _ in range(3):
        assert list(catalog_of(there.cache, "ns").streams) == ["orders", "a", "b"]
    assert read == ["a", "b"]
    there.put(CONFIG_MAPS, "a", labels, data={"x": text.format("another")})
    assert list(catalog_of(there.cache, "ns").streams) == ["orders", "another", "b"]
    assert read == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("streams", "asks"),
    [
        ({"ids": ["orders"]}, True),
        ({"ids": ["other"]}, False),
        ({"pattern": "ord.*"}, True),
        ({"pattern": "oth.*"}, False),
        ({"pattern": "("}, False),
        ({"ids": "nothing that can be read"}, False),
    ],
)
def test_a_subscription_asks_for_the_streams_of_its_spec(there: Namespace, streams: dict[str, Any], asks: bool) -> None:
    there.document()
    there.put(SUBSCRIPTIONS, "app", spec={"applicationRef": {"name": "app"}, "streams": streams}, status={})
    (subscriber,) = everybody(there.cache, "ns").of("orders")
    assert subscriber.asks is asks


def test_a_document_left_behind_may_not_be_in_force(there: Namespace) -> None:
    there.document()
    (reader,) = everybody(there.cache, "ns").subscribers
    assert (reader.orphan, reader.is_behind) == ("app-kafkastreams", True)
