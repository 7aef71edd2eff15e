"""Spark's own Kafka connector, for comparisons and Kafka sinks, and the interpreter of the comparisons. For tests.

The connector is built for the oldest Spark that is supported, so a comparison runs in `.venv-spark42`
(`make setup-spark42`), in a process of its own. As a sink it works with the newer Spark as well.
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
    """Return the connector's jars, for `spark.jars`; Maven resolves them the first time.

    Raises:
        JarsUnavailableError: Maven is missing, or failed.
    """
    return tuple(sorted(jars(SPARK_KAFKA_POM).glob("*.jar")))
