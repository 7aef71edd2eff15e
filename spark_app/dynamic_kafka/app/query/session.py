"""The application's Spark session: classic, never remote, with the source registered. Driver."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.driver.state_store import has_scheme
from dynamic_kafka.errors import DynamicKafkaError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CONNECT = (
    "Spark Connect is not supported: the application commits offsets and stops cleanly through the driver's own JVM,"
    " which a remote session hides. Run it on the driver: `python -m dynamic_kafka.app run` or spark-submit, without"
)


_JVM_THERE = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose JVM has launched this process."""


class SparkStartError(DynamicKafkaError):
    """Spark did not start. Exit code 6, as for whatever else goes wrong in Spark."""


def start_session(config: AppConfig, *, live: bool = False) -> SparkSession:
    """A session with the application's settings, or the one that spark-submit has prepared, with them added.

    Args:
        config: of the application.
        live: a table is drawn on the terminal, and what the JVM writes is to come above it.

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

    from dynamic_kafka.spark.source import register

    settings = spark_settings(config, os.environ)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        _launch_apart(settings, live=live)
        spark = builder.getOrCreate()
    except Exception as error:  # Python's own, PySpark's or the JVM's: no common class
        raise SparkStartError(
            f"Spark could not be started: {_said(error)}. Spark needs a JDK >= 17, which JAVA_HOME names or"
            f" `java` on the PATH is, and settings it can use: `spark` in {config.source}, a master that exists"
        ) from error
    refuse_remote(spark)
    hadoop: Any = spark.sparkContext._jsc
    refuse_other_disk(config, hadoop.hadoopConfiguration().get("fs.defaultFS") or "file:///")
    register(spark)
    return spark


def refuse_other_disk(config: AppConfig, default: str) -> None:
    """Raises OptionError for a path without a scheme, where Spark takes it for one of a file system that is not local.

    What is kept beside the checkpoint would go to this machine's disk, and a sink's log, which tells that a checkpoint
    is too old for its files, would be looked for there in vain.

    Args:
        default: `fs.defaultFS`, the file system of paths without a scheme.
    """
    if default.startswith("file:"):
        return
    files = {f"sinks[{index}].options.path": sink.folder for index, sink in enumerate(config.sinks)}
    for field, path in {"checkpoint": config.checkpoint, **files}.items():
        if path is not None and not has_scheme(path):
            raise OptionError(
                f"{config.source}: {field}: {path!r} is in {default} to Spark (fs.defaultFS), and on this machine's"
                " disk to the application; write it with its scheme, file: or that one"
            )


def spark_settings(config: AppConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """What the session is made with. Where this process launches the JVM, without the bar that Spark draws into the
    log: it has no line ends, and a JSON line after it would be none."""
    own = {} if _JVM_THERE in environment else {"spark.ui.showConsoleProgress": "false"}
    return {**own, **config.file.spark, "spark.app.name": config.name}


def _launch_apart(settings: Mapping[str, str], *, live: bool) -> None:
    """Launch the JVM in a process group of its own, unless spark-submit has launched it already.

    What signals the whole group, as GNU `timeout` does, would end Spark and its workers under the running batch. The
    JVM ends with this process all the same: it reads our end of a pipe.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if _JVM_THERE in os.environ or SparkContext._gateway is not None:
        return
    # Without a JVM this is a mapping; some settings, as the driver's memory, count only when the JVM is launched.
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    relay: contextlib.AbstractContextManager[dict[str, int]] = relayed() if live else contextlib.nullcontext({})
    with relay as streams:
        gateway = launch_gateway(conf, {"start_new_session": True, **streams})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


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


@contextlib.contextmanager
def relayed() -> Iterator[dict[str, int]]:
    """Arguments of `Popen` for a child that is started within: its standard error, and its standard output where ours
    is a terminal, too. The lines come for as long as the child, or a child of its own, has its end open.

    If it cannot be started, what it has said about that is out before the error is.
    """
    names = ["stderr", "stdout"] if sys.stdout.isatty() else ["stderr"]
    ends, threads = {}, []
    for name in names:
        theirs, ends[name] = os.pipe()
        threads.append(threading.Thread(target=_copy, args=(theirs, name), name=f"relay-{name}", daemon=True))
        threads[-1].start()
    try:
        yield dict(ends)
    except BaseException:
        _close(ends)
        for thread in threads:
            thread.join(timeout=1.0)
        raise
    _close(ends)


def _close(ends: dict[str, int]) -> None:
    """Ours; the child has its own copies."""
    while ends:
        os.close(ends.popitem()[1])


def _copy(source: int, name: str) -> None:
    """Each line to what `sys.stderr` or `sys.stdout` is when it comes: a live table puts itself there."""
    with open(source, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            stream = getattr(sys, name)
            # In one piece, line end included: others write there as well.
            stream.write(line if line.endswith("\n") else line + "\n")
            stream.flush()
