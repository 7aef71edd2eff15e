"""Start and stop the application's Spark session: a classic one, never remote, with the source registered. Driver.

`app.run` calls `start_session` once, before the queries. It refuses an environment that cannot work, gathers the
settings, launches a JVM unless spark-submit has, and checks the session that it got. With a live table on the terminal,
it also passes the JVM's output on line by line, so that the lines come above the table (`relayed`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.failures import reason_in, text_of
from dynamic_kafka.app.query.sinks import evaluators_of
from dynamic_kafka.errors import DynamicKafkaError, OptionError
from dynamic_kafka.installed import explained
from dynamic_kafka.state.file_systems import has_scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CONNECT = "Spark Connect is not supported: run on the driver, with `python -m dynamic_kafka.app run`, without"

_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
"""Environment variable that is set when a JVM, that of spark-submit, has launched this process."""
EMPTY_CHECK = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
"""Spark's setting of the check that a query without a batch has an empty checkpoint."""
_STOP_NOISE = "WARN DAGScheduler: Failed to cancel job group"
"""Spark's warning at each stop of a query that is idle."""
WORKER_CHECK_S = 60.0
_WORKER_CHECK = f"""
import sys
driver, worker = {tuple(sys.version_info[:2])}, sys.version_info[:2]
if worker != driver:
    sys.exit("it is Python %d.%d, and the driver's is %d.%d" % (*worker, *driver))
import dynamic_kafka.spark.source
"""
"""The program that a worker's Python has to run without an error. Spark refuses another version of Python, too."""


SPARK_STOP_S = 15.0
"""How long Spark may take to stop once its queries have ended."""

log = logging.getLogger(__name__)


class SparkStartError(DynamicKafkaError):
    """Failure to start Spark. Its exit code is 6, as for all other failures of Spark."""


def start_session(config: AppConfig, *, live: bool = False) -> SparkSession:
    """Return a new session with the application's settings, or spark-submit's session with these settings added.

    Args:
        live: whether a live table is drawn on the terminal; the JVM's output then comes above it.

    Raises:
        OptionError: the environment or the settings ask for Spark Connect, or a path needs its scheme.
        SparkStartError: there is no JVM, the workers' Python lacks this package, or Spark refuses its settings.
    """
    refuse_connect(config.file.spark, os.environ)
    # Unless the user chose a Python for the workers, they run the one that runs this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    try:
        from pyspark.sql import SparkSession

        from dynamic_kafka.spark.source import register_source
    except ImportError as error:
        raise SparkStartError(f"Spark could not be started: {explained(error)}") from None

    evaluators = evaluators_of(config)
    settings = spark_settings(config, os.environ)
    check_workers(settings, os.environ)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        _launch_apart(settings, live=live)
        spark = builder.getOrCreate()
    except Exception as error:  # Python's own, PySpark's or the JVM's: no common class
        reason, file = reason_in(text_of(error)).rstrip("."), config.source
        raise SparkStartError(
            f"Spark could not be started: {reason}. Check JAVA_HOME (JDK >= 17), the master and `spark` in {file}"
        ) from error
    refuse_remote(spark)
    hadoop: Any = spark.sparkContext._jsc
    refuse_other_disk(config, hadoop.hadoopConfiguration().get("fs.defaultFS") or "file:///")
    register_source(spark, evaluators)
    return spark


def stop_session(spark: SparkSession) -> bool:
    """Stop Spark and return whether it has stopped in time."""

    def end() -> None:
        try:
            spark.stop()
        except Exception as error:
            log.debug("the JVM had already ended: %s", type(error).__name__)

    thread = threading.Thread(target=end, name="stop-spark", daemon=True)
    thread.start()
    thread.join(SPARK_STOP_S)
    return not thread.is_alive()


