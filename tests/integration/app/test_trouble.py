"""A cluster hangs or is removed while a batch reads from it: the query is restarted within the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.app.driving import AppRun, write_app
from tests.integration.app.test_stop import SLOW
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster
from tests.support.spark import spark_settings
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("clusters that hang under a real driver")


def one_core_app(folder: Path, **options: Any) -> Path:
    """An application whose batches read the first cluster slowly before they begin with the second."""
    (folder / "slow.py").write_text(SLOW)
    return write_app(
        folder,
        options={
            "startingOffsets": "earliest",
            "metadataDiscoveryInterval": "1s",
            "readTimeout": "3s",
            **options,
        },
        transformation={"function": "slow:slowly"},
        spark=spark_settings(folder, cores=1),
        restartBackoff="200ms",
    )


def pause_in_flight(run: AppRun, at: KafkaCluster) -> None:
    """Pause a cluster whose range in the first batch is planned and not yet read."""
    run.wait_until(lambda: run.planned_batch() == 0, "the first plan")
    at.pause()
    assert run.committed_batch() == -1


@pytest.mark.timeout(600)
def test_a_cluster_that_hangs_in_a_batch_comes_back_exactly(
    brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, tmp_path: Path
) -> None:
    name, x = topic("hang"), fresh_cluster("x")
    for at in (brokers.a, x):
        at.create_topic(name)
    first, held = produce("a", brokers.a, name, 100), produce("x", x, name, 50)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name]), cluster("x", x, [name])))
    with AppRun(one_core_app(tmp_path, clusterFailurePolicy="stall")) as run:
        pause_in_flight(run, x)
        run.wait_rows(first)
        assert "READ_TIMEOUT cluster=x" in run.events("restart")[0]["reason"]
        more = produce("a", brokers.a, name, 20)
        run.wait_rows(first + more)
        assert_rows(run.rows(), first + more)
        x.resume()
        run.wait_rows(first + more + held)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), first + more + held)


@pytest.mark.timeout(600)
def test_removing_a_hanging_cluster_keeps_the_application_going(
    brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, tmp_path: Path
) -> None:
    name, x = topic("gone"), fresh_cluster("x")
    for at in (brokers.a, x):
        at.create_topic(name)
    first, held = produce("a", brokers.a, name, 100), produce("x", x, name, 50)
    both = (cluster("a", brokers.a, [name]), cluster("x", x, [name]))
    metadata = write_metadata(tmp_path / "streams.json", stream("st", *both))
    with AppRun(one_core_app(tmp_path)) as run:
        pause_in_flight(run, x)
        write_metadata(metadata, stream("st", both[0]))
        run.wait_rows(first)
        assert len(run.events("restart")) == 1
        assert_rows(run.rows(), first)
        x.resume()
        write_metadata(metadata, stream("st", *both))
        run.wait_rows(first + held)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), Rows(first + held))
