"""The application with all kinds of sinks on a secured cluster: they get the records, and no output has a secret."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from dynamic_kafka.kafka.background import quiet_logger
from tests.integration.app.driving import AppRun, write_app
from tests.support.fixtures import Topic
from tests.support.kafka import KafkaCluster
from tests.support.spark import loud_logging, spark_settings
from tests.support.spark_kafka import connector_jars
from tests.support.streams import produce, stream, write_metadata

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def values(at: KafkaCluster, topic: str, user: str, count: int) -> Counter[str]:
    """Return the records of a topic of one partition, read by `user`."""
    consumer = Consumer(
        {**at.client_properties(user), "group.id": "check", "enable.auto.commit": "false"}, logger=quiet_logger()
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=30)
    more = consumer.poll(0.5)
    consumer.close()
    assert more is None
    return Counter((message.value() or b"").decode() for message in messages)


@pytest.mark.timeout(600)
def test_all_kinds_of_sinks_deliver_and_no_output_has_a_secret(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    # Given a secured cluster, its credentials behind references, and a sink on the same cluster by Spark's connector
    name, out = topic("orders"), topic("out")
    for topic_name in (name, out):
        secure_cluster.create_topic(topic_name)
    wanted = Counter(row.value for row in produce("east", secure_cluster, name, 20))
    mounted, events = tmp_path / "mounted", tmp_path / "events"
    for folder in (mounted, events):
        folder.mkdir()
    password = secure_cluster.users["alice"]
    authority = secure_cluster.authority.certificate_file.read_text()
    (mounted / "login.properties").write_text(f"user=alice\npassword={password}\n")
    (mounted / "ca.pem").write_text(authority)
    write_metadata(
        tmp_path / "streams.json",
        stream("st", {"clusterId": "east", "bootstrapServers": secure_cluster.sasl_bootstrap, "topics": [name]}),
    )
    reference = f"${{file:{mounted}/login.properties:password}}"
    secured = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
    log_in = f'{SCRAM} required username="${{env:SCRAM_USER}}" password="{reference}";'
    to_kafka = {
        "kafka.bootstrap.servers": secure_cluster.sasl_bootstrap,
        "topic": out,
        **secured,
        "kafka.sasl.jaas.config": log_in,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(mounted / "ca.pem"),
    }
    config = write_app(
        tmp_path,
        trigger={"availableNow": True},
        options={
            "startingOffsets": "earliest",
            **secured,
            "kafka.sasl.username": "${env:SCRAM_USER}",
            "kafka.sasl.password": reference,
            "kafka.ssl.ca.pem": f"${{dir:{mounted}:ca.pem}}",
            "allowedServers": secure_cluster.sasl_bootstrap,
        },
        transformation={"sql": "SELECT CAST(value AS STRING) AS value FROM stream"},
        sinks=[
            {"name": "screen", "type": "console", "options": {"numRows": "100", "truncate": "false"}},
            {"name": "lines", "type": "format", "format": "json", "options": {"path": str(tmp_path / "lines")}},
            {"name": "kafka", "type": "kafka", "options": to_kafka, "groupId": name},
        ],
        spark={
            **spark_settings(tmp_path),
            "spark.jars": ",".join(map(str, connector_jars())),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
        },
    )

    loud_logging(tmp_path / "log4j2.xml", tmp_path / "driver.log")

    # When it runs to its end
    with AppRun(config, environment={"SCRAM_USER": "alice"}) as run:
        assert run.wait_exit() == 0, run.last_lines()
        shown = run.text()

    # Then each sink has every record
    assert Counter({value: shown.count(f"|{value} ") + shown.count(f"|{value}|") for value in wanted}) == wanted
    lines = [line for file in (tmp_path / "lines").glob("*.json") for line in file.read_text().splitlines()]
    assert Counter(json.loads(line)["value"] for line in lines) == wanted
    assert values(secure_cluster, out, "bob", 20) == wanted

    # and no secret is in its log, Spark's, the event log, a checkpoint or a sink
    secrets = {"password": password, "certificate": authority.splitlines()[1]}
    written = [p for p in tmp_path.rglob("*") if p.is_file() and mounted not in p.parents]
    places = {path.relative_to(tmp_path).parts[0] for path in written}
    assert {"app.log", "driver.log", "events", "checkpoints", "lines"} <= places
    assert [
        (what, str(path))
        for path in written
        for what, secret in secrets.items()
        if secret.encode() in path.read_bytes()
    ] == []
    # (the search does find what is there)
    with_topic = {path.relative_to(tmp_path).parts[0] for path in written if name.encode() in path.read_bytes()}
    assert {"app.log", "driver.log", "events", "checkpoints"} <= with_topic
