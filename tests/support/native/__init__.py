"""The native reader in tests: whether it is built, its check under sanitizers, and a broker within this process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dynamic_kafka.executor import native, native_connection
from dynamic_kafka.executor.consumer_cache import CONSUMERS
from tests.support.places import ROOT

SANITIZERS = "-fsanitize=address,undefined"


def require() -> native.Extension:
    """Return the extension; skip the test where this installation has none."""
    found = native.load()
    if isinstance(found, str):
        pytest.skip(f"no native reader, which `make setup` builds: {found}")
    return found


@contextmanager
def reading_with(reader: str) -> Iterator[None]:
    """Let the option `reader` be `native` or `python` in this process where it is absent."""
    with pytest.MonkeyPatch.context() as patch:
        if reader == "python":
            patch.setattr(native_connection, "load", lambda: "a test reads in Python")
        else:
            require()
        CONSUMERS.close()
        yield
        CONSUMERS.close()


def checker(folder: Path) -> Path:
    """Build `check.c` with sanitizers; skip the test where the compiler has none."""
    program, sources = folder / "check", ROOT / "spark_app" / "dynamic_kafka" / "executor" / "native"
    warnings = ("-Wall", "-Wextra", "-Werror")
    command = ["gcc", "-std=gnu11", "-g", "-O1", *warnings, SANITIZERS, "-fno-sanitize-recover=all"]
    nothing = "int main(void) { return 0; }"
    try:
        subprocess.run([*command, "-x", "c", "-", "-o", program], input=nothing, text=True, check=True)
        subprocess.run([program], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no sanitizers: {error}")
    subprocess.run([*command, f"-I{sources}", Path(__file__).parent / "check.c", "-o", program], check=True)
    return program


@contextmanager
def broker_within() -> Iterator[tuple[Producer, str]]:
    """Yield a producer, and the address of librdkafka's simulated broker, which creates each topic that is used."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    yield producer, f"{broker.host}:{broker.port}"
