"""kill -9 between each pair of steps of a batch, for each kind of sink: snapshot, delivery, Spark's commit, group.

A batch is planned, and its end is logged (the snapshot); it is read, and written to the sink; Spark commits it; its
offsets go to the consumer group. A driver with a query per kind of sink dies when each query is at its step, and the
next driver goes on from what is on disk.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from dynamic_kafka.kafka.background import quiet_logger
from tests.integration.app.driving import DEADLINE_S, AppRun, write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.killing_files import compiled, killing_settings
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

pytestmark = [pytest.mark.timeout(900), pytest.mark.deep("a kill between each two steps, for three kinds of sinks")]

SINKS = ("file", "function", "kafka")
KILLS = (
    ("before offsets",) * 3,
    ("after offsets",) * 3,
    ("while reading",) * 3,
    ("before _spark_metadata", "before the function", "before commits"),
    ("after _spark_metadata", "after the function", "before commits"),
    ("before commits",) * 3,
    ("after commits",) * 3,
)
"""The steps of the three queries at which the driver dies. Rows reach Kafka while they are read, not at once."""
SAMPLES = tuple(KILLS[at::3] for at in range(3))
"""In each of them Kafka gets a batch twice: one that Spark has not committed."""
WHOLE = ("after _spark_metadata", "after the function", "before commits", "after commits")
"""The steps at which a sink has all rows of the batch."""

USER_CODE = """
import json
import os
import signal
import threading
from pathlib import Path

from pyspark.sql.functions import udf

HERE = Path(__file__).parent


def obey(step):
    try:
        (HERE / "orders" / step).unlink()
    except FileNotFoundError:
        return
    if not os.listdir(HERE / "orders"):
        for pid in json.loads((HERE / "driver").read_text()):
            os.kill(pid, signal.SIGKILL)
    threading.Event().wait()


def watched(frame, sink):
    jvm = frame.sparkSession._jvm.java.lang.ProcessHandle.current().pid()
    (HERE / "driver").write_text(json.dumps([jvm, os.getpid()]))

    def look(offset):
        obey(f"{sink} while reading {offset}")
        return True

    return frame.where(udf(look, "boolean")("offset"))


def to_file(frame):
    return watched(frame, "file")


def to_function(frame):
    return watched(frame, "function")


def to_kafka(frame):
    texts = ("kafka_cluster", "topic", *(f"CAST({name} AS STRING)" for name in ("partition", "offset", "value")))
    return watched(frame, "kafka").selectExpr(f"to_json(array({', '.join(texts)})) AS value")


def keep(frame, batch):
    obey(f"function before the function {batch}")
    chosen = frame.selectExpr("kafka_cluster", "topic", "partition", "offset", "CAST(value AS STRING)")
    (HERE / "draft").write_text(json.dumps([list(row) for row in chosen.collect()]))
    (HERE / "draft").replace(HERE / f"kept-{batch}.json")
    obey(f"function after the function {batch}")
