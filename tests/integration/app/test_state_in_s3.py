"""A query's state location in an object store instead of a folder.

`tests/unit/state/test_store.py` has the rules, on folders. Here is what differs in a store, and a driver that
uses one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.errors import DriverReplacedError, DynamicKafkaError, OptionError
from dynamic_kafka.executor.read_task import BatchReports
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.store import StateLocation
from tests.integration.app.driving import AppRun, write_app
from tests.integration.app.test_trouble import one_core_app, pause_in_flight
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.object_store import BUCKET, object_store, read_only
from tests.support.spark import spark_settings
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata

DEEP = pytest.mark.deep("more files and faults of an object store")

PART = SplitRange(Split("east", "t", 0), 5, 9)
MADE = Amendment("q", 3, "aa", "bb", (PART,), {"east": "removed"}, 1_000)


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with object_store() as environment:
        yield environment


@pytest.fixture
def logged_in(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    return store


@DEEP
@pytest.mark.parametrize("uri", [f"s3a://{BUCKET}/rules/a", f"s3://{BUCKET}/rules/b/", f"s3a://{BUCKET}"])
def test_amendments_are_whole_ordered_and_each_there_once(logged_in: dict[str, str], uri: str) -> None:
    assert StateLocation(uri).amendments("q") == []
    for number in (10, 9, 100, 9):
        StateLocation(uri).save_amendment(replace(MADE, number=number))
    assert [made.number for made in StateLocation(uri).amendments("q")] == [9, 10, 100]
    assert StateLocation(uri).amendments("another") == []


@DEEP
def test_drivers_bindings_and_reports_live_in_a_store_too(logged_in: dict[str, str]) -> None:
    state, saved = StateLocation(f"s3a://{BUCKET}/drivers"), OffsetDocument("q", 3, "aa", state="e1")
    state.bind("q", "e1")
    first, second = Incarnation(state), Incarnation(state)
    first.begin(saved)
    assert second.begin(saved) == []
    with pytest.raises(DriverReplacedError):
        first.save(MADE)
    second.save(MADE)
    assert [made.driver for made in state.amendments("q")] == [second.name]
    assert state.drivers("q") == [second.name]  # the claim before was purged
    state.check_writable("q")
    state.save_seen("q", "bb", "topic-id", PART.split, {"topicId": "T"})
    assert [report.split for report in state.seen("q", "bb")] == [PART.split]


@DEEP
def test_a_bucket_that_is_not_there_is_named_and_not_made(logged_in: dict[str, str]) -> None:
    state = StateLocation("s3a://mistyped/orders")
    with pytest.raises(DynamicKafkaError, match=r"stateLocation: s3a://mistyped/orders/q/.*cannot be written"):
        state.save_amendment(MADE)


@DEEP
def test_executors_without_the_right_to_write_are_named(
    logged_in: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a query whose driver may write, and an executor whose account may only read
    StateLocation(f"s3a://{BUCKET}/rights").check_writable("q")
    StateLocation(f"s3a://{BUCKET}/rights").bind("q", "e1")
    reports = BatchReports(f"s3a://{BUCKET}/rights", "q", "bb", 3, "1")
    with read_only(logged_in["AWS_ENDPOINT_URL"]) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(OptionError, match=r"executors must write .*/q/seen:.*ACCESS_DENIED"):
            reports.stop_record(PART.split)

    # With the right it reads on, and nothing is left of the check
    monkeypatch.setenv("AWS_ENDPOINT_URL", logged_in["AWS_ENDPOINT_URL"])
    assert reports.stop_record(PART.split) is None
    assert StateLocation(f"s3a://{BUCKET}/rights").list_folder("q/seen") == []


@pytest.mark.timeout(600)
def test_an_amendment_in_s3_is_obeyed_by_the_next_start(
    brokers: Brokers,
    fresh_cluster: FreshCluster,
    topic: Topic,
    tmp_path: Path,
    logged_in: dict[str, str],
) -> None:
    name, x = topic("s3"), fresh_cluster("x")
    for at in (brokers.a, x):
        at.create_topic(name)
    first, held = produce("a", brokers.a, name, 100), produce("x", x, name, 50)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name]), cluster("x", x, [name])))
    place = f"s3a://{BUCKET}/orders"
    app = one_core_app(tmp_path, clusterFailurePolicy="stall", stateLocation=place)
    with AppRun(app) as run:
        pause_in_flight(run, x)
        run.wait_rows(first)
        run.wait_until(lambda: bool(run.events("batch")), "the batch that left x out")
        query = run.events("batch")[0]["documentQuery"]
    # The end of the block above was a kill -9.
    [made] = StateLocation(place).amendments(query)
    assert {part.split.cluster for part in made.left_out} == {"x"}
    x.resume()
    with AppRun(app) as run:
        run.wait_rows(first + held)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), first + held)
        assert logged_in["AWS_SECRET_ACCESS_KEY"] not in run.log.read_text()


@DEEP
@pytest.mark.timeout(600)
@pytest.mark.parametrize("used", ["checkpoint", "output"])
def test_a_store_without_sparks_connector_is_named_at_the_end(
    tmp_path: Path, logged_in: dict[str, str], used: str
) -> None:
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", "127.0.0.1:1", ["t"])))
    place = f"s3a://{BUCKET}/connector"
    sink = {"name": "lake", "type": "parquet", "options": {"path": place}}
    app = write_app(tmp_path, **({"checkpoint": place} if used == "checkpoint" else {"sinks": [sink]}))
    with AppRun(app) as run:
        assert run.wait_exit() == 6, run.last_lines()
        end, [failed], [ended] = run.last_lines(10), run.events("failed"), run.events("ended")
    assert failed["reason"] == ended["reason"]
    assert "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3A" in ended["reason"]
    assert "connector to `spark.jars.packages`" in ended["reason"]
    assert ended["reason"] in end.splitlines()[-1]
    assert failed["sink"] == "lake" and failed["trace"]
    assert logged_in["AWS_SECRET_ACCESS_KEY"] not in run.log.read_text()


@DEEP
@pytest.mark.timeout(600)
def test_spark_that_lacks_the_connector_at_its_start_names_it(tmp_path: Path) -> None:
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", "127.0.0.1:1", ["t"])))
    log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"s3a://{BUCKET}/log"}
    with AppRun(write_app(tmp_path, spark={**spark_settings(tmp_path), **log})) as run:
        assert run.wait_exit() == 6, run.last_lines()
        end, [ended] = run.last_lines(10), run.events("ended")
    assert ended["reason"].startswith("SparkStartError: Spark could not be started: java.lang.RuntimeException: ")
    assert "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem" in ended["reason"]
    assert "connector to `spark.jars.packages`" in ended["reason"]
    assert ended["reason"] in end
