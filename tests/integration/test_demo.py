"""Ctrl-C in the middle of the demo: no process survives, and no file is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.deep("the demo is a command of its own")

DEADLINE_S = 240.0
POLL_S = 0.05
PROCESSES = (
    "kafka.Kafka",
    "kube-apiserver",
    "controllers",
    "-m kafkastream_operator",
    "spark-operator",
    "-m dynamic_kafka.app run",
    "org.apache.spark.deploy.SparkSubmit",
)


def processes(build: Path) -> dict[int, str]:
    """Return process ids and command lines of the demo: its processes have our folder in their environment."""
    commands = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and str(build).encode() in (entry / "environ").read_bytes():
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return commands


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder for all files of a run; kill its processes at the end."""
    made = tmp_path / "build"
    yield made
    for pid in processes(made):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.brokers
@pytest.mark.kube
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_ctrl_c_ends_the_demo_with_all_its_processes(build: Path, tmp_path: Path) -> None:
    # Given a demo whose brokers and control plane run, and whose driver is starting
    log = tmp_path / "demo.log"
    with log.open("ab") as output:
        demo = subprocess.Popen(
            [sys.executable, "-m", "demo"],
            cwd=ROOT / "examples",
            env={**os.environ, "PYTHONPATH": str(ROOT), "DYNAMIC_KAFKA_BUILD": str(build)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    wait_until(
        lambda: all(any(process in command for command in processes(build).values()) for process in PROCESSES),
        "all processes of the demo",
        timeout_s=DEADLINE_S,
        failed=lambda: None if demo.poll() is None else "the demo ended",
        details=lambda: f"{processes(build)}\n{log.read_text()}",
    )

    # When Ctrl-C is pressed: the whole foreground group gets the signal
    os.killpg(demo.pid, signal.SIGINT)

    # Then it ends soon, and leaves nothing
    assert demo.wait(60) == 130, log.read_text()
    assert "interrupted: stopping all processes" in log.read_text()
    assert processes(build) == {}
    assert [path for path in build.rglob("*") if path.is_file()] == []
