"""Offset documents of more than the brokers' usual limit of 1 MiB in the changelog of a real cluster."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics import init
from dynamic_kafka.app.internal_topics.changelog import ChangelogRecord, ChangelogWriter, read_changelog
from dynamic_kafka.app.internal_topics.home import Home, find_home
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from tests.integration.internal_topics.conftest import CHANGELOG, Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300), pytest.mark.deep("documents of more than a MiB")]
LIMIT = 1_048_588
"""Kafka's default of `max.message.bytes`."""


def document(query: str, topics: int) -> OffsetDocument:
    """Return a document whose names and offsets nearly no compression makes smaller, as topic ids are."""
    draw = random.Random(7)
    progress = {
        f"{draw.getrandbits(800):x}": {
            "id": f"{draw.getrandbits(128):x}",
            "stream": "s",
            "next": [draw.getrandbits(40)],
        }
        for _ in range(topics)
    }
    clusters = {"east": {"kafkaId": "K1", "topics": progress}}
    return decode({"version": 3, "query": query, "number": 1, "previous": "p", "clusters": clusters})


@pytest.fixture
def home(shop: Shop) -> Home:
    """The home cluster of an application with a changelog."""
    config = load_config(shop.write(bootstrapServers=shop.east.bootstrap, offsetChangelog=shop.names[CHANGELOG]))
    assert config.file.internal_topics is not None
    return find_home(config, config.file.internal_topics, lambda: pytest.fail("no metadata is needed"))


@pytest.fixture
def writer(shop: Shop, home: Home) -> Iterator[ChangelogWriter]:
    """A writer to the changelog."""
    made = ChangelogWriter(home, shop.names[CHANGELOG], "shop")
    yield made
    made.close()


def records(shop: Shop, home: Home) -> list[ChangelogRecord]:
    return list(read_changelog(home, shop.names[CHANGELOG], deadline_s=60))


def test_init_makes_a_changelog_that_takes_a_large_document(shop: Shop, home: Home, writer: ChangelogWriter) -> None:
    init(shop.app, check_sources=False)
    large = document("q1", 20_000)
    assert len(str(encode(large))) > 4 * LIMIT
    writer.put("lake", large)
    wait_until(lambda: records(shop, home), "the record", timeout_s=60)
    assert [record.document for record in records(shop, home)] == [large]


def test_compression_fits_a_document_into_an_older_changelog(shop: Shop, home: Home, writer: ChangelogWriter) -> None:
    shop.make(CHANGELOG, 1, cleanup_policy="compact")
    large = document("q1", 7_000)
    assert len(str(encode(large))) > 1.5 * LIMIT
    writer.put("lake", large)
    wait_until(lambda: records(shop, home), "the record", timeout_s=60)
    assert [record.document for record in records(shop, home)] == [large]


def test_a_document_that_is_too_large_holds_up_no_other(
    shop: Shop, home: Home, writer: ChangelogWriter, caplog: pytest.LogCaptureFixture
) -> None:
    shop.make(CHANGELOG, 1, cleanup_policy="compact", max_message_bytes="20000")
    small, large = document("q1", 10), document("q2", 1000)
    writer.put("lake", large, small)
    wait_until(lambda: records(shop, home), "the record", timeout_s=60)
    assert [record.document for record in records(shop, home)] == [small]
    assert "sink lake are not in the changelog" in caplog.text
    assert "raise the topic's `max.message.bytes`" in caplog.text
