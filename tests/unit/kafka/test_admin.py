"""The request for a cluster's id: its failures, and the new client after some."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka import admin as admin_module
from dynamic_kafka.kafka import retries
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import UnknownTopicError
from dynamic_kafka.planning.starting import OffsetQuery

CERTIFICATE = KafkaError(KafkaError._SSL, "ssl://e:1/bootstrap: SSL handshake failed: certificate verify failed")


class Client:
    """A client without errors of its own."""

    def poll(self, timeout: float) -> int:
        return 0


class Admin(ClusterAdmin):
    """An admin client that gets the same answer each time, and counts the clients that it makes."""

    def __init__(self, code: int, problem: KafkaError | None) -> None:
        self.code, self.problem, self.clients = code, problem, 0
        super().__init__("east", {}, read_committed=False, deadline_s=0.4)

    def _make_client(self) -> AdminClient:
        self.clients += 1
        client: Any = Client()
        return client

    def _metadata(self, topic: str, left_s: float) -> ClusterMetadata:
        if self.problem is not None:
            self._on_error(self.problem)
        raise KafkaException(KafkaError(self.code))


@pytest.mark.parametrize(
    ("code", "problem", "kind", "clients"),
    [
        (KafkaError._TRANSPORT, None, ClusterUnreachableError, 2),
        (KafkaError._TRANSPORT, CERTIFICATE, ClusterRefusedError, 1),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, None, ClusterError, 1),
    ],
    ids=["no answer", "wrong certificate", "not allowed"],
)
def test_a_new_client_is_made_only_without_an_answer(
    code: int, problem: KafkaError | None, kind: type[ClusterError], clients: int
) -> None:
    admin = Admin(code, problem)
    with pytest.raises(ClusterError) as raised:
        admin.kafka_id("orders")
    admin.close_in_background()
    assert (type(raised.value), admin.clients) == (kind, clients)


class Answering(Admin):
    """A client that lists the topics that it is asked for, with one error in all."""

    def __init__(self, error: int | None) -> None:
        super().__init__(KafkaError._FAIL, None)
        self.error, self.asked = error, list[str]()

    def _metadata(self, topic: str, left_s: float) -> ClusterMetadata:
        self.asked.append(topic)
        error = KafkaError(self.error) if self.error is not None else None
        metadata: Any = SimpleNamespace(
            cluster_id="kafka-1", brokers={1: "east-1"}, topics={topic: SimpleNamespace(error=error)}
        )
        return cast(ClusterMetadata, metadata)


@pytest.mark.parametrize(
    ("error", "second"),
    [(KafkaError.UNKNOWN_TOPIC_OR_PART, "none"), (None, "none"), (KafkaError.TOPIC_AUTHORIZATION_FAILED, "orders")],
    ids=["unknown", "exists", "refused"],
)
def test_a_refused_name_is_asked_for_only_once(error: int | None, second: str) -> None:
    admin = Answering(error)
    assert [admin.kafka_id("orders", "none") for _ in range(2)] == ["kafka-1", "kafka-1"]
    assert admin.asked == ["none", second]


class Leaderless(Admin):
    """A client that finds no leader of any partition."""

    def __init__(self, absent: set[str]) -> None:
        super().__init__(KafkaError._NOENT, None)
        self.absent, self.described = absent, 0

    def _described_topics(self, names: Sequence[str], limit_s: float) -> tuple[dict[str, Any], frozenset[str]]:
        self.described += 1
        return {}, frozenset(self.absent.intersection(names))


@pytest.mark.parametrize(("absent", "kind"), [({"t"}, UnknownTopicError), (set(), ClusterError)])
def test_a_topic_without_leaders_may_be_a_deleted_one(
    absent: set[str], kind: type[ClusterError], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise a deleted topic is asked for until the deadline, and fails as an unknown error of the cluster
    refused = KafkaException(KafkaError(KafkaError._NOENT, "No leaders found"))
    monkeypatch.setattr(admin_module, "list_offsets", lambda *_: [(("t", 0), refused)])
    monkeypatch.setattr(admin_module, "PAUSE_S", 0.05)
    client = Leaderless(absent)
    with pytest.raises(ClusterError) as failed:
        client.offsets({("t", 0): OffsetQuery("latest")})
    assert type(failed.value) is kind
    assert (client.described == 1) is bool(absent)


@pytest.mark.parametrize(
    ("error", "limit_s", "asked"),
    [
        (ClusterUnreachableError("east", "no answer in time"), 10.0, 2),
        (ClusterError("east", "the partition has no leader"), 0.05, 2),
        (ClusterError("east", "not allowed"), 10.0, 1),
        (UnknownTopicError("east", "deleted"), 0.05, 1),
    ],
    ids=["silent", "without a leader up to the limit", "an answer", "deleted"],
)
def test_a_used_client_without_an_answer_is_replaced_once(
    error: ClusterError, limit_s: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "USED_CLIENT_S", limit_s)
    admin, limits = Admin(0, None), list[float]()
    admin.deadline_s = 60

    def ask(limit: float) -> str:
        limits.append(limit)
        if len(limits) == 2:
            time.sleep(0.06 if limit < 1 else 0)
            raise error
        return "answer"

    # A new client has all of the time, a used one a part of it
    assert admin._over_working_connections(ask) == "answer"
    if asked == 2:
        assert admin._over_working_connections(ask) == "answer"
        assert 50 < limits[2] <= 60
    else:
        with pytest.raises(type(error)):
            admin._over_working_connections(ask)
    assert limits[0] > 59 and limits[1] == limit_s
    assert (len(limits), admin.clients) == (1 + asked, asked)
