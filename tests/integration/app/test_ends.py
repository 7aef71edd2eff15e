"""The end of runs: bounded ones end once everything is read, others with the exit code of their reason."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.outcome import Outcome
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.app.query.supervisor import Supervisor
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.kafka.commit_marks import CommitMark
from dynamic_kafka.kafka.groups import GroupClient
from dynamic_kafka.spark.source import register
from dynamic_kafka.state.checkpoints import Checkpoint
from tests.integration.app.driving import AppRun, RunApp, own_listeners, write_app
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.streams import (
    Rows,
    assert_rows,
    cluster,
    last_batch,
    parquet_rows,
    produce,
    stream,
    write_metadata,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEEP = pytest.mark.deep("hangs, and waits for their end")

DEADLINE_S = 90.0


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Delete Spark's commit of a batch, as if the driver had died right before it."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


class Running:
    """The application's queries on the tests' Spark session, from their start to the exit code."""

    def __init__(self, spark: SparkSession, config_file: Path) -> None:
        config = load_config(config_file)
        register(spark)
        self._resources = contextlib.ExitStack()
        self._resources.enter_context(own_listeners(spark))
        self.board = StatusBoard([sink.name for sink in config.sinks])
        self.code: ExitCode | None = None
        self._stop = StopRequest()
        self._discovery = make_discovery(config.parsed_options(config.sinks[0]))
        self._discovery.start()
        self.supervisor = Supervisor(spark, config, self._discovery, self.board, self._stop)
        self._thread = threading.Thread(target=lambda: setattr(self, "code", self.supervisor.run()), daemon=True)
        self._thread.start()

    def wait_until(self, done: Callable[[], bool], what: str) -> None:
        def ended() -> str | None:
            return None if self._thread.is_alive() else f"ended with {self.code}"

        wait_until(done, what, timeout_s=DEADLINE_S, failed=ended)

    def wait_exit(self) -> ExitCode | None:
        self._thread.join(DEADLINE_S)
        return self.code

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.ask("the end of the test")
        self._thread.join(DEADLINE_S)
        self._discovery.stop()
        self._resources.close()


@pytest.fixture
def quick_idle(spark: SparkSession) -> Iterator[None]:
    """Spark notes the state of a query without news at once, not after ten seconds."""
    setting = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(setting, "100")
    yield
    spark.conf.unset(setting)


@DEEP
@pytest.mark.usefixtures("quick_idle")
def test_a_bounded_run_waits_for_a_hanging_cluster_under_stall(
    spark: SparkSession, brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, tmp_path: Path
) -> None:
    # Given a bounded run that crashed with all its records in one pending batch
    name, x = topic("bounded"), fresh_cluster("x")
    for at in (brokers.a, x):
        at.create_topic(name)
    of_a, of_x = produce("a", brokers.a, name, 10), produce("x", x, name, 20)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name]), cluster("x", x, [name])))
    options = {"startingOffsets": "earliest", "endingOffsets": "latest", "clusterFailurePolicy": "stall"}
    short = {"kafka.socket.timeout.ms": 2000, "readTimeout": "2s"}
    config = write_app(tmp_path, name=name, options=options | short, restartBackoff="200ms")
    lake = tmp_path / "lake"
    with Running(spark, config) as whole:
        assert whole.wait_exit() == ExitCode.DONE
    shutil.rmtree(lake)
    forget_commit(tmp_path / "checkpoints" / "lake", 0)

    # When a cluster hangs at the restart
    x.pause()
    with Running(spark, config) as running:
        # The next document has that cluster's records ahead, and may come at once: only the batch's number lasts
        running.wait_until(lambda: running.board.sinks()["lake"].batch >= 0, "the batch without that cluster")
        assert_rows(parquet_rows(lake), of_a)
        x.resume()

        # Then the run does not end without that cluster's records
        assert running.wait_exit() == ExitCode.DONE
    assert_rows(parquet_rows(lake), of_a + of_x)
    outcome = Outcome.of_queries(ExitCode.DONE, None, running.board.sinks().values())
    assert outcome.finished is not None
    assert "1 sink, 2 splits read to the end" in outcome.finished.text()

    # And a further start ends at once, with nothing to do or with the last batch alone
    done = last_batch(tmp_path / "checkpoints" / "lake" / "commits")
    for pending in (False, True):
        if pending:
            forget_commit(tmp_path / "checkpoints" / "lake", done)
        with Running(spark, config) as again:
            assert again.wait_exit() == ExitCode.DONE
        assert last_batch(tmp_path / "checkpoints" / "lake" / "commits") == done
    assert_rows(parquet_rows(lake), of_a + of_x)


@DEEP
def test_available_now_restarts_until_a_hanging_cluster_answers(
    spark: SparkSession, brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, tmp_path: Path
) -> None:
    name, x = topic("now"), fresh_cluster("x")
    for at in (brokers.a, x):
        at.create_topic(name)
    of_a, of_x = produce("a", brokers.a, name, 10), produce("x", x, name, 20)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name]), cluster("x", x, [name])))
    options = {"startingOffsets": "earliest", "clusterFailurePolicy": "stall", "kafka.socket.timeout.ms": 1000}
    config = write_app(tmp_path, name=name, options=options, trigger={"availableNow": True}, restartBackoff="200ms")
    x.pause()
    with Running(spark, config) as running:
        running.wait_until(lambda: running.board.sinks()["lake"].restarts > 0, "the first restart")
        last_error = running.board.sinks()["lake"].last_error or ""
        assert "[CLUSTER_UNREACHABLE cluster=x]" in last_error
        assert "Trigger.AvailableNow" in last_error and "is not complete" in last_error
        assert_rows(parquet_rows(tmp_path / "lake"), of_a)
        x.resume()
        assert running.wait_exit() == ExitCode.DONE
    assert_rows(parquet_rows(tmp_path / "lake"), of_a + of_x)


STUCK = """
import time
from pathlib import Path

