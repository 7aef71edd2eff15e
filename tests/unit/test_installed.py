"""A package that is missing or too old: the import says what to install, and where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynamic_kafka.app.query.session import SparkStartError, check_workers
from tests.support.places import ROOT


def last_line(*arguments: str, path: Path | None = None) -> tuple[int, str]:
    """Run Python with our packages on its path; return the exit code and the last line of standard error."""
    folders = [str(path)] if path else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, str(ROOT / "spark_app")])}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr.strip().splitlines()[-1]


@pytest.fixture
def old_spark(tmp_path: Path) -> Path:
    """A folder with a PySpark that is too old."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "4.1.0"\n')
    return tmp_path


def lacking(package: str, tmp_path: Path) -> Path:
    """Return a folder in which a package cannot be imported, as if it were not installed."""
    (tmp_path / f"{package}.py").write_text(
        f'raise ModuleNotFoundError("No module named {package!r}", name={package!r})\n'
    )
    return tmp_path


@pytest.mark.parametrize("package", ["pyspark", "confluent_kafka", "pyarrow"])
def test_an_import_without_the_extra_names_it(package: str, tmp_path: Path) -> None:
    _, line = last_line("-c", "from dynamic_kafka import register", path=lacking(package, tmp_path))
    assert line.startswith(f"ImportError: {sys.executable} lacks {package.replace('_', '-')}: ")
    assert "pip install 'dynamic-kafka[spark]' there" in line and "'.[spark]'" in line


def test_an_import_with_an_old_spark_names_the_version(old_spark: Path) -> None:
    _, line = last_line("-c", "from dynamic_kafka import register", path=old_spark)
    assert line.startswith("ImportError: dynamic_kafka") and line.endswith("pip install 'pyspark>=4.2'")
    assert f"PySpark >= 4.2, and {sys.executable} has 4.1.0." in line


def test_a_command_without_the_extra_names_it(tmp_path: Path) -> None:
    code, line = last_line("-m", "dynamic_kafka.app", "plan", "app.yaml", path=lacking("confluent_kafka", tmp_path))
    assert code == 2
    assert "pip install 'dynamic-kafka[spark]' there" in line


def test_another_missing_module_is_an_error_as_before(tmp_path: Path) -> None:
    _, line = last_line("-c", "from dynamic_kafka import KafkaMetadataService", path=lacking("pydantic", tmp_path))
    assert line == "ModuleNotFoundError: No module named 'pydantic'"


def test_workers_that_lack_the_package_are_refused(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(bare)}
    with pytest.raises(SparkStartError) as raised:
        check_workers({}, environment)
    text = str(raised.value)
    assert f"PYSPARK_PYTHON={bare} cannot run" in text and "dynamic-kafka[spark]: ModuleNotFoundError" in text
    assert f"or set PYSPARK_PYTHON={sys.executable}" in text
    check_workers({"spark.submit.pyFiles": "dynamic_kafka.zip"}, environment)


def test_workers_whose_python_does_not_exist_are_refused() -> None:
    with pytest.raises(SparkStartError, match=r"No such file.*'python-that-is-not-there'"):
        check_workers({}, {**os.environ, "PYSPARK_PYTHON": "python-that-is-not-there"})


def test_workers_with_the_package_are_fine(tmp_path: Path) -> None:
    same = tmp_path / "python"
    same.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    same.chmod(0o755)
    check_workers({}, {**os.environ, "PYSPARK_PYTHON": str(same)})
    check_workers({}, {"PYSPARK_PYTHON": sys.executable})
