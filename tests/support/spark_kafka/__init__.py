"""Spark's own Kafka connector and the interpreter that runs it: the other side of comparisons. For tests.

The connector is built for the oldest Spark that is supported, so a comparison runs in `.venv-spark42`
(`make setup-spark42`), in a process of its own.
"""

from __future__ import annotations

import functools
from pathlib import Path

from tests.support.jars import jars
from tests.support.places import ROOT

SPARK_KAFKA_POM = Path(__file__).with_name("pom.xml")
SPARK42_PYTHON = ROOT / ".venv-spark42" / "bin" / "python"


@functools.cache
def connector_jars() -> tuple[Path, ...]:
    """The connector's jars, for `spark.jars`. Resolved by Maven the first time; raises `JarsUnavailableError`."""
    return tuple(sorted(jars(SPARK_KAFKA_POM).glob("*.jar")))
