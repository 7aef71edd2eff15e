"""`python -m tests.support.kafka.warm_up` (`make setup`): jars of brokers and connector, the brokers' class archive.

A broker is run once, through what tests do to it, and the JVM dumps the classes it loaded. With them a broker
starts in half the time and processor time. Brokers do without when this never ran.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.distribution import distribution
from tests.support.spark_kafka import connector_jars


def main() -> None:
    """Fetch what tests then need no network for; write the archive unless this JDK and these jars have one."""
    connector_jars()
    archive = distribution().class_archive
    if archive.exists():
        return
    print("Preparing Kafka brokers")
    with (
        tempfile.TemporaryDirectory(dir=archive.parent) as scratch,
        KafkaCluster("warm-up", users={"warm-up": "warm-up"}) as cluster,
    ):
        dumped = Path(scratch) / archive.name
        cluster.broker.start(dump_classes=dumped)
        cluster.wait_ready()
        cluster.create_topic("warm-up")
        cluster.produce("warm-up", ["x"])
        with cluster.transaction() as transaction:
            transaction.produce("warm-up", ["x"])
        cluster.committed_offsets("warm-up")
        cluster.stop()
        dumped.rename(archive)


if __name__ == "__main__":
    main()
