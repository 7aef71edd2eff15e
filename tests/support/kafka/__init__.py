"""Real Kafka brokers for tests and the demo: single-node clusters in KRaft mode, up in about a second.

    with KafkaCluster("a") as a, KafkaCluster("b") as b:
        start_all([a, b])
        a.create_topic("orders", partitions=3)
        a.produce("orders", ["first", Record(b"second", key=b"k", partition=1)])

Nothing outlives the process that made it: not after Ctrl-C, SIGTERM or kill -9.
"""

from __future__ import annotations

from tests.support.certificates import CertificateAuthority
from tests.support.kafka.cluster import KafkaCluster, start_all
from tests.support.kafka.errors import BrokerError
from tests.support.kafka.records import Record, Transaction

__all__ = ["BrokerError", "CertificateAuthority", "KafkaCluster", "Record", "Transaction", "start_all"]
