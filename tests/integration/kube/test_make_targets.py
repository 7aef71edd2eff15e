"""`make cluster-up` and `make cluster-down`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.deep("the tests' own cluster")


def command(verb: str, build: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.kube", verb],
        cwd=ROOT,
        env=os.environ | {"DYNAMIC_KAFKA_BUILD": str(build)},
        capture_output=True,
        text=True,
        check=False,
    )


def processes_of(build: Path) -> list[str]:
    """The command lines that name `build`."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            line = entry.read_bytes().decode(errors="replace")
            if str(build) in line:
                lines.append(line)
    return lines


def test_the_cluster_stays_up_until_it_is_taken_down(tmp_path: Path) -> None:
    up = command("up", tmp_path)
    try:
        again = command("up", tmp_path)
        config, kubectl = re.findall(r"KUBECONFIG=(\S+)\n +(\S+) get namespaces", up.stdout)[0]
        names = subprocess.run(
            [kubectl, "get", "crds", "--output=name"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "KUBECONFIG": config},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    finally:
        down = command("down", tmp_path)

    assert (up.returncode, again.stdout) == (0, up.stdout)
    assert "sparkapplications.sparkoperator.k8s.io" in names
    assert (down.returncode, processes_of(tmp_path)) == (0, [])
    assert not (tmp_path / "cluster").exists()
    assert command("down", tmp_path).returncode == 0
