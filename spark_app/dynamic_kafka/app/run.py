"""The command `run app.yaml`: the application itself, from the file to the exit code. Driver.

The order matters. Mistakes that need no Spark to be found are refused before the JVM starts, and queries start only
when there is metadata.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics.at_work import InternalTopicsAtWork
from dynamic_kafka.app.outcome import Outcome
from dynamic_kafka.app.query.session import refuse_connect, start_session, stop_session
from dynamic_kafka.app.query.start_checks import check_start
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.app.telemetry.logs import set_up_logs
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.driver.report.drain_tracker import DrainTracker
from dynamic_kafka.driver.report.lag_prober import LagProber
from dynamic_kafka.driver.report.pod import own_pod
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.errors import MetadataError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from dynamic_kafka.app.config.schema import Metrics
    from dynamic_kafka.app.telemetry.metrics_receiver import ReadCounts
    from dynamic_kafka.metadata.discovery import MetadataDiscovery

HELP = "run the application that a file describes, until it ends, fails or is stopped"

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    parser.add_argument(
        "config", metavar="app.yaml", help="the application's file; docs/how-to/application.md describes it"
    )
    parser.add_argument(
        "--log-format",
        choices=("auto", "text", "json"),
        default="auto",
        help="auto: a live table on a terminal, JSON lines elsewhere",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the application and return the exit code. All failures are logged."""
    live = arguments.log_format == "auto" and sys.stderr.isatty()
    text = live or arguments.log_format == "text"
    set_up_logs("text" if text else "json", quiet_batches=live)
    stop = StopRequest()
    stop.on_signals()
    outcome = Outcome(ExitCode.QUERY, None)
    spark: SparkSession | None = None
    try:
        with contextlib.ExitStack() as resources:
            config = load_config(arguments.config)
            discovery = _prepare(config, resources)
            telemetry = Telemetry(config, discovery, resources)
            if not _wait_for_metadata(discovery, stop, config):
                outcome = Outcome(ExitCode.DONE, stop.reason)
                return outcome.code
            telemetry.internal.start()
            telemetry.start(live=live)
            spark = start_session(config, live=live)
            outcome = _supervise(spark, telemetry, stop)
            return outcome.code
    except BaseException as error:
        outcome = Outcome.of(error)
        if outcome.trace or not text:  # the last event of a text log shows the reason just so
            print(outcome.trace or outcome.reason, file=sys.stderr)
        return outcome.code
    finally:
        stopped = spark is None or stop_session(spark)
        outcome.report()
        stop.ended(outcome.code)
        if not stopped or outcome.code == ExitCode.GRACE_EXCEEDED:
            # Spark or a query hangs, and would keep the interpreter from ending as well.
            sys.stderr.flush()
            os._exit(outcome.code)


def _prepare(config: AppConfig, resources: contextlib.ExitStack) -> MetadataDiscovery:
    """Log and check everything that needs neither Spark nor metadata, and return the discovery, not yet started."""
    refuse_connect(config.file.spark, os.environ)
    fields = {
        "event": "application", "application": config.name, "sinks": [sink.name for sink in config.sinks],
        "checkpoint": config.checkpoint, "options": sorted(config.file.options),  # without their values
    }  # fmt: skip
    log.info("application %s", config.name, extra=fields)
    options = config.shared_options
    for warning in (*config.warnings, *options.warnings):
        log.warning("%s", warning)
    discovery = make_discovery(options)
    resources.callback(discovery.stop)
    return discovery


def _wait_for_metadata(discovery: MetadataDiscovery, stop: StopRequest, config: AppConfig) -> bool:
    """Return whether there is metadata now; False if the application was asked to stop meanwhile.

    Raises:
        MetadataError: there is none.
        MetadataError, TopicIntegrityError: as `check_start`.
    """
    # A lookup that hangs, or a revision that never comes, must not delay a stop. Metadata that was found stays usable.
    threading.Thread(target=_stop_on_request, args=(stop, discovery), name="stop-discovery", daemon=True).start()
    try:
        discovery.start(refuse_missing=False)
        check_start(config, discovery)
    except MetadataError:
        if not stop.asked:
            raise
    return not stop.asked


def _supervise(spark: SparkSession, telemetry: Telemetry, stop: StopRequest) -> Outcome:
    from dynamic_kafka.app.query.supervisor import Supervisor

    stop.on_signals()
    stop.on_jvm_shutdown(spark, telemetry.config.file.grace_period / 1000)
    with contextlib.ExitStack() as resources:
        read_reports = telemetry.receive(spark, resources)
        telemetry.report(spark, resources)
        config, discovery, internal = telemetry.config, telemetry.discovery, telemetry.internal
        supervisor = Supervisor(
            spark, config, discovery, telemetry.board, stop, read_reports=read_reports, internal=internal
        )
        code = supervisor.run()
        return Outcome.of_queries(code, supervisor.reason, telemetry.board.sinks().values())


