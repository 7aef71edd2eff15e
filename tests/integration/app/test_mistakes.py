"""The mistakes of a newcomer: the last ten lines of what the user sees name the cause and the remedy.

Most are made by a user's script, in one Spark (`mistakes_script.py`). The application finds the others before Spark
starts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.support.fixtures import Brokers
from tests.support.places import ROOT
from tests.support.spark import spark_environment
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("a matrix of mistakes")

LAST = 10
IN_A_SCRIPT = {
    "option": ["OptionError: unknown option 'streamidz'", "did you mean 'streamIds'?"],
    "stall_without_state": ["OptionError: clusterFailurePolicy=stall needs 'stateLocation'", "set it to a folder"],
    "server": ["[CLUSTER_UNREACHABLE cluster=east]", "bootstrap servers 127.0.0.1:1. Correct a wrong address"],
    "topic_name": ["has no topic", "-mistyped': create it, or remove it from the stream"],
    "sparks_checkpoint": ["the checkpoint is not dynamic-kafka's", "import-checkpoint"],
    "secret_reference": ["SecretError: ", "${file:/no/such/file:password}", "mount it on the driver"],
    "shared_group": ["GroupInUseError: query ", "set another kafka.group.id"],
    "output_folder": ["StaleCheckpointError: ", "would be LOST", "write to a new path"],
    "missing_file": [
        "missing.yaml: cannot be read: No such file or directory",
        "check that it is mounted, and the path",
    ],
}
"""Texts of the cause and of the remedy."""


@pytest.fixture(scope="module")
def printed(brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """The lines that the script prints for each mistake."""
    topic = f"mistakes-{os.getpid()}"
    brokers.a.create_topic(topic)
    produce("a", brokers.a, topic, 3)
    folder = tmp_path_factory.mktemp("mistakes")
    program = [sys.executable, "-m", "tests.integration.app.mistakes_script", brokers.a.bootstrap, topic, str(folder)]
    environment = {**os.environ, **spark_environment()}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=270, check=False)
    assert done.returncode == 1
    sections = re.split(r"^=== (\w+)\n", done.stderr, flags=re.MULTILINE)
    return {name: text.splitlines() for name, text in zip(sections[1::2], sections[2::2], strict=True)}


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mistake", IN_A_SCRIPT)
def test_a_script_ends_with_the_cause_and_the_remedy(mistake: str, printed: Mapping[str, list[str]]) -> None:
    lines = printed[mistake]
    end = "\n".join(lines[-LAST:])
    assert [text for text in IN_A_SCRIPT[mistake] if text not in end] == []
    assert lines[-1].count(": ") >= 1 and "caused by" in lines[-2]  # nothing comes after it
    assert end.count(IN_A_SCRIPT[mistake][-1]) == 1


def run_app(folder: Path, **environment: str) -> tuple[int, list[str]]:
    """Run an application of this folder; return the exit code and the last lines."""
    app = folder / "app.yaml"
    sink = {"name": "screen", "type": "console"}
    content = {"name": "shop", "metadata": str(folder / "streams.json"), "streams": {"ids": ["orders"]}}
    app.write_text(yaml.safe_dump(content | {"checkpoint": str(folder / "checkpoint"), "sinks": [sink]}))
    done = subprocess.run(
        [sys.executable, "-m", "dynamic_kafka.app", "run", str(app), "--log-format", "text"],
        env={**os.environ, **spark_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()[-LAST:]


def test_a_wrong_yaml_field_ends_the_application_with_its_line(tmp_path: Path) -> None:
    listed = (
        "- streamId: orders\n  clusterMetadataList:\n  - {clusterId: east, bootstrapServers: 'e:1', topicz: [orders]}"
    )
    (tmp_path / "streams.json").write_text(listed)
    code, lines = run_app(tmp_path)
    assert code == 3
    end = "\n".join(lines)
    assert "streams.json:3: [0].clusterMetadataList[0].topicz: unknown field" in end
    assert "did you mean 'topics'?" in end
    assert end.count("topicz") == 1


def test_workers_without_the_package_end_the_application(tmp_path: Path) -> None:
    write_metadata(tmp_path / "streams.json", stream("orders", cluster("east", "e:1", ["orders"])))
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    code, lines = run_app(tmp_path, PYSPARK_PYTHON=str(bare))
    assert code == 6
    assert f"PYSPARK_PYTHON={bare} cannot run dynamic-kafka[spark]" in lines[-1]
    assert "]: ModuleNotFoundError" in lines[-1]
    assert f"or set PYSPARK_PYTHON={sys.executable}" in lines[-1]


def test_an_old_pyspark_ends_the_application_with_its_version(tmp_path: Path) -> None:
    write_metadata(tmp_path / "streams.json", stream("orders", cluster("east", "e:1", ["orders"])))
    old = tmp_path / "old" / "pyspark"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text('__version__ = "4.1.0"\n')
    path = os.pathsep.join([str(old.parent), str(ROOT / "spark_app")])
    code, lines = run_app(tmp_path, PYTHONPATH=path)
    assert code in (2, 6)
    assert "dynamic_kafka needs PySpark >= 4.2" in lines[-1] and "pip install 'pyspark>=4.2'" in lines[-1]
