"""`python -m kafkastream_operator`: run the operator.

python -m kafkastream_operator [--kubeconfig FILE] [--namespace NAME]... [--workers N] [--liveness URL]
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

import kopf

from kafkastream_operator.handlers.login import login_with
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import Api


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until it is stopped. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="kafkastream_operator", description="Serve KafkaStreams and subscriptions.")
    parser.add_argument("--kubeconfig", help="log in by this file; absent: as the pod that this runs in")
    parser.add_argument("--namespace", action="append", default=[], help="serve this namespace; absent: all")
    parser.add_argument("--workers", type=int, default=4, help="how many objects are looked at at a time")
    parser.add_argument("--liveness", help="where to answer liveness probes, as http://0.0.0.0:8080/healthz")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    operator = Operator(Api.connect(given.kubeconfig), given.namespace, given.workers)
    registry = kopf.OperatorRegistry()
    login_with(registry, given.kubeconfig)
    operator.register(registry)
    kopf.run(
        registry=registry,
        standalone=True,
        namespaces=given.namespace,
        clusterwide=not given.namespace,
        liveness_endpoint=given.liveness,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
