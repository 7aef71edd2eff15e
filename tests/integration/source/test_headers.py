"""Headers that cannot be shown."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka
import pytest

from dynamic_kafka.errors import OptionError
from tests.support.fixtures import Brokers, Topic
from tests.support.source_run import reading
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = pytest.mark.usefixtures("each_reader")


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
    # RD_KAFKA_VTYPE_TOPIC, _VALUE, _HEADERS, _END
    value = ctypes.c_char_p(b"odd")
    error = lib.rd_kafka_producev(
        client, 1, topic.encode(), 4, value, ctypes.c_size_t(3), 10, headers, 7, ctypes.c_int(2), 0
    )
    assert error == 0
    assert lib.rd_kafka_flush(client, 20_000) == 0
    lib.rd_kafka_destroy(client)


@pytest.fixture
def latin1_topic(brokers: Brokers, topic: Topic, path: Path) -> str:
    """Create a topic of three records; the second one has a header with a key in Latin-1."""
    made = brokers.a.create_topic(topic("orders"))
    produce("east", brokers.a, made, 1)
    produce_header(brokers.a.bootstrap, made, b"caf\xe9")
    produce("east", brokers.a, made, 1)
    write_metadata(path, stream("orders", cluster("east", brokers.a, [made])))
    return made


def test_a_header_key_that_is_not_utf_8_fails_with_advice(latin1_topic: str, path: Path) -> None:
    with reading(path, includeHeaders="true") as run, pytest.raises(OptionError) as refused:
        run.batch()
    assert str(refused.value) == (
        f"cannot show the headers of the record at offset 1 of east/{latin1_topic}[0]: the key of one of them is not"
        " UTF-8. Read without headers: set includeHeaders=false"
    )


def test_without_headers_the_record_is_read(latin1_topic: str, path: Path) -> None:
    with reading(path) as run:
        run.until(lambda: run.rows().total() == 3, "three rows")
        assert run.next == {("east", latin1_topic): {0: 3}}