class Telemetry:
    """The metrics, the live table, the reports to the operator and the internal topics, and the lag prober.

    The constructor opens the port of the metrics, so a port that is taken is reported before Spark starts.

    Args:
        discovery: the metadata; it need not be started yet.
        resources: closes everything at the end.
    """

    def __init__(self, config: AppConfig, discovery: MetadataDiscovery, resources: contextlib.ExitStack) -> None:
        self.config, self.discovery = config, discovery
        self.internal = InternalTopicsAtWork(config, lambda: discovery.current().subscription)
        resources.callback(self.internal.stop)
        self.board = StatusBoard([sink.name for sink in config.sinks])
        self._resources = resources
        self._drains = DrainTracker()
        self._prober = LagProber(config.shared_options, discovery, drains=self._drains)
        resources.callback(self._prober.stop)
        self._counts: ReadCounts | None = None
        if config.file.metrics is not None:
            from dynamic_kafka.app.telemetry.metrics_receiver import ReadCounts

            self._counts = ReadCounts(sink.name for sink in config.sinks)
            self._serve(config.file.metrics, self._counts)

    def _serve(self, metrics: Metrics, counts: ReadCounts) -> None:
        from dynamic_kafka.app.telemetry.metrics import AppCollector
        from dynamic_kafka.app.telemetry.metrics_server import serve_metrics

        collector = AppCollector(
            self.board,
            ends=self._prober.ends,
            discovery=self.discovery.status,
            reads=counts.of,
            clients=counts.clients,
            named=self._prober.named,
            unreachable=self._prober.unreachable,
            lost_topics=self.internal.lost,
            changelog_unwritten_s=self.internal.changelog_unwritten_s,
        )
        try:
            self._resources.callback(serve_metrics(collector, metrics.port, metrics.host))
        except OSError as error:
            where = f"{metrics.host}:{metrics.port}"
            raise OptionError(
                f"{self.config.source}: metrics: cannot listen on {where}: {error.strerror}; change `port` or `host`"
            ) from None

    def start(self, *, live: bool) -> None:
        """Start the lag prober where it is needed and, with `live`, the live table. There must be metadata."""
        if self._counts is not None or live:
            self._prober.start()
        if live:
            from dynamic_kafka.app.telemetry.live_table import show_progress

            self._resources.callback(show_progress(self.config.name, self.board, self._prober.ends))

    def report(self, spark: SparkSession, resources: contextlib.ExitStack) -> None:
        """Start reports to the operator if this is a pod. They are sent while the document is the operator's."""
        spark_name = spark.sparkContext.getConf().get("spark.kubernetes.driver.pod.name")
        pod = own_pod(os.environ, spark_name, socket.gethostname())
        if pod is None:
            log.debug("no service account is mounted, so this is no pod: no reports to the operator")
            return
        from dynamic_kafka.driver.report.report_content import abilities_of
        from dynamic_kafka.driver.report.reporter import CommittedProgress, Reporter

        options = {sink.name: self.config.parsed_options(sink) for sink in self.config.sinks}
        reporter = Reporter(
            pod,
            self.discovery,
            self.board,
            CommittedProgress(
                self.board, {name: sink_options.state_location for name, sink_options in options.items()}
            ),
            prober=self._prober,
            drains=self._drains,
            lost_topics=self.internal.lost,
            homes=self.internal.homes,
            abilities=abilities_of(min(option.metadata_discovery_interval_ms for option in options.values())),
        )
        reporter.start()
        resources.callback(reporter.stop)

    def receive(self, spark: SparkSession, resources: contextlib.ExitStack) -> Mapping[str, str]:
        """Start to receive read reports; return the value of the option `readReports` for each sink.

        Without metrics, executors report nothing, and the result is empty.
        """
        if self.config.file.metrics is None or self._counts is None:
            return {}
        from dynamic_kafka.app.telemetry.metrics_receiver import serve_read_reports

        # Listen on the address that Spark's executors already use to reach the driver.
        settings = spark.sparkContext.getConf()
        local = (spark.sparkContext.master or "").startswith("local")
        host = "127.0.0.1" if local else settings.get("spark.driver.host", "127.0.0.1")
        listen = host if local else settings.get("spark.driver.bindAddress", host)
        port = self.config.file.metrics.reports_port
        try:
            sinks = [sink.name for sink in self.config.sinks]
            addresses, stop = serve_read_reports(self._counts, sinks, host=host, listen=listen, port=port)
        except OSError as error:
            file, problem = self.config.source, error.strerror
            raise OptionError(
                f"{file}: metrics: reportsPort: cannot listen on {listen}:{port}: {problem}; set another port, or none"
            ) from None
        resources.callback(stop)
        return addresses


def _stop_on_request(stop: StopRequest, discovery: MetadataDiscovery) -> None:
    stop.wait()
    # Spark's start may take a minute, and ends before the request is followed.
    log.info("%s: will stop; if Spark is starting, as soon as it is up", stop.reason)
    discovery.stop()