def refuse_connect(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse settings of Spark and environment variables that ask for Spark Connect.

    Raises:
        OptionError: at least one does.
    """
    asking = [f"{key} in `spark`" for key in ("spark.remote", "spark.connect.server") if key in settings]
    asking += ["spark.api.mode=connect in `spark`"] if settings.get("spark.api.mode", "").lower() == "connect" else []
    asking += ["SPARK_REMOTE in the environment"] if environment.get("SPARK_REMOTE") else []
    asking += ["SPARK_CONNECT_MODE=1"] if environment.get("SPARK_CONNECT_MODE", "0") == "1" else []
    if asking:
        raise OptionError(f"{_NO_CONNECT} {', '.join(asking)}")


def spark_settings(config: AppConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the session: those of `app.yaml`, the name, and two that Spark has on, switched off.

    The progress bar has no line ends, so a JSON line after it could not be parsed. Under spark-submit it is too late to
    switch it off. The check for an empty checkpoint finds the torn file of a driver that was killed in a query's first
    plan. It would never let that query start again. Each sink has a checkpoint of its own without that check.
    """
    own = {} if _GATEWAY_PORT in environment else {"spark.ui.showConsoleProgress": "false"}
    return {EMPTY_CHECK: "false", **own, **config.file.spark, "spark.app.name": config.name}


def refuse_remote(spark: object) -> None:
    """Refuse a session of Spark Connect.

    Raises:
        OptionError: the session is remote.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise OptionError(f"{_NO_CONNECT} a remote session")


def check_workers(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Ask the Python that Spark's workers run whether it has this package, unless it is the one of this process.

    Spark plans batches in such a worker on this machine, so the answer holds for the driver at least. Packages that
    Spark itself brings to the workers (`spark.submit.pyFiles`) are not here yet; then nothing is asked.

    Raises:
        SparkStartError: it cannot import the package, is another version of Python, or does not start.
    """
    python = environment.get("PYSPARK_PYTHON", sys.executable)
    if python == sys.executable or "spark.submit.pyFiles" in settings:
        return
    from pyspark.find_spark_home import _find_spark_home as find_spark_home

    # Workers find PySpark in Spark's own archives.
    archives = map(str, Path(find_spark_home(), "python", "lib").glob("*.zip"))
    path = os.pathsep.join([*archives, *filter(None, [environment.get("PYTHONPATH")])])
    try:
        asked = subprocess.run(
            [python, "-c", _WORKER_CHECK],
            env={**environment, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=WORKER_CHECK_S,
            check=False,
        )
        failure = "" if asked.returncode == 0 else (asked.stderr.strip().splitlines() or ["no reason given"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure:
        raise SparkStartError(
            f"PYSPARK_PYTHON={python} cannot run dynamic-kafka[spark]: {failure}. Install it there, or set"
            f" PYSPARK_PYTHON={sys.executable}"
        )


def refuse_other_disk(config: AppConfig, default: str) -> None:
    """Refuse paths without a scheme if Spark's default file system is not the local one.

    Spark and the application would mean different places by such a path. The state location would be on this machine's
    disk, and the check for old checkpoints would not find the sink's log.

    Args:
        default: `fs.defaultFS`, Spark's file system for paths without a scheme.

    Raises:
        OptionError: a checkpoint or a file sink's path has no scheme.
    """
    if default.startswith("file:"):
        return
    files = {f"sinks[{index}].options.path": sink.folder for index, sink in enumerate(config.sinks)}
    for field, path in {"checkpoint": config.checkpoint, **files}.items():
        if path is not None and not has_scheme(path):
            raise OptionError(
                f"{config.source}: {field}: {path!r} has no scheme: Spark would look in {default}; write it"
                " with that scheme, or with file:"
            )


def _launch_apart(settings: Mapping[str, str], *, live: bool) -> None:
    """Launch the JVM in a process group of its own, unless spark-submit has launched it already.

    A signal to the whole group, as GNU `timeout` sends it, would otherwise end Spark and its workers in the running
    batch. The JVM still ends with this process, since it reads from a pipe that this process holds open.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if _GATEWAY_PORT in os.environ or SparkContext._gateway is not None:
        return
    # Some settings, such as the driver's memory, take effect only at the launch. Without a JVM, SparkConf is a mapping.
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    relay: contextlib.AbstractContextManager[dict[str, int]] = relayed() if live else contextlib.nullcontext({})
    with relay as streams:
        gateway = launch_gateway(conf, {"start_new_session": True, **streams})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


@contextlib.contextmanager
def relayed() -> Iterator[dict[str, int]]:
    """Pass a child process's output on through this process, line by line, so that it comes above a live table.

    The table would draw over lines that the child writes to the terminal itself. Standard output is passed on only if
    ours is a terminal. Lines are passed on for as long as the child, or a child of its own, keeps its end open. If the
    child cannot be started, its output is written before the error is raised.

    Yields:
        Arguments of `Popen` for the child, which is to be started within the context.
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
    """Close our ends of the pipes; the child has its own copies."""
    while ends:
        os.close(ends.popitem()[1])


def _copy(source: int, name: str) -> None:
    """Copy each line to `sys.stderr` or `sys.stdout`, looked up for each line since a live table replaces them."""
    with open(source, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if _STOP_NOISE in line:
                continue
            stream = getattr(sys, name)
            # Write the line and its end in one call, since other threads write to the stream as well.
            stream.write(line if line.endswith("\n") else line + "\n")
            stream.flush()
