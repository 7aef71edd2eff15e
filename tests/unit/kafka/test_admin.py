"""The request for a cluster's id: its failures, and the new client after some."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin

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
