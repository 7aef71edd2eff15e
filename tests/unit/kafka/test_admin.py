"""Requests to one cluster: failures of the one for its id, the new client after some, and the size of others."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin
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


class Offsets(Admin):
    """An admin client whose cluster has the offset 7 in each partition; `calls` has the partitions of each call."""

    def _make_client(self) -> AdminClient:
        self.calls: list[int] = []
        client: Any = self
        return client

    def list_offsets(self, asked: dict[TopicPartition, OffsetSpec], **_: Any) -> dict[TopicPartition, Future[Any]]:
        self.calls.append(len(asked))
        futures: dict[TopicPartition, Future[Any]] = {partition: Future() for partition in asked}
        for future in futures.values():
            future.set_result(SimpleNamespace(offset=7, leader_epoch=0))
        return futures


def test_offsets_are_listed_in_calls_of_limited_size() -> None:
    admin = Offsets(0, None)
    found = admin.offsets({("orders", partition): OffsetQuery("latest") for partition in range(1_200)})
    assert found == {("orders", partition): (7, 0) for partition in range(1_200)}
    assert admin.calls == [500, 500, 200]
