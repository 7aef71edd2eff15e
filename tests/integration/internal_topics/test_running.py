"""The application with internal topics: its start, a loss while it runs, and its changelog."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics import init
from dynamic_kafka.app.internal_topics.changelog import ChangelogRecord, read_changelog
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.state.checkpoints import Checkpoint
from tests.integration.app.driving import AppRun, RunApp, write_app
from tests.integration.app.test_run import scrape
from tests.integration.internal_topics.conftest import CHANGELOG, DEAD, REPARTITION, Shop
from tests.support.kafka import KafkaCluster
from tests.support.ports import reserve_ports
from tests.support.streams import assert_rows, produce

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(900)]
ALL = {CHANGELOG, REPARTITION, DEAD}


def application(shop: Shop, **fields: Any) -> Path:
    """An application with a Parquet sink, whose changelog gets the offset documents."""
    setup = fields.pop("setup", "automatic")
    internal = {
        "bootstrapServers": shop.home.bootstrap,
        "topics": shop.declared,
        "offsetChangelog": shop.names[CHANGELOG],
    }
    options = {"startingOffsets": "earliest", "metadataDiscoveryInterval": "1s", "internal.topics.setup": setup}
    return write_app(shop.folder, internalTopics=internal, options=options, **fields)


def newest_record(app: Path) -> ChangelogRecord | None:
    """The last record of the changelog."""
    config = load_config(app)
    declared = config.file.internal_topics
    assert declared is not None and declared.offset_changelog is not None
    home = find_home(config, declared, lambda: pytest.fail("no metadata is needed"))
    return next(reversed(list(read_changelog(home, declared.offset_changelog, deadline_s=60))), None)


@pytest.mark.deep("losses and kills while it runs")
def test_automatic_makes_a_lost_topic_at_the_next_start(shop: Shop, run_app: RunApp) -> None:
    (port,) = reserve_ports(1)
    app = application(shop, metrics={"port": port, "host": "127.0.0.1"})
    lost = f'dynamic_kafka_internal_topic_lost{{topic="{shop.names[CHANGELOG]}"}}'
    wanted = produce("east", shop.east, shop.orders, 20)
    with run_app(app) as run:
        run.wait_rows(wanted)
        assert shop.there() == ALL
        assert sorted(run.events("internal-topics")[0]["made"]) == sorted(shop.names.values())
        run.wait_until(lambda: newest_record(app) is not None, "a record of the changelog")
        assert f"{lost} 0.0" in scrape(port)

        shop.east.delete_topic(shop.names[CHANGELOG])
        run.wait_until(lambda: f"{lost} 1.0" in scrape(port), "the metric of the loss")
        event = run.events("internal-topics")[-1]
        assert (event["level"], event["deleted"]) == ("WARNING", [shop.names[CHANGELOG]])
        wanted += produce("east", shop.east, shop.orders, 20)
        run.wait_rows(wanted)
        run.wait_until(lambda: "the offset changelog" in run.text(), "the warning about the changelog")
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
    assert shop.there() == ALL - {CHANGELOG}

    with run_app(app) as run:
        run.wait_until(lambda: newest_record_or_none(app, shop) is not None, "a record of the new changelog")
        event = run.events("internal-topics")[0]
        assert (event["level"], event["made"], event["deleted"]) == (
            "WARNING",
            [shop.names[CHANGELOG]],
            [shop.names[CHANGELOG]],
        )
        assert f"{lost} 1.0" in scrape(port)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
    record = newest_record(app)
    assert record is not None
    checkpoint = Checkpoint(str(shop.folder / "checkpoints" / "lake"))
    assert [record.document] == checkpoint.documents(checkpoint.committed)
    assert (record.application, record.sink) == ("test", "lake")


def newest_record_or_none(app: Path, shop: Shop) -> ChangelogRecord | None:
    return newest_record(app) if CHANGELOG in shop.there() else None


@pytest.mark.deep("losses and kills while it runs")
def test_a_record_missed_by_a_kill_is_written_at_the_start(shop: Shop, home: KafkaCluster) -> None:
    # Given a driver whose changelog is on a cluster that hangs, and a batch that Spark has committed meanwhile
    app = application(shop)
    checkpoint = Checkpoint(str(shop.folder / "checkpoints" / "lake"))
    wanted = produce("east", shop.east, shop.orders, 20)
    with AppRun(app) as run:
        run.wait_rows(wanted)
        run.wait_until(lambda: newest_record(app) is not None, "a record of the changelog")
        before = newest_record(app)
        assert before is not None
        home.pause()
        wanted += produce("east", shop.east, shop.orders, 20)
        run.wait_rows(wanted)
        run.wait_until(
            lambda: checkpoint.documents(checkpoint.committed)[0].number > before.document.number,
            "Spark's commit of the batch",
        )

        # When the driver is killed
        os.killpg(run.process.pid, signal.SIGKILL)
        assert run.process.wait() == -signal.SIGKILL
    killed_ms = time.time_ns() // 1_000_000
    home.resume()
    home.wait_ready()

    # Then the next one writes the checkpoint's document, and delivers nothing again
    def is_new(record: ChangelogRecord | None) -> bool:
        # The brokers may have the killed driver's request too, which had not been answered.
        return record is not None and record.written_ms > killed_ms

    with AppRun(app) as run:
        run.wait_until(lambda: is_new(newest_record(app)), "the record of the next driver")
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
    record = newest_record(app)
    assert record is not None
    assert [record.document] == checkpoint.documents(checkpoint.committed)
    assert record.document.number > before.document.number


def test_manual_starts_only_with_all_and_ends_when_one_is_lost(shop: Shop, run_app: RunApp) -> None:
    app = application(shop, setup="manual")
    with run_app(app) as run:
        assert run.wait_exit() == 11, run.last_lines()
        assert "MissingInternalTopicError" in run.text()
        assert "dynamic_kafka.app init app.yaml" in run.text()
        assert run.events("started") == []
    assert shop.there() == set()

    init(app)
    wanted = produce("east", shop.east, shop.orders, 20)
    with run_app(app) as run:
        run.wait_rows(wanted)
        shop.east.delete_topic(shop.names[REPARTITION])
        assert run.wait_exit() == 11, run.last_lines()
        assert shop.names[REPARTITION] in run.events("ended")[-1]["reason"]
        assert_rows(run.rows(), wanted)
    assert shop.there() == ALL - {REPARTITION}

    shop.make(REPARTITION, 3, retention_ms="-1", segment_ms="600000")
    with run_app(app) as run:
        assert run.wait_exit() == 11, run.last_lines()
        assert "re-created since their set-up" in run.text()


def test_unreachable_and_misconfigured_have_their_own_codes(shop: Shop, run_app: RunApp) -> None:
    app = application(shop)
    (port,) = reserve_ports(1)
    app.write_text(app.read_text().replace("bootstrapServers: ", f"bootstrapServers: 127.0.0.1:{port} # ", 1))
    text = app.read_text().replace("internalTopics:\n", "internalTopics:\n  timeout: 2s\n", 1)
    app.write_text(text)
    with run_app(app) as run:
        assert run.wait_exit() == 5, run.last_lines()
    app = application(shop)
    shop.make(CHANGELOG, 2, cleanup_policy="compact")
    with run_app(app) as run:
        assert run.wait_exit() == 12, run.last_lines()
        assert "it has 2 partitions, declared are 1" in run.events("ended")[-1]["reason"]
