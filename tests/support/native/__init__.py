"""The native reader in tests: whether it is built, its check under sanitizers, a broker here, and odd headers."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import confluent_kafka
import pytest
from confluent_kafka import Producer

from dynamic_kafka.executor import native
from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS
from tests.support.places import ROOT

SANITIZERS = "-fsanitize=address,undefined"


def readers() -> list[str]:
    """Return the readers to test, the default one first: both, or the one that `make test READER=python` leaves."""
    return ["python"] if os.environ.get(native.SWITCH) == "no" else ["native", "python"]


def require() -> native.Extension:
    """Return the extension; skip the test where this installation has none."""
    extension = native.load()
    if isinstance(extension, str):
        lacking(f"no native reader, which `make setup` builds: {extension}")
    return extension


def lacking(why: str) -> NoReturn:
    """Skip the test, or fail it in CI, whose machines have a compiler; but not where the reader is switched off."""
    if os.environ.get("CI") == "true" and "native" in readers():
        pytest.fail(why)
    pytest.skip(why)


@contextmanager
def reading_with(reader: str) -> Iterator[None]:
    """Let the option `reader` be `native` or `python` where it is absent, here and in processes that begin now."""
    with pytest.MonkeyPatch.context() as patch:
        if reader == "python":
            patch.setenv(native.SWITCH, "no")
        native.load.cache_clear()
        if reader == "native":
            require()
        CONSUMERS.close()
        try:
            yield
        finally:
            CONSUMERS.close()
            native.load.cache_clear()


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
        lacking(f"no sanitizers: {error}")
    subprocess.run([*command, f"-I{sources}", Path(__file__).parent / "check.c", "-o", program], check=True)
    return program


@contextmanager
def broker_within() -> Iterator[tuple[Producer, str]]:
    """Yield a producer, and the address of librdkafka's simulated broker, which creates each topic that is used."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    yield producer, f"{broker.host}:{broker.port}"


def produce_header(bootstrap: str, topic: str, key: bytes) -> None:
    """Produce a record with a header whose key is these bytes, as a client in another language may."""
    [library] = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
    lib = ctypes.CDLL(str(library))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new", "rd_kafka_topic_new"):
        getattr(lib, name).restype = ctypes.c_void_p
    conf = ctypes.c_void_p(lib.rd_kafka_conf_new())
    text = ctypes.create_string_buffer(512)
    lib.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), text, 512)
    client = ctypes.c_void_p(lib.rd_kafka_new(0, conf, text, 512))
    headers = ctypes.c_void_p(lib.rd_kafka_headers_new(1))
    lib.rd_kafka_header_add(headers, key, len(key), b"x", 1)
    # RD_KAFKA_VTYPE_TOPIC, _PARTITION, _VALUE, _HEADERS, _END
    value = ctypes.c_char_p(b"odd")
    error = lib.rd_kafka_producev(
        client, 1, topic.encode(), 3, 0, 4, value, ctypes.c_size_t(3), 10, headers, 7, ctypes.c_int(2), 0
    )
    assert error == 0
    assert lib.rd_kafka_flush(client, 20_000) == 0
    lib.rd_kafka_destroy(client)
