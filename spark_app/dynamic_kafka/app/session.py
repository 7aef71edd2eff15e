"""The application's Spark session: classic, never remote, with the source registered. Driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dynamic_kafka.app.config import AppConfig
from dynamic_kafka.errors import DynamicKafkaError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CONNECT = (
    "Spark Connect is not supported: the application commits offsets and stops cleanly through the driver's own JVM,"
    " which a remote session hides. Run it on the driver: `python -m dynamic_kafka.app run` or spark-submit, without"
)


class SparkStartError(DynamicKafkaError):
    """Spark did not start. Exit code 6, as for whatever else goes wrong in Spark."""


def start_session(config: AppConfig) -> SparkSession:
    """A session with the application's settings, or the one that spark-submit has prepared, with them added.

    Raises:
        OptionError: the environment or the settings ask for Spark Connect.
        SparkStartError: there is no JVM, or Spark refuses its settings.
    """
    refuse_connect(config.file.spark, os.environ)
    # Workers run the Python that runs this, unless somebody chose another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkStartError(f"Spark could not be started: {error}; install the package's extra `spark`") from None

    from dynamic_kafka.source import register

    builder = SparkSession.builder.appName(config.name)
    for key, value in config.file.spark.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # Python's own, PySpark's or the JVM's: no common class
        raise SparkStartError(
            f"Spark could not be started: {_said(error)}. Spark needs a JDK >= 17, which JAVA_HOME names or"
            f" `java` on the PATH is, and settings it can use: `spark` in {config.source}, a master that exists"
        ) from error
    refuse_remote(spark)
    register(spark)
    return spark


def refuse_connect(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raises OptionError if these ask for Spark Connect."""
    asked = [f"{key} in `spark`" for key in ("spark.remote", "spark.connect.server") if key in settings]
    asked += ["spark.api.mode=connect in `spark`"] if settings.get("spark.api.mode", "").lower() == "connect" else []
    asked += [f"{key} in the environment" for key in ("SPARK_REMOTE",) if environment.get(key)]
    asked += ["SPARK_CONNECT_MODE=1"] if environment.get("SPARK_CONNECT_MODE", "0") == "1" else []
    if asked:
        raise OptionError(f"{_NO_CONNECT} {', '.join(asked)}")


def refuse_remote(spark: object) -> None:
    """Raises OptionError if a session is a remote one."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise OptionError(f"{_NO_CONNECT} a remote session")


def _said(error: Exception) -> str:
    """What went wrong, in a line. The text of a Java exception has its own message in the second line."""
    lines = [line.strip() for line in str(error).splitlines()]
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next((line for line in [*java, *lines] if line), type(error).__name__).rstrip(".")
