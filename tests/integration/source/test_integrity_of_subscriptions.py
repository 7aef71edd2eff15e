"""Topic integrity for each way to subscribe, on real brokers; most have no metadata that could accept a topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dynamic_kafka.errors import TopicIntegrityError
from dynamic_kafka.metadata import KafkaMetadataService, KafkaStream, KafkaStreamSubscriber
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change, saved_changes
from tests.support.fixtures import Brokers
from tests.support.source_run import SourceRun
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("a matrix of subscriptions")

STREAMS = {"streamPattern": ".*", "streamSubscriber": f"{__name__}:EveryStream"}
"""The ways that choose streams of a metadata file."""


class EveryStream(KafkaStreamSubscriber):
    """A user's own subscriber, to all streams of its service."""

    def __init__(self, options: Mapping[str, str]) -> None:
        pass

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return list(service.get_all_streams())


@pytest.mark.parametrize("again", [True, False], ids=["re-created", "deleted"])
@pytest.mark.parametrize("way", ["streamPattern", "streamSubscriber", "subscribe", "subscribePattern", "assign"])
@pytest.mark.sampled
def test_each_way_to_subscribe_is_checked(brokers: Brokers, orders: str, path: Path, way: str, again: bool) -> None:
    at, old, state = brokers.a, brokers.a.topic_id(orders), path.parent / "state"
    source: dict[str, object] = {"kafka.bootstrap.servers": at.bootstrap, way: orders}
    if way == "assign":
        source[way] = json.dumps({orders: [0]})
    elif way == "subscribePattern":
        source[way] = f"{orders}|another"
    elif way in STREAMS:
        write_metadata(path, stream("orders", cluster("a", at, [orders])))
        source = {"metadataPath": path, way: STREAMS[way]}
    with SourceRun(**source, topicIntegrityCheck="true", stateLocation=state) as run:
        produce("a", at, orders, 4)
        run.until(lambda: run.rows().total() == 4, "the old topic's rows")
        at.delete_topic(orders)
        name = "a" if way in STREAMS else "default"
        changed = f"[TOPIC_CHANGED cluster={name} topic={orders} id={old}] the topic is missing"
        if again:
            at.create_topic(orders)
            produce("a", at, orders, 12)
            changed = changed.replace("] the topic is missing", f" now={at.topic_id(orders)}] the topic was re-created")
        message = run.until_fails(TopicIntegrityError)
        assert message.startswith(changed)
        assert run.until_fails(TopicIntegrityError) == message

        # The tool `accept` records it so
        query = run.document.query
        for change in saved_changes(StateLocation(str(state)), query, "verdict").values():
            save_change(StateLocation(str(state)), query, "accepted", change)
        run.until(lambda: run.rows().total() == (16 if again else 4), "the new topic's rows")
        while run.batch():
            pass
        assert run.rows().total() == (16 if again else 4)
