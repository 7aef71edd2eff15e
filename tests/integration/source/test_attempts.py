"""Spark's later attempts of a task: only our own time-out shortens them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynamic_kafka.executor.reading.attempts import MARK_PREFIX
from tests.support.driver_process import DriverProcess
from tests.support.fixtures import FreshCluster
from tests.support.streams import cluster, stream, write_metadata

pytestmark = pytest.mark.deep("retries that wait for time-outs")

DRIVER = """
import sys
from pathlib import Path

from tests.integration.source.failing_attempts import FailingSource
from tests.support.spark import start_spark

story = Path(sys.argv[1])
spark = start_spark("attempts", {"spark.master": "local[1,4]"})
spark.dataSource.register(FailingSource)
options = {
    "metadataPath": str(story / "streams.json"),
    "streamIds": "orders",
    "startingOffsets": "earliest",
    "readTimeout": "3s",
}


def save(batch, number):
    rows = batch.count()
    (story / "rows").write_text(str(rows))


frame = spark.readStream.format("dynamic-kafka").options(**options).load()
frame.writeStream.foreachBatch(save).option("checkpointLocation", str(story / "checkpoint")).start().awaitTermination()
"""


def test_only_our_own_time_out_shortens_the_next_attempt(fresh_cluster: FreshCluster, tmp_path: Path) -> None:
    # Given a batch of one task, planned before its cluster hangs
    at = fresh_cluster("hanging")
    at.create_topic("orders")
    at.produce("orders", ["x", "y"])
    write_metadata(tmp_path / "streams.json", stream("orders", cluster("east", at, ["orders"])))
    with DriverProcess(DRIVER, [str(tmp_path)], tmp_path / "driver.log") as driver:
        driver.wait_until((tmp_path / "planned").exists, "the first attempt")
        at.pause()

        # When the process of attempt 0 is killed, and the attempts after it time out
        (tmp_path / "paused").touch()
        driver.wait_until((tmp_path / "hung").exists, "the fourth attempt")

        # Then the first attempt that times out has had all of `readTimeout`, and only the next one is short
        timeouts = re.findall(r"^attempt (\d): .*readTimeout \(([\d.]+) s\)", (tmp_path / "errors").read_text(), re.M)
        assert timeouts == [("1", "3"), ("2", "1")]

        # When the cluster goes on, then the range is read, and its mark is gone
        folder = Path((tmp_path / "folder").read_text())
        assert len(list(folder.glob(f"{MARK_PREFIX}*"))) == 1
        at.resume()
        (tmp_path / "resumed").touch()
        driver.wait_until((tmp_path / "rows").exists, "the rows")
        driver.wait_until(lambda: (tmp_path / "rows").read_text() == "2", "both rows", timeout_s=20)
        assert list(folder.glob(f"{MARK_PREFIX}*")) == []
