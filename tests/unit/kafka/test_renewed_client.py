"""An admin client whose replacement fails at first: the next question makes another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import ClusterError
from dynamic_kafka.kafka import admin
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.probe import ClusterProbe


class Client:
    """A client without brokers, as behind a fenced one. The second construction fails, the third one has brokers."""

    made = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        Client.made += 1
        if Client.made == 2:
            raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))

    def list_topics(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(brokers={} if Client.made < 3 else {1: "b"}, cluster_id="kafka-1", topics={})

    def poll(self, _: float) -> None:
        pass


def test_the_next_question_makes_a_client_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "AdminClient", Client)
    probe = ClusterProbe("east", lambda: ClusterAdmin("east", {}, read_committed=False, deadline_s=2))
    with pytest.raises(ClusterError):
        probe.ask(lambda cluster_admin: cluster_admin.kafka_id("orders")).result(30)
    assert probe.ask(lambda cluster_admin: cluster_admin.kafka_id("orders")).result(30) == "kafka-1"
    probe.close()
