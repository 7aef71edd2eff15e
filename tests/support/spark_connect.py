"""A Spark Connect server for tests: a session of its own in a process of its own, on loopback and a free port.

`python -m tests.support.spark_connect` runs it in the interpreter whose Spark is to serve, and prints the port in the
first line. The server ends when its standard input is closed, so it never outlives its test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.places import ROOT
from tests.support.spark import spark_folder, start_spark

START_S = 90
SETTINGS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


@contextmanager
def connect_server(python: Path | str) -> Iterator[str]:
    """Run a server and yield its URL; its workers find this project's packages."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    log = spark_folder() / "connect-server.log"
    with log.open("wb") as kept:
        server = subprocess.Popen(
            [str(python), "-m", "tests.support.spark_connect"],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": f"{ROOT / 'spark_app'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=kept,
            text=True,
        )
    assert server.stdin is not None and server.stdout is not None
    try:
        port = server.stdout.readline().strip()
        assert port.isdigit(), f"the Spark Connect server did not start:\n{log.read_text()[-4000:]}"
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stdin.close()
        try:
            server.wait(START_S)
        finally:
            server.kill()
            server.stdout.close()


def main() -> None:
    """Serve until standard input ends."""
    spark = start_spark("connect server", SETTINGS)
    jvm: Any = spark._jvm
    service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")  # as Spark's own client asks it
    print(getattr(service, "MODULE$").localPort(), flush=True)
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main()
