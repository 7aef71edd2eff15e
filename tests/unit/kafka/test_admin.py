"""Which failures of asking a cluster who it is are worth another client."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin

CERTIFICATE = KafkaError(KafkaError._SSL, "ssl://e:1/bootstrap: SSL handshake failed: certificate verify failed")


class Client:
    """Never complains by itself."""

    def poll(self, timeout: float) -> int:
        return 0


class Admin(ClusterAdmin):
    """Gets the same answer each time, and counts the clients that it has made."""

    def __init__(self, code: int, complaint: KafkaError | None) -> None:
        self.code, self.complaint, self.clients = code, complaint, 0
        super().__init__("east", {}, read_committed=False, deadline_s=0.4)

    def _make_client(self) -> AdminClient:
        self.clients += 1
        client: Any = Client()
        return client

    def _metadata(self, topic: str, left: float) -> ClusterMetadata:
        if self.complaint is not None:
            self._on_error(self.complaint)
        raise KafkaException(KafkaError(self.code))


@pytest.mark.parametrize(
    ("code", "complaint", "kind", "clients"),
    [
        (KafkaError._TRANSPORT, None, ClusterUnreachableError, 2),
        (KafkaError._TRANSPORT, CERTIFICATE, ClusterRefusedError, 1),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, None, ClusterError, 1),
    ],
    ids=["nobody answers", "the certificate is wrong", "it is not allowed"],
)
def test_another_client_is_made_where_nobody_answers_and_not_where_the_answer_is_no(
    code: int, complaint: KafkaError | None, kind: type[ClusterError], clients: int
) -> None:
    admin = Admin(code, complaint)
    with pytest.raises(ClusterError) as told:
        admin.kafka_id("orders")
    admin.close_in_background()
    assert (type(told.value), admin.clients) == (kind, clients)
