"""Spark sessions for tests: small, quiet, on loopback, with all they write below `build/spark`.

Runs in the driver. Other than through `start_spark`, a test that runs a driver of its own (to kill it) takes
the settings and the environment from here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.java import find_java, java_fingerprint
from tests.support.places import BUILD, ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A start of Spark mostly loads and compiles classes. A short session never regains the cost of the second compiler."""

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark compiles Java for each new query. For a few rows, the interpreter is faster."""

_LOGGING = """\
<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="{file}"><PatternLayout pattern="%d %p [%t] %c{{1}} %m%n"/></File>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""

_LOUD = """\
<Configuration status="ERROR">
  <Appenders><File name="file" fileName="{file}"><PatternLayout pattern="%d %p %c %m%n%throwable"/></File></Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="file"/></Root>
    <Logger name="org.apache.spark.sql.execution" level="DEBUG"/>
  </Loggers>
</Configuration>
"""


def loud_logging(target: Path, log: Path) -> Path:
    """Write a log4j configuration to `target` with which Spark logs nearly everything to `log`, plans included."""
    target.write_text(_LOUD.format(file=log))
    return target


def spark_folder() -> Path:
    """Return this process's own folder for Spark: warehouse, scratch files, `spark.log`."""
    folder = BUILD / "spark" / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def spark_environment() -> dict[str, str]:
    """Return the JVM's environment: its Python workers run this interpreter and find our packages."""
    paths = [str(ROOT / "spark_app"), str(ROOT / "examples"), str(ROOT)]
    if inherited := os.environ.get("PYTHONPATH"):
        paths += [path for path in inherited.split(os.pathsep) if path not in paths]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def spark_settings(folder: Path, cores: int = 2, *, short_lived: bool = True) -> dict[str, str]:
    """Return settings of a session that writes below `folder` only; a `short_lived` one starts faster, runs slower."""
    logging = folder / "log4j2.xml"
    logging.write_text(_LOGGING.format(file=folder / "spark.log"))
    java = [f"-Dlog4j2.configurationFile={logging}", f"-Djava.io.tmpdir={folder}", "-XX:-UsePerfData"]
    java += [*_QUICK_START, *_loaded_classes()] if short_lived else []
    return {
        "spark.master": f"local[{cores}]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join(java),
        **(_INTERPRETED if short_lived else {}),
    }


def class_archive() -> Path | None:
    """Return the path of the class archive of this interpreter's Spark; None without a JVM."""
    java = find_java()
    if java is None:
        return None
    return Path(sys.prefix) / f"spark-{version('pyspark')}-{java_fingerprint(java)}.jsa"


def _loaded_classes() -> list[str]:
    """Return the JVM's options for the class archive; a JVM with other jars ignores it, without a line in the log."""
    archive = class_archive()
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"] if archive is not None and archive.exists() else []


def start_spark(name: str, settings: Mapping[str, str] | None = None, *, short_lived: bool = True) -> SparkSession:
    """Return the local session of this process; `settings` override ours. Its master never changes."""
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    builder = SparkSession.builder.appName(name)
    ours = spark_settings(spark_folder(), short_lived=short_lived)
    for key, value in (ours | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
