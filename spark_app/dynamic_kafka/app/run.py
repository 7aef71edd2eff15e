"""`run app.yaml`: the application itself, from the file to the exit code. Driver.

The order matters: what can be refused without Spark is refused before the JVM is started, and metadata is there before
any query is.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

from dynamic_kafka.app.config import AppConfig, describe, load_config
from dynamic_kafka.app.exit_codes import ExitCode, code_of
from dynamic_kafka.app.logs import set_up_logs
from dynamic_kafka.app.session import refuse_connect, start_session
from dynamic_kafka.app.sink_status import StatusBoard
from dynamic_kafka.app.stop_request import StopRequest
from dynamic_kafka.errors import DynamicKafkaError, MetadataError, OptionError
from dynamic_kafka.services import make_discovery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from dynamic_kafka.app.reads import ReadCounts
    from dynamic_kafka.metadata.discovery import MetadataDiscovery

HELP = "run the application that a file describes, until it ends, fails or is stopped"
SPARK_STOP_S = 15.0
"""How long Spark itself may take to end after its queries have."""

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `run`."""
    parser.add_argument("config", metavar="app.yaml", help="what to run; docs/application.md describes it")
    parser.add_argument(
        "--log-format",
        choices=("auto", "text", "json"),
        default="auto",
        help="auto: a live table on a terminal, JSON lines elsewhere",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run it. Returns the exit code; raises what is wrong before Spark is started."""
    live = arguments.log_format == "auto" and sys.stderr.isatty()
    set_up_logs("text" if live or arguments.log_format == "text" else "json", quiet_batches=live)
    stop = StopRequest()
    stop.on_signals()
    config = load_config(arguments.config)
    refuse_connect(config.file.spark, os.environ)
    log.info("application %s", config.name, extra={"event": "application", **describe(config)})
    options = config.parsed_options(config.sinks[0])
    for warning in options.warnings:
        log.warning("%s", warning)
    discovery = make_discovery(options)
    # A look-up that hangs, or a revision that does not come, must not hold up stopping. What is known stays known.
    threading.Thread(target=_stop_discovery, args=(stop, discovery), name="stop-discovery", daemon=True).start()
    try:
        discovery.start()
    except MetadataError:
        if not stop.asked:
            raise
    try:
        if stop.asked:
            return ExitCode.DONE
        spark = start_session(config)
        code = ExitCode.QUERY
        try:
            code = _supervise(spark, config, discovery, stop, live=live)
        except DynamicKafkaError as error:
            code = code_of(error)
            raise
        finally:
            stopped = _stop_spark(spark)
            log.info("ended with exit code %d", code, extra={"event": "ended", "code": int(code)})
            stop.ended(code)
            if not stopped or code == ExitCode.GRACE_EXCEEDED:
                # What hangs in there would hold up the interpreter's end as well.
                sys.stderr.flush()
                os._exit(code)
        return code
    finally:
        discovery.stop()


def _supervise(
    spark: SparkSession, config: AppConfig, discovery: MetadataDiscovery, stop: StopRequest, *, live: bool
) -> ExitCode:
    from dynamic_kafka.app.supervisor import Supervisor

    stop.on_signals()
    stop.on_jvm_shutdown(spark, config.file.grace_period / 1000)
    board = StatusBoard([sink.name for sink in config.sinks])
    with contextlib.ExitStack() as reports:
        read_reports = _report(reports, spark, config, discovery, board, live=live)
        return Supervisor(spark, config, discovery, board, stop, read_reports=read_reports).run()


def _report(
    reports: contextlib.ExitStack,
    spark: SparkSession,
    config: AppConfig,
    discovery: MetadataDiscovery,
    board: StatusBoard,
    *,
    live: bool,
) -> Mapping[str, str]:
    """Start what was asked for of metrics and live progress, and the prober that both need. Returns, for each sink,
    where executors report what they have read."""
    if config.file.metrics is None and not live:
        return {}
    from dynamic_kafka.app.lag import LagProber

    prober = LagProber(config.parsed_options(config.sinks[0]), discovery)
    prober.start()
    reports.callback(prober.stop)
    read_reports: Mapping[str, str] = {}
    if config.file.metrics is not None:
        from dynamic_kafka.app.metrics import AppCollector, serve_metrics
        from dynamic_kafka.app.reads import ReadCounts

        metrics = config.file.metrics
        counts = ReadCounts(sink.name for sink in config.sinks)
        read_reports = _receive_reports(reports, spark, config, counts, metrics.reports_port)
        collector = AppCollector(
            board,
            ends=prober.ends,
            discovery=discovery.status,
            reads=counts.of,
            named=prober.named,
            unreachable=prober.unreachable,
        )
        try:
            reports.callback(serve_metrics(collector, metrics.port, metrics.host))
        except OSError as error:
            where = f"{metrics.host}:{metrics.port}"
            raise OptionError(f"{config.source}: metrics: {where} cannot be listened on: {error.strerror}") from None
    if live:
        from dynamic_kafka.app.display import show_progress

        reports.callback(show_progress(config.name, board, prober.ends))
    return read_reports


def _receive_reports(
    reports: contextlib.ExitStack, spark: SparkSession, config: AppConfig, counts: ReadCounts, port: int
) -> Mapping[str, str]:
    """Listen where executors reach the driver anyway: on the address that Spark itself uses for that."""
    from dynamic_kafka.app.reads import serve_reports

    settings = spark.sparkContext.getConf()
    local = (spark.sparkContext.master or "").startswith("local")
    host = "127.0.0.1" if local else settings.get("spark.driver.host", "127.0.0.1")
    listen = host if local else settings.get("spark.driver.bindAddress", host)
    try:
        addresses, stop = serve_reports(
            counts, [sink.name for sink in config.sinks], host=host, listen=listen, port=port
        )
    except OSError as error:
        where = f"{listen}:{port}"
        raise OptionError(
            f"{config.source}: metrics: reportsPort: {where} cannot be listened on: {error.strerror}"
        ) from None
    reports.callback(stop)
    return addresses


def _stop_discovery(stop: StopRequest, discovery: MetadataDiscovery) -> None:
    stop.wait()
    discovery.stop()


def _stop_spark(spark: SparkSession) -> bool:
    def end() -> None:
        try:
            spark.stop()
        except Exception as error:
            log.debug("the JVM has ended before: %s", type(error).__name__)

    thread = threading.Thread(target=end, name="stop-spark", daemon=True)
    thread.start()
    thread.join(SPARK_STOP_S)
    return not thread.is_alive()
