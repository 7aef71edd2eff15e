"""kill -9 between each pair of steps of a batch, for each kind of sink: snapshot, delivery, Spark's commit, group.

A batch is planned, and its end is logged (the snapshot); it is read, and written to the sink; Spark commits it; its
offsets go to the consumer group. At each step a driver of its own dies, and the next one goes on from what is on disk.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from dynamic_kafka.kafka.background import quiet_logger
from tests.integration.app.driving import AppRun, write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.killing_files import killing_settings
from tests.support.spark import spark_environment, spark_settings
from tests.support.spark_kafka import connector_jars
from tests.support.streams import (
    Row,
    Rows,
    cluster,
    last_batch,
    parquet_rows,
    produce,
    stream,
    write_metadata,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SNAPSHOT = ("before offsets", "after offsets", "while reading")
COMMITS = ("before commits", "after commits")
STEPS = {
    "file": (*SNAPSHOT, "before _spark_metadata", "after _spark_metadata", *COMMITS),
    "function": (*SNAPSHOT, "before the function", "after the function", *COMMITS),
    "kafka": (*SNAPSHOT, *COMMITS),
}
"""The steps at which a driver dies. The rows are in the sink before Spark's commit, and for Kafka only then all."""

USER_CODE = """
import json
import os
import signal
from pathlib import Path

from pyspark.sql.functions import udf

HERE = Path(__file__).parent


def obey(step):
    order = HERE / "die"
    if order.exists() and order.read_text() == step:
        order.unlink()
        for pid in json.loads((HERE / "driver").read_text()):
            os.kill(pid, signal.SIGKILL)


def watched(frame):
    jvm = frame.sparkSession._jvm.java.lang.ProcessHandle.current().pid()
    (HERE / "driver").write_text(json.dumps([jvm, os.getpid()]))

    def look(offset):
        if offset % 5 == 3:  # in the middle of a range
            obey("while reading")
        return True

    return frame.where(udf(look, "boolean")("offset"))


def as_json(frame):
    texts = ("kafka_cluster", "topic", *(f"CAST({name} AS STRING)" for name in ("partition", "offset", "value")))
    return watched(frame).selectExpr(f"to_json(array({', '.join(texts)})) AS value")


def keep(frame, batch):
    obey("before the function")
    chosen = frame.selectExpr("kafka_cluster", "topic", "partition", "offset", "CAST(value AS STRING)")
    (HERE / "draft").write_text(json.dumps([list(row) for row in chosen.collect()]))
    (HERE / "draft").replace(HERE / f"kept-{batch}.json")
    obey("after the function")
"""
"""A transformation and a sink that kill the driver, the JVM and Python, at the step that the file `die` names."""


def sink_of(kind: str, folder: Path, out: KafkaCluster, topic: str) -> dict[str, Any]:
    """Return the sink of an app.yaml. Each row of the Kafka sink is a JSON array of texts."""
    if kind == "file":
        return {"name": "lake", "type": "parquet", "options": {"path": str(folder / "lake")}}
    if kind == "function":
        return {"name": "lake", "foreachBatch": "killed:keep"}
    options = {"kafka.bootstrap.servers": out.bootstrap, "topic": topic}
    return {"name": "lake", "type": "kafka", "options": options, "transformation": {"function": "killed:as_json"}}


def delivered(kind: str, folder: Path, out: KafkaCluster, topic: str) -> Rows:
    """Return the rows that the sink has."""
    if kind == "file":
        return parquet_rows(folder / "lake")
    if kind == "function":
        return Rows(Row(*row) for file in folder.glob("kept-*.json") for row in json.loads(file.read_text()))
    consumer = Consumer(
        {**out.client_properties(), "group.id": "check", "enable.auto.commit": "false"}, logger=quiet_logger()
    )
    end = out.end_offsets(topic)[0]
    consumer.assign([TopicPartition(topic, 0, 0)])
    texts = [json.loads(message.value() or b"") for message in consumer.consume(end, timeout=30)]
    consumer.close()
    return Rows(Row(name, of, int(partition), int(offset), value) for name, of, partition, offset, value in texts)


def of_a(rows: Rows) -> int:
    """Return the number of rows of cluster `a`."""
    return sum(count for row, count in rows.items() if row.cluster == "a")


@pytest.mark.scenario(43)
@pytest.mark.parametrize("kind", STEPS)
def test_a_kill_between_any_two_steps_loses_nothing(brokers: Brokers, topic: Topic, tmp_path: Path, kind: str) -> None:
    # Given an application that reads two clusters into one sink, and commits to a group
    name, out, order = topic("orders"), brokers.c.create_topic(topic("out")), tmp_path / "die"
    for at in brokers[:2]:
        at.create_topic(name)
    write_metadata(
        tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    )
    (tmp_path / "killed.py").write_text(USER_CODE)
    jars = {"spark.jars": ",".join(map(str, connector_jars()))} if kind == "kafka" else {}
    config = write_app(
        tmp_path,
        options={"startingOffsets": "earliest", "metadataDiscoveryInterval": "1s", "kafka.group.id": name},
        transformation={"function": "killed:watched"},
        sinks=[sink_of(kind, tmp_path, brokers.c, out)],
        spark={**spark_settings(tmp_path), **killing_settings(order), **jars},
    )

    def found() -> Rows:
        return delivered(kind, tmp_path, brokers.c, out)

    def logs() -> tuple[int, int]:
        return last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")

    def committed() -> int:
        return brokers.a.committed_offsets(name).get((name, 0), 0)

    importable = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{spark_environment()['PYTHONPATH']}"}
    wanted, repeatable, checkpoint = Rows(), Rows(), tmp_path / "checkpoints" / "lake"
    for step in (*STEPS[kind], None):
        with AppRun(config, environment=importable) as run:
            # When it has gone on from where the last driver died
            run.wait_until(lambda: found().total() >= wanted.total() and len({*logs()}) == 1, "all rows")  # noqa: B023
            assert not wanted - found() and not found() - wanted - repeatable, step
            before = logs()
            # The group follows, also with a batch that was committed right before the end.
            run.wait_until(lambda: committed() == of_a(wanted), "the commit to the group")  # noqa: B023
            if step is None:
                new = produce("a", brokers.a, name, 10) + produce("b", brokers.b, name, 10)
                run.wait_until(lambda: not wanted + new - found(), "the last rows")  # noqa: B023
                run.terminate()
                assert run.wait_exit() == 0, run.last_lines()
                wanted += new
                break
            # And it dies at a step of the next batch
            order.write_text(step)
            new = produce("a", brokers.a, name, 10) + produce("b", brokers.b, name, 10)
            run.wait_until(lambda: not order.exists(), f"a kill {step}")
            run.process.wait(60)

        # Then exactly the steps before were made, and the group has no offset that Spark has not committed
        steps = tuple(after - earlier for after, earlier in zip(logs(), before, strict=True))
        assert steps == (step != "before offsets", step == "after commits"), step
        assert committed() == of_a(wanted)
        wanted += new
        repeatable += new if kind == "kafka" and step in ("while reading", "before commits") else Rows()

    # And in the end the sink has each row once; only Kafka's may have rows of a batch that was cut off twice
    surplus = found() - wanted
    assert not wanted - found() and not surplus - repeatable
    assert bool(surplus) == (kind == "kafka")
    assert committed() == of_a(wanted)