"""
"""Transformations, and a function as a sink. They obey orders as `KillingFiles` does."""


class Killed:
    """An application with a sink of each kind that reads two clusters, and what its drivers leave behind."""

    def __init__(self, folder: Path, brokers: Brokers, name: str) -> None:
        self.folder, self.brokers, self.name = folder, brokers, name
        self.orders = folder / "orders"
        self.orders.mkdir()
        for at in brokers:
            at.create_topic(name)
        clusters = cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name])
        write_metadata(folder / "streams.json", stream("st", *clusters))
        (folder / "killed.py").write_text(USER_CODE)
        to = {
            "file": {"type": "parquet", "options": {"path": str(folder / "file")}},
            "function": {"foreachBatch": "killed:keep"},
            "kafka": {
                "type": "kafka",
                "options": {"kafka.bootstrap.servers": brokers.c.bootstrap, "topic": name},
            },
        }
        own = {sink: {"groupId": self.group(sink), "transformation": {"function": f"killed:to_{sink}"}} for sink in to}
        jars = ",".join(map(str, [compiled(), *connector_jars()]))
        # A task of each query may wait at its step; others need a core meanwhile.
        settings = {**spark_settings(folder, cores=5), **killing_settings(self.orders), "spark.jars": jars}
        self.config = write_app(
            folder, sinks=[{"name": sink, **to[sink], **own[sink]} for sink in SINKS], spark=settings
        )

    def group(self, sink: str) -> str:
        """Return the consumer group of a sink's query."""
        return f"{self.name}-{sink}"

    def start(self) -> AppRun:
        """Start a driver."""
        importable = f"{self.folder}{os.pathsep}{spark_environment()['PYTHONPATH']}"
        return AppRun(self.config, environment={"PYTHONPATH": importable})

    def order(self, kill: tuple[str, ...], batch: int, offset: int) -> None:
        """Let the driver die when each query is at its step of a batch; while reading, at an offset."""
        for sink, step in zip(SINKS, kill, strict=True):
            (self.orders / f"{sink} {step} {offset if step == 'while reading' else batch}").touch()

    def produce(self) -> Rows:
        """Produce ten records to each cluster."""
        return produce("a", self.brokers.a, self.name, 10) + produce("b", self.brokers.b, self.name, 10)

    def delivered(self, sink: str) -> Rows:
        """Return the rows that a sink has."""
        if sink == "file":
            return parquet_rows(self.folder / "file")
        texts: list[Any] = []
        if sink == "function":
            texts = [row for file in self.folder.glob("kept-*.json") for row in json.loads(file.read_text())]
        else:
            texts = [json.loads(text) for text in self._in_kafka()]
        return Rows(Row(name, topic, int(part), int(offset), value) for name, topic, part, offset, value in texts)

    def _in_kafka(self) -> list[bytes]:
        to = self.brokers.c
        properties = {**to.client_properties(), "group.id": "check", "enable.auto.commit": "false"}
        consumer = Consumer(properties, logger=quiet_logger())
        consumer.assign([TopicPartition(self.name, 0, 0)])
        messages = consumer.consume(to.end_offsets(self.name)[0], timeout=30)
        consumer.close()
        return [message.value() or b"" for message in messages]

    def logs(self, sink: str) -> tuple[int, int]:
        """Return the last batch that is planned, and the last one that is committed."""
        checkpoint = self.folder / "checkpoints" / sink
        return last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")

    def committed(self, sink: str) -> int:
        """Return the offset of cluster `a` in the query's consumer group."""
        return self.brokers.a.committed_offsets(self.group(sink)).get((self.name, 0), 0)


def of_a(rows: Rows) -> int:
    """Return the number of rows of cluster `a`."""
    return sum(count for row, count in rows.items() if row.cluster == "a")


@pytest.mark.scenario(43)
@pytest.mark.sampled
@pytest.mark.parametrize("kills", SAMPLES, ids=lambda kills: kills[0][0])
def test_a_kill_between_any_two_steps_loses_nothing(
    brokers: Brokers, topic: Topic, tmp_path: Path, kills: tuple[tuple[str, ...], ...]
) -> None:
    # Given an application that reads two clusters into each kind of sink, and commits to a group for each
    app = Killed(tmp_path, brokers, topic("orders"))
    before, repeatable = Rows(), Rows()
    new, batch = app.produce(), 0
    for kill in kills:
        # When a driver goes on from where the last one died, and dies within the next batch
        app.order(kill, batch, offset=of_a(before) + 3)
        with app.start() as run:
            run.process.wait(DEADLINE_S)
            assert run.process.returncode == -signal.SIGKILL and not any(app.orders.iterdir()), run.last_lines()

        for sink, step in zip(SINKS, kill, strict=True):
            # Then exactly the steps before were made
            logs = (batch - (step == "before offsets"), batch - (step != "after commits"))
            assert app.logs(sink) == logs, (sink, step)
            # And the sink has all earlier rows, and those of the batch as soon as it was written
            delivered, wanted = app.delivered(sink), before + new if step in WHOLE else before
            assert not wanted - delivered, (sink, step)
            if sink == "kafka":  # Kafka has rows of a batch that was cut off twice
                repeatable += new if step in ("while reading", "before commits") else Rows()
                assert not delivered - wanted - repeatable, step
            else:
                assert not delivered - wanted, (sink, step)
            # And no group has an offset that Spark has not committed
            assert app.committed(sink) <= of_a(before), (sink, step)

        # A batch that was not logged is planned anew, with what has arrived since.
        if kill[0] == "before offsets":
            new += app.produce()
        else:
            before, new, batch = before + new, app.produce(), batch + 1

    # And in the end the sinks have each row once, but for Kafka's, and the groups follow
    wanted = before + new
    with app.start() as run:
        run.wait_until(lambda: all(app.committed(sink) == of_a(wanted) for sink in SINKS), "the commits to the groups")
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
    assert [app.delivered(sink) == wanted for sink in SINKS] == [True, True, False]
    assert not app.delivered("kafka") - wanted - repeatable
