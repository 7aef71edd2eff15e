"""A box leaves nothing on the machine: not after Ctrl-C, and after kill -9 only what the next start removes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node.box import Box
from tests.support.node.preflight import lacking
from tests.support.node.traces import traces
from tests.support.waiting import eventually, wait_until

pytestmark = pytest.mark.deep("the end-to-end tests' own box")

INSIDE = """
ip link add one type veth peer name other
iptables -t nat -A POSTROUTING -j MASQUERADE
mkdir /run/netns && ip netns add third
for group in /sys/fs/cgroup/*/{name} /sys/fs/cgroup/{name}; do
    [ ! -d $group ] || {{ mkdir $group/pod; sh -c "echo \\$\\$ > $group/pod/cgroup.procs; exec sleep 1000" & }}
done
setsid sleep 1000 &
touch {folder}/ready
sleep 1000
"""
RUN = """
import os, sys
from pathlib import Path
from tests.support.node.box import Box
Box(Path(sys.argv[1])).run(sys.argv[2:], os.environ)
"""


@pytest.fixture
def box(tmp_path: Path) -> Box:
    missing = lacking()
    if missing:
        pytest.skip(f"the machine lacks {missing[0]}")
    return Box(tmp_path / "box")


def started(box: Box) -> subprocess.Popen[bytes]:
    command = ["sh", "-c", INSIDE.format(name=box.name, folder=box.folder)]
    process = subprocess.Popen([sys.executable, "-c", RUN, str(box.folder), *command], env=os.environ)
    wait_until((box.folder / "ready").exists, "the box to be full")
    return process


def test_an_interrupted_box_leaves_nothing(box: Box) -> None:
    before = traces(box)
    process = started(box)
    assert traces(box) > before

    process.send_signal(signal.SIGINT)
    process.wait(60)

    assert traces(box) == before


def test_a_killed_box_leaves_what_clear_removes(box: Box) -> None:
    before = traces(box)
    process = started(box)

    process.kill()
    process.wait(60)

    left = {f"folder {box.folder}", *(f"control group {path}" for path in box.cgroups())}
    assert eventually(lambda: traces(box) - before <= left)
    box.clear()
    assert traces(box) == before
