"""The demo stopped by Ctrl-C in the middle: nothing of it runs on, and nothing is left on disk."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

TOKEN = "DYNAMIC_KAFKA_TEST_RUN"
DEADLINE_S = 180.0
POLL_S = 0.05


def processes(token: str) -> dict[int, str]:
    """Process ids and command lines of whatever has the token in its environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and token.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


@pytest.fixture
def token() -> Iterator[str]:
    """Marks the processes of a run; none of them outlives the test."""
    made = uuid.uuid4().hex
    yield made
    for pid in processes(made):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.brokers
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_ctrl_c_ends_the_demo_with_its_brokers_producers_and_driver(token: str, tmp_path: Path) -> None:
    # Given a demo whose brokers and producers run, and whose driver is starting
    log = tmp_path / "demo.log"
    build = tmp_path / "build"
    with log.open("ab") as output:
        demo = subprocess.Popen(
            [sys.executable, "-m", "demo"],
            cwd=ROOT / "examples",
            env={**os.environ, "PYTHONPATH": str(ROOT), "DYNAMIC_KAFKA_BUILD": str(build), TOKEN: token},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    wanted = ("kafka.Kafka", "demo.job", "org.apache.spark.deploy.SparkSubmit")
    deadline = time.monotonic() + DEADLINE_S
    while not all(any(each in command for command in processes(token).values()) for each in wanted):
        assert demo.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{processes(token)}\n{log.read_text()}"
        time.sleep(POLL_S)

    # When Ctrl-C is pressed: the whole foreground group gets the signal
    os.killpg(demo.pid, signal.SIGINT)

    # Then it ends soon, and leaves nothing
    assert demo.wait(60) == 130, log.read_text()
    assert "interrupted: stopping all that runs" in log.read_text()
    assert processes(token) == {}
    assert [path for path in build.rglob("*") if path.is_file()] == []
