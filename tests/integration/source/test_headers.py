"""Headers that cannot be shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.errors import OptionError
from tests.support.fixtures import Brokers, Topic
from tests.support.native import produce_header
from tests.support.source_run import reading
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = pytest.mark.both_readers


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
    message = str(refused.value)
    assert f"header key at offset 1 of east/{latin1_topic}[0]" in message
    assert "not UTF-8" in message and "(includeHeaders, 'columns')" in message


def test_without_headers_the_record_is_read(latin1_topic: str, path: Path) -> None:
    with reading(path) as run:
        run.until(lambda: run.rows().total() == 3, "three rows")
        assert run.next == {("east", latin1_topic): {0: 3}}
