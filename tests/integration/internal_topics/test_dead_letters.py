"""The application with dead letters: rows and letters, a topic that is lost while it runs, and its next start."""

from __future__ import annotations

import pytest

from tests.integration.app.driving import RunApp, write_app
from tests.integration.app.test_run import scrape
from tests.integration.app_tools.story import Tools
from tests.integration.internal_topics.conftest import CHANGELOG, DEAD, Shop
from tests.support.kafka.dead_letters import Letter, dead_letters
from tests.support.ports import reserve_ports
from tests.support.streams import assert_rows, produce

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(900)]

RULES = """
def read_order(record):
    text = record.value.decode()
    if text.startswith("bad"):
        raise ValueError(text + " is no order")
    return text
"""


def test_refused_records_are_kept_over_the_loss_of_their_topic(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    # Given a deserialiser in a module beside app.yaml
    (shop.folder / "rules.py").write_text(RULES)
    dead, orders = shop.names[DEAD], shop.orders
    topics = [{"name": dead, "kind": DEAD}, shop.declared[0]]
    assert topics[1]["kind"] == CHANGELOG
    (port,) = reserve_ports(1)
    app = write_app(
        shop.folder,
        metrics={"port": port, "host": "127.0.0.1"},
        internalTopics={"bootstrapServers": shop.east.bootstrap, "topics": topics, "deadLetters": dead},
        options={"startingOffsets": "earliest", "recordDeserializer": "rules:read_order", "mode": "deadletter"},
    )
    assert tools("validate", app) == 0, tools.output
    wanted = produce("east", shop.east, orders, 20)
    shop.east.produce(orders, ["bad-1"], partition=0)
    first = Letter("east", orders, 0, 20, "bad-1", "ValueError: bad-1 is no order")

    # When the topic is lost before the next refused record, then that batch fails with a code of its own
    with run_app(app) as run:
        wanted += produce("east", shop.east, orders, 5)
        run.wait_rows(wanted)
        assert set(dead_letters(shop.east, dead)) == {first}
        counted = 'dynamic_kafka_cluster_dead_letters_total{cluster="east",sink="lake"} 1.0'
        run.wait_until(lambda: counted in scrape(port), "the count of dead letters")
        shop.east.delete_topic(dead)
        shop.east.produce(orders, ["bad-2"], partition=0)
        assert run.wait_exit() == 11, run.last_lines()
        assert f"'{dead}' is missing on internal-topics" in run.events("ended")[-1]["reason"]

    # And the next start makes the topic, and the record is a dead letter
    wanted += produce("east", shop.east, orders, 5)
    with run_app(app) as run:
        run.wait_rows(wanted)
        letters = dead_letters(shop.east, dead)
        assert {(letter.offset, letter.value) for letter in letters} == {(26, "bad-2")}
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
