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
"""Starting Spark is mostly loading and compiling classes on two cores: half of the compiling is saved, and a short life
never earns the rest."""

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
    """Write a configuration of log4j to `target` that has Spark log nearly all it knows, plans too, to `log`."""
    target.write_text(_LOUD.format(file=log))
    return target


def spark_folder() -> Path:
    """This process's own folder for Spark: warehouse, scratch files, `spark.log`."""
    folder = BUILD / "spark" / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def spark_environment() -> dict[str, str]:
    """For the JVM: its Python workers are to be this interpreter, and to find our packages."""
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
    """Settings of a local session that writes below `folder` only; `short_lived`: it starts quickly, at lower speed."""
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
    }


def class_archive() -> Path | None:
    """Where this interpreter's Spark has its class archive, or would have it; None without a JVM."""
    java = find_java()
    if java is None:
        return None
    return Path(sys.prefix) / f"spark-{version('pyspark')}-{java_fingerprint(java)}.jsa"


def _loaded_classes() -> list[str]:
    """A JVM with other jars, or in another order, leaves the archive alone; it is not to say so in a log of a test."""
    archive = class_archive()
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"] if archive is not None and archive.exists() else []


def start_spark(name: str, settings: Mapping[str, str] | None = None, *, short_lived: bool = True) -> SparkSession:
    """A local session; `settings` win over ours. There is one per process, whose master stays as it is."""
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    builder = SparkSession.builder.appName(name)
    ours = spark_settings(spark_folder(), short_lived=short_lived)
    for key, value in (ours | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