def stick(frame, batch):
    Path(__file__).with_name("stuck").touch()
    time.sleep(600)
"""


@DEEP
@pytest.mark.timeout(600)
def test_a_batch_that_outlasts_the_grace_period_is_exit_code_8(brokers: Brokers, topic: Topic, tmp_path: Path) -> None:
    name = brokers.a.create_topic(topic("stuck"))
    produce("a", brokers.a, name, 5)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    (tmp_path / "my_sink.py").write_text(STUCK)
    config = write_app(tmp_path, sinks=[{"name": "mine", "foreachBatch": "my_sink:stick"}], gracePeriod="1s")
    with AppRun(config) as run:
        run.wait_until((tmp_path / "stuck").exists, "a batch at work")
        run.terminate()
        assert run.wait_exit() == 8, run.last_lines()
        assert "not all queries stopped within" in run.text()
        assert [event["code"] for event in run.events("ended")] == [8]
        assert (run.planned_batch("mine"), run.committed_batch("mine")) == (0, -1)


@pytest.mark.timeout(600)
def test_a_group_that_another_query_commits_to_is_exit_code_7(
    brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp
) -> None:
    # Given a group with a recent commit of another query; its time is in the near future, since the start takes long
    name = brokers.a.create_topic(topic("shared"))
    produce("a", brokers.a, name, 5)
    client = GroupClient("a", name, brokers.a.client_properties(), deadline_s=20)
    client.commit({(name, 0): 2}, str(CommitMark("another", 7, time.time_ns() // 1_000_000 + 55_000)))

    # When the application would commit to the group too
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    options = {"startingOffsets": "earliest", "kafka.group.id": name}
    config = write_app(tmp_path, options=options, trigger={"availableNow": True})
    with run_app(config) as run:
        # Then it ends before it has read anything, and does not change the group
        assert run.wait_exit() == 7, run.last_lines()
        reason = run.events("failed")[0]["reason"]
        assert "GroupInUseError: " in reason and repr(name) in reason
        assert [event["code"] for event in run.events("ended")] == [7]
        assert run.rows().total() == 0
    assert client.committed([(name, 0)])[name, 0][0] == 2
    client.close_in_background()


@pytest.mark.timeout(600)
def test_a_self_join_commits_to_one_group_and_starts_again(
    brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp
) -> None:
    # Given a query with two sources of one stream, and a group
    name = brokers.a.create_topic(topic("joined"))
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    same = "a.topic = b.topic AND a.partition = b.partition AND a.offset = b.offset"
    config = write_app(
        tmp_path,
        options={"startingOffsets": "earliest", "kafka.group.id": name},
        trigger={"availableNow": True},
        transformation={"sql": f"SELECT a.* FROM `stream` a JOIN `stream` b ON {same}"},
    )
    client, wanted = GroupClient("a", name, brokers.a.client_properties(), deadline_s=20), Rows()

    # When it is started again and again, soon after its last commit, then it reads on each time
    for reached in (5, 10):
        wanted += produce("a", brokers.a, name, 5)
        with run_app(config) as run:
            assert run.wait_exit() == 0, run.last_lines()
            assert_rows(run.rows(), wanted)
        offset, mark = client.committed([(name, 0)])[name, 0]
        first, second = Checkpoint(str(tmp_path / "checkpoints" / "lake")).query_ids()
        assert (offset, first in mark, second in mark) == (reached, True, False)
    client.close_in_background()


def test_another_driver_on_the_same_checkpoint_is_reported(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    name = brokers.a.create_topic(topic("twice"))
    wanted = produce("a", brokers.a, name, 3)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    offsets = tmp_path / "checkpoints" / "lake" / "offsets"
    with Running(spark, write_app(tmp_path, name=name)) as running:
        running.wait_until(lambda: running.board.sinks()["lake"].rows == len(wanted), "the first batch")
        # what another driver has planned meanwhile
        last = last_batch(offsets)
        shutil.copy(offsets / str(last), offsets / str(last + 1))
        produce("a", brokers.a, name, 3)
        assert running.wait_exit() == ExitCode.REFUSED
    folder = tmp_path / "checkpoints" / "lake"
    reason = running.supervisor.reason or ""
    assert reason.startswith(f"another driver runs on the checkpoint {folder}: stop one of them")
    events = [vars(record) for record in caplog.records if hasattr(record, "event")]
    [started] = [event for event in events if event["event"] == "started"]
    document = running.board.sinks()["lake"].document.query
    assert started["query"] and started["documentQuery"] is None
    assert {event["documentQuery"] for event in events if event["event"] == "batch"} == {document}

    # After a restart, the id is in the first event.
    caplog.clear()
    (offsets / str(last + 1)).unlink()
    with Running(spark, write_app(tmp_path, name=name)) as again:
        again.wait_until(
            lambda: any(getattr(record, "event", "") == "started" for record in caplog.records), "the start"
        )
    [started] = [vars(record) for record in caplog.records if getattr(record, "event", "") == "started"]
    assert started["documentQuery"] == document


def test_a_failure_within_spark_is_exit_code_6_and_says_where(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    name = brokers.a.create_topic(topic("raises"))
    produce("a", brokers.a, name, 3)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    wrong = {"sql": "SELECT raise_error(concat('no good: ', partition)) AS value FROM stream"}
    with Running(spark, write_app(tmp_path, name=name, transformation=wrong)) as running:
        assert running.wait_exit() == ExitCode.QUERY
    [failed] = [vars(record) for record in caplog.records if getattr(record, "event", "") == "failed"]
    assert "no good: 0" in failed["reason"]
    assert any("org.apache.spark.scheduler.Task.run(" in frame for frame in failed["trace"]), failed["trace"]
    assert not any("no good" in frame for frame in failed["trace"])


@pytest.mark.deep("a matrix of places")
@pytest.mark.parametrize("place", ["webhdfs://no-such-host.invalid", "/proc/no-such-folder"])
@pytest.mark.parametrize("used", ["checkpoint", "output"])
def test_a_place_that_spark_cannot_open_is_named_with_its_cause(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, used: str, place: str
) -> None:
    # Given an application whose checkpoint or output is at a place that Spark cannot open
    caplog.set_level(logging.INFO, "dynamic_kafka")
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", "127.0.0.1:1", ["t"])))
    sink = {"name": "lake", "type": "parquet", "options": {"path": place if used == "output" else str(tmp_path / "o")}}
    changed = {"checkpoint": place} if used == "checkpoint" else {}
    config = write_app(tmp_path, name=f"{used}-{tmp_path.name}", sinks=[sink], **changed)

    # When Spark refuses to start the query
    with Running(spark, config) as running:
        assert running.wait_exit() == ExitCode.QUERY

    # Then the reason names the exception in the JVM, and the event has its place
    cause = "java.net.UnknownHostException: no-such-host.invalid"
    if place.startswith("/"):
        cause = f"java.io.IOException: mkdir of file:{place}/{'_spark_metadata' if used == 'output' else 'lake'} failed"
    [failed] = [vars(record) for record in caplog.records if getattr(record, "event", "") == "failed"]
    assert failed["reason"] == running.supervisor.reason
    assert failed["reason"].endswith(cause)
    assert failed["sink"] == "lake" and running.board.sinks()["lake"].last_error == failed["reason"]
    assert any(frame.startswith("at org.apache.hadoop.") for frame in failed["trace"]), failed["trace"]
