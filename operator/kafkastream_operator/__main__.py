"""Run the operator: `python -m kafkastream_operator`. `--help` and docs/reference/operator.md list the flags."""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

import kopf

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.command_line import parse_flags
from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.rollout.budget import Limits
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.errors import LoginError
from kafkastream_operator.handlers.health import LIVENESS_EXAMPLE, Health, answer_probes
from kafkastream_operator.handlers.http_server import READY_PATH, parse_address
from kafkastream_operator.handlers.login import login_with
from kafkastream_operator.handlers.logs import FORMATS, LEVELS, start_logging
from kafkastream_operator.handlers.metrics import METRICS_EXAMPLE, serve_metrics
from kafkastream_operator.handlers.restarts import MAX_RESTARTS
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import Api
from kafkastream_operator.kube.lease import Lease

LEASE_LOST = 3
"""The exit code of an operator that has lost its lease."""


def _duration(text: str) -> timedelta:
    try:
        return timedelta(milliseconds=parse_duration_ms(text, where="it"))
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _second_or_more(text: str) -> timedelta:
    duration = _duration(text)
    if duration < timedelta(seconds=1):
        raise argparse.ArgumentTypeError(f"{text!r} is too short; write 1s or more")
    return duration


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; write 1 or more")
    return int(text)


def _namespace(text: str) -> str:
    if len(text) > 63 or re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a namespace; write the flag once for each")
    return text


def _lease_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a Lease; write NAMESPACE/NAME")
    return namespace, name


def _address(example: str) -> Callable[[str], str]:
    def checked(url: str) -> str:
        try:
            parse_address(url, example)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return url

    return checked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafkastream_operator", description="Run the operator of KafkaStreams and KafkaStreamSubscriptions."
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="log in to the API server by this file (default: as the pod in which the operator runs)",
    )
    parser.add_argument(
        "--namespace",
        type=_namespace,
        metavar="NAME",
        action="append",
        default=[],
        help="serve this namespace; may be repeated (default: all namespaces)",
    )
    parser.add_argument(
        "--workers",
        type=_count,
        metavar="N",
        default=4,
        help="how many objects are reconciled at the same time (%(default)s)",
    )
    parser.add_argument(
        "--lease",
        type=_lease_name,
        metavar="NAMESPACE/NAME",
        help="serve only while holding this Lease (default: serve without one)",
    )
    parser.add_argument(
        "--lease-duration",
        type=_second_or_more,
        metavar="DURATION",
        default="10s",
        help="how long after its last renewal another operator may take the Lease (%(default)s)",
    )
    parser.add_argument(
        "--liveness",
        type=_address(LIVENESS_EXAMPLE),
        metavar="URL",
        help=f"answer liveness probes at this URL, such as {LIVENESS_EXAMPLE}, and readiness probes at"
        f" {READY_PATH} on the same port (default: answer no probes)",
    )
    parser.add_argument(
        "--metrics",
        type=_address(METRICS_EXAMPLE),
        metavar="URL",
        help=f"serve metrics for Prometheus at this URL, such as {METRICS_EXAMPLE} (default: serve none)",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="log lines of text, or one JSON object a line (%(default)s)",
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="log this level and the higher ones; debug adds each call of the API server (%(default)s)",
    )
    parser.add_argument(
        "--max-restarts",
        type=_count,
        metavar="N",
        default=MAX_RESTARTS.in_all,
        help="how many restarts of applications may be in flight in all (%(default)s)",
    )
    parser.add_argument(
        "--max-restarts-per-namespace",
        type=_count,
        metavar="N",
        default=MAX_RESTARTS.per_namespace,
        help="how many of them in one namespace (%(default)s)",
    )
    for name, read, doc in (
        ("confirm", _second_or_more, "how long a restart may take until its patch counts as lost"),
        ("confirm-live", _second_or_more, "how long a driver may take to confirm a live change"),
        ("between-restarts", _duration, "the least time between two restarts of one application"),
        ("gather", _duration, "how long a restart waits for further changes, so that one restart brings all of them"),
    ):
        default = getattr(Timing(), name.replace("-", "_")).total_seconds()
        parser.add_argument(
            f"--{name}", type=read, metavar="DURATION", default=f"{default:.0f}s", help=f"{doc} (%(default)s)"
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until the process is stopped, and return the exit code."""
    parser = _parser()
    given = parse_flags(parser, sys.argv[1:] if arguments is None else arguments)
    start_logging(given.log_format, given.log_level)
    timing = Timing(given.confirm, given.confirm_live, given.between_restarts, given.gather)
    health = Health()
    try:
        api = Api.connect(given.kubeconfig)
    except LoginError as error:
        login = f"--kubeconfig {given.kubeconfig}" if given.kubeconfig else "no --kubeconfig, not in a pod"
        parser.error(f"{login}: {error}")
    limits = Limits(given.max_restarts, given.max_restarts_per_namespace)
    operator = Operator(api, given.namespace, given.workers, timing, health, max_restarts=limits)
    flag, url = "--liveness", given.liveness
    try:
        if url:
            answer_probes(health, url)
        flag, url = "--metrics", given.metrics
        if url:
            serve_metrics(operator, url)
    except OSError as error:
        parser.error(f"{flag}: {url}: {error}")
    lease = _lease(api, given.lease, given.lease_duration.total_seconds()) if given.lease else None
    if lease is not None:
        lease.acquire()
        api.may_write = lease.is_held
    health.enter("starting")
    registry = kopf.OperatorRegistry()
    login_with(registry, given.kubeconfig)
    operator.register(registry)
    # Else kopf looks up the user's name, and the user of a pod has none.
    os.environ.setdefault("POD_ID", socket.gethostname())
    kopf.run(registry=registry, standalone=True, namespaces=given.namespace, clusterwide=not given.namespace)
    if lease is not None:
        lease.release()
    return 0


def _lease(api: Api, where: tuple[str, str], duration_s: float) -> Lease:
    namespace, name = where
    identity = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    # Exit at once, in the middle of any work: another operator may start to write now.
    return Lease(api, namespace, name, identity=identity, duration_s=duration_s, on_loss=lambda: os._exit(LEASE_LOST))


if __name__ == "__main__":
    sys.exit(main())
