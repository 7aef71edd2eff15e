"""A stop in the middle of a batch and the next start: no record lost or doubled, no process left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import yaml

from tests.integration.app.driving import PYTHON, AppRun, RunApp, run_to_end, spark_submit, write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata

SLOW = """
import time
from pyspark.sql.functions import udf

def slowly(frame):
    return frame.where(udf(lambda offset: time.sleep(0.02) is None, "boolean")("offset"))
"""


@pytest.mark.deep("a second process")
def test_sigterm_while_metadata_is_awaited_ends_at_once_with_0(tmp_path: Path) -> None:
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", "127.0.0.1:1", ["t"])))
    with AppRun(write_app(tmp_path, options={"metadataRevision": "17", "metadataTimeout": "5m"})) as run:
        run.wait_until(lambda: "waiting for revision 17, at most 300 s" in run.text(), "a word of waiting")
        run.terminate()
        assert run.wait_exit(30) == 0, run.last_lines()
        [ended] = run.events("ended")
        assert (ended["code"], ended["reason"]) == (0, "SIGTERM")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "under", ["python", pytest.param("spark-submit", marks=pytest.mark.deep("the second way to start"))]
)
def test_sigterm_finishes_the_batch_and_a_restart_is_exact(
    under: str, brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp
) -> None:
    name = brokers.a.create_topic(topic("stop"))
    wanted = produce("a", brokers.a, name, 600)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    (tmp_path / "slow.py").write_text(SLOW)
    fields = {
        "options": {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 50, "kafka.group.id": name},
        "transformation": {"function": "slow:slowly"},
        "trigger": {"interval": 0},
    }
    config = write_app(tmp_path, **fields)
    command = PYTHON if under == "python" else spark_submit(tmp_path)
    with AppRun(config, command) as run:
        run.wait_until(lambda: run.planned_batch() > run.committed_batch() >= 0, "a batch at work")
        # A shell's job control, `timeout` and a container's init signal the whole process group.
        os.killpg(run.process.pid, signal.SIGTERM) if under == "python" else run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        [stopping] = run.events("stopping")
        assert run.events("ended")[-1]["reason"] == stopping["reason"]
        assert "Traceback" not in run.text() and "\tat " not in run.text(), run.text()
        before = run.rows()
    assert 0 < before.total() < 600
    # Run the rest to the end, without the slow transformation. This process is enough: only the checkpoint matters.
    content = yaml.safe_load(config.read_text())
    del content["transformation"]
    content["trigger"] = {"availableNow": True}
    content["options"]["maxOffsetsPerTrigger"] = 1000
    config.write_text(yaml.safe_dump(content))
    again = run_app(config)
    run_to_end(again, wanted)
    assert_rows(before & wanted, before)
    assert again.committed_batch() == again.planned_batch()
