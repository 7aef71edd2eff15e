"""`restore-offsets` after a checkpoint was lost: from the changelog and the group's commits."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.kafka.commit_marks import CommitMark
from dynamic_kafka.kafka.groups import GroupClient
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from tests.integration.app.driving import RunApp, write_app
from tests.integration.app_tools.story import Tools
from tests.integration.internal_topics.conftest import CHANGELOG, Shop
from tests.support.fixtures import Topic
from tests.support.streams import Rows, assert_rows, cluster, last_document, produce, stream, write_metadata

DEEP = pytest.mark.deep("each state that is restored")

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(900)]


class LostCheckpoint:
    """An application with a Parquet sink and a group, that reads all there is and ends."""

    def __init__(self, shop: Shop, run_app: RunApp) -> None:
        self.shop, self.east, self.folder, self.run_app = shop, shop.east, shop.folder, run_app
        self.group = f"group-of-{shop.orders}"
        self.options: dict[str, Any] = {"startingOffsets": "earliest", "kafka.group.id": self.group}
        self.lake = "lake"

    def write(self, *, changelog: bool = True, checkpoint: str = "checkpoints") -> Path:
        """Write the app.yaml."""
        internal: dict[str, Any] = {"cluster": "east", "topics": [self.shop.declared[0]]}
        if changelog:
            internal["offsetChangelog"] = self.shop.names[CHANGELOG]
        sink = {"name": "lake", "type": "parquet", "options": {"path": str(self.folder / self.lake)}}
        return write_app(
            self.folder,
            internalTopics=internal,
            options=self.options,
            trigger={"availableNow": True},
            checkpoint=str(self.folder / checkpoint),
            sinks=[sink],
        )

    def names(self, *topics: str, **more: Any) -> None:
        """Replace the metadata by the cluster with these topics, and with more fields."""
        write_metadata(self.folder / "streams.json", stream("st", cluster("east", self.east, topics, **more)))

    def run(self, **fields: Any) -> Rows:
        """Run it to its end, and return all rows of its sink."""
        with self.run_app(self.write(**fields)) as run:
            assert run.wait_exit() == 0, run.last_lines()
            return run.rows(self.lake)


def test_a_lost_checkpoint_is_replaced_with_known_numbers(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    app = LostCheckpoint(shop, run_app)
    first = produce("east", shop.east, shop.orders, 20)
    assert_rows(app.run(), first)
    # Given one more batch, which the changelog misses, and records that nothing has read
    second = produce("east", shop.east, shop.orders, 7)
    assert_rows(app.run(changelog=False), first + second)
    third = produce("east", shop.east, shop.orders, 5)
    path = app.write()
    assert tools("restore-offsets", path) == 0
    assert "holds a checkpoint" in tools.output
    shutil.rmtree(app.folder / "checkpoints")

    # Then each source shows its offsets, and the changelog's are seven records behind
    def restored(origin: str) -> dict[str, Any]:
        printed: dict[str, Any] = tools.json("restore-offsets", path, "--from", origin)
        return printed

    changelog, group = restored("changelog"), restored("group")
    assert changelog["startingOffsets"] == {"east": {shop.orders: {"0": 20}}}
    assert group["startingOffsets"] == {"east": {shop.orders: {"0": 27}}}
    split, active = ["east", shop.orders, 0], {"ended": False}
    assert changelog["splits"] == [{"split": split, "start": 20, "waiting": 12, "twice": 7, "missed": 0, **active}]
    assert group["splits"] == [{"split": split, "start": 27, "waiting": 5, "twice": None, "missed": 0, **active}]
    assert (changelog["unchecked"], group["unchecked"]) == ([], ["east"])

    # When a new query starts there: exactly the announced records come twice, and none is missed
    assert tools("restore-offsets", path) == 0
    option = tools.output.partition("startingOffsets  ")[2].splitlines()[0]
    app.options["startingOffsets"] = json.loads(option)
    app.options["kafka.group.id"] = f"{app.group}-new"
    app.lake = "lake-2"
    assert_rows(app.run(checkpoint="checkpoints-2"), second + third)


@DEEP
def test_a_missing_record_is_written_at_the_next_start(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    """A driver that died between Spark's commit and its record: the batch is committed, and the changelog lacks it."""
    app = LostCheckpoint(shop, run_app)
    rows = produce("east", shop.east, shop.orders, 6)
    assert_rows(app.run(changelog=False), rows)
    path = app.write()
    assert tools("restore-offsets", path, "--from", "changelog") == 2
    assert "has no record" in tools.errors and "'test', sink 'lake', source 0" in tools.errors
    assert_rows(app.run(), rows)
    restored = tools.json("restore-offsets", path)
    assert restored["startingOffsets"] == {"east": {shop.orders: {"0": 6}}}


@DEEP
def test_expired_records_and_another_topic_are_noticed(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    app = LostCheckpoint(shop, run_app)
    produce("east", shop.east, shop.orders, 10)
    app.run()
    # Given five records and the end of their transaction, which have expired, and four more
    with shop.east.transaction() as transaction:
        transaction.produce(shop.orders, ["1", "2", "3", "4", "5"])
    shop.east.wait_decided(shop.orders)
    produce("east", shop.east, shop.orders, 4)
    shop.east.delete_records(shop.orders, 0, before=16)
    path = app.write()
    shutil.rmtree(app.folder / "checkpoints")
    (split,) = tools.json("restore-offsets", path)["splits"]
    assert (split["start"], split["waiting"], split["missed"]) == (16, 4, 6)
    assert tools("restore-offsets", path) == 0
    assert "At most 6 records are missed" in tools.output
    assert "compaction or transactions" in tools.output

    shop.east.delete_topic(shop.orders)
    assert tools("restore-offsets", path) == 10
    shop.east.create_topic(shop.orders)
    assert tools("restore-offsets", path) == 4
    assert "was re-created (id" in tools.errors
    (split,) = tools.json("restore-offsets", path, "--leave-out", f"east/{shop.orders}")["splits"]
    assert split["start"] is None

    # And the group's commits went with the old topic
    assert split["twice"] is None
    assert tools("restore-offsets", path, "--from", "group") == 2
    assert "have no offset of a subscribed topic" in tools.errors

    content = yaml.safe_load(path.read_text())
    del content["internalTopics"]
    path.write_text(yaml.safe_dump(content))
    assert tools("restore-offsets", path) == 2
    assert "take the group's commits, --from group" in tools.errors


@DEEP
def test_a_parked_topic_returns_at_its_offset(shop: Shop, tools: Tools, topic: Topic, run_app: RunApp) -> None:
    # Given a topic that was read, then left the metadata, and has new records since
    app, returns = LostCheckpoint(shop, run_app), shop.east.create_topic(topic("returns"))
    app.names(shop.orders, returns)
    read = produce("east", shop.east, shop.orders, 5) + produce("east", shop.east, returns, 6)
    assert_rows(app.run(), read)
    app.names(shop.orders)
    read += produce("east", shop.east, shop.orders, 1)
    assert_rows(app.run(), read)
    orders = produce("east", shop.east, shop.orders, 2)
    later = produce("east", shop.east, returns, 4)
    path = app.write()
    shutil.rmtree(app.folder / "checkpoints")

    # When the checkpoint is lost, then the changelog has the offset, and the output the lines for its return
    (lines,) = tools.json("restore-offsets", path)["unnamed"]
    offsets, pins = {returns: {"0": 6}}, {returns: shown_topic_id(shop.east.topic_id(returns))}
    assert lines == {"clusterId": "east", "startingOffsets": offsets, "topicIds": pins}
    assert tools("restore-offsets", path) == 0
    assert f"saved partitions now: east/{returns}[0]" in tools.output and "at most 6 records" in tools.output

    # And with them the new query reads each record of it once
    app.options["startingOffsets"] = {"east": {shop.orders: {"0": 6}}}
    app.options["kafka.group.id"] = f"{app.group}-new"
    app.lake = "lake-2"
    assert_rows(app.run(checkpoint="checkpoints-2"), orders)
    del lines["clusterId"]
    app.names(shop.orders, returns, **lines)
    assert_rows(app.run(checkpoint="checkpoints-2"), orders + later)


@DEEP
def test_a_topic_re_created_before_the_start_is_not_read(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    app = LostCheckpoint(shop, run_app)
    read = produce("east", shop.east, shop.orders, 6)
    assert_rows(app.run(), read)
    later = produce("east", shop.east, shop.orders, 2)
    path = app.write()
    shutil.rmtree(app.folder / "checkpoints")

    # Given the printed metadata, with the topic's id from each source
    pins = {shop.orders: shown_topic_id(shop.east.topic_id(shop.orders))}
    for origin in ("group", "changelog"):
        (lines,) = tools.json("restore-offsets", path, "--from", origin)["metadata"]
        assert lines == {"clusterId": "east", "startingOffsets": {shop.orders: {"0": 6}}, "topicIds": pins}
    del lines["clusterId"]
    app.names(shop.orders, **lines)
    app.options["kafka.group.id"] = f"{app.group}-new"

    # When a new query starts with it, then it reads on
    app.lake = "lake-2"
    assert_rows(app.run(checkpoint="checkpoints-2"), later)

    # But not if the topic was re-created since, although the new one has records at these offsets
    shop.east.delete_topic(shop.orders)
    shop.east.create_topic(shop.orders)
    produce("east", shop.east, shop.orders, 9)
    app.lake = "lake-3"
    with run_app(app.write(checkpoint="checkpoints-3")) as run:
        assert run.wait_exit() == 9, run.last_lines()
        assert f"[TOPIC_CHANGED cluster=east topic={shop.orders} id=" in run.text()
        assert_rows(run.rows(app.lake), Rows())


@DEEP
def test_an_ended_split_ends_again_at_its_stop_record(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    # Given a query that is over, and records behind its stop record
    app = LostCheckpoint(shop, run_app)
    (app.folder / "rules.py").write_text("def is_end(record):\n    return record.value == b'end'\n")
    app.options["recordEvaluator"] = "rules:is_end"
    read = produce("east", shop.east, shop.orders, 5)
    shop.east.produce(shop.orders, ["end", "tomorrow", "tomorrow"])
    assert_rows(app.run(), read)
    path = app.write()
    shutil.rmtree(app.folder / "checkpoints")

    # When the checkpoint is lost, then each source starts at the stop record
    for origin in ("changelog", "group"):
        restored = tools.json("restore-offsets", path, "--from", origin)
        assert restored["startingOffsets"] == {"east": {shop.orders: {"0": 5}}}
        assert (restored["over"], restored["splits"][0]["ended"]) == (origin == "changelog",) * 2
    assert tools("restore-offsets", path) == 0
    assert "1 splits had ended" in tools.output and f"stop records: east/{shop.orders}[0]." in tools.output

    # And the new query ends there, too
    app.options["startingOffsets"] = restored["startingOffsets"]
    app.options["kafka.group.id"] = f"{app.group}-new"
    app.lake = "lake-2"
    assert_rows(app.run(checkpoint="checkpoints-2"), Rows())
    document = last_document(app.folder / "checkpoints-2" / "lake")
    assert document is not None and document.over
    assert document.clusters["east"].topics[shop.orders].ended == {0: 5}

    # But a query without the evaluator, or without the stop record, would read on
    app.options["kafka.group.id"] = app.group
    del app.options["recordEvaluator"]
    assert tools("restore-offsets", app.write()) == 4
    assert f"east/{shop.orders}[0] at 5 had ended" in tools.errors
    assert "app.yaml has no recordEvaluator" in tools.errors
    app.options["recordEvaluator"] = "rules:is_end"
    shop.east.delete_records(shop.orders, 0, before=6)
    assert tools("restore-offsets", app.write()) == 4
    assert "the record is gone" in tools.errors


@DEEP
def test_the_new_query_may_keep_the_group_a_minute_later(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    app = LostCheckpoint(shop, run_app)
    read = produce("east", shop.east, shop.orders, 5)
    assert_rows(app.run(), read)
    shutil.rmtree(app.folder / "checkpoints")
    app.options["startingOffsets"] = {"east": {shop.orders: {"0": 5}}}
    app.lake = "lake-2"
    client = GroupClient("east", app.group, shop.east.client_properties(), deadline_s=30)
    ((_, text),) = client.committed([(shop.orders, 0)]).values()
    mark = CommitMark.parse(text)
    assert mark is not None

    def last_commit(seconds_ago: int) -> None:
        at_ms = time.time_ns() // 1_000_000 - seconds_ago * 1000
        client.commit({(shop.orders, 0): 5}, str(replace(mark, at_ms=at_ms)))

    # When the lost query's last commit is young, then the tool says how long to wait, and a start is refused
    last_commit(-50)
    path = app.write(checkpoint="checkpoints-2")
    assert tools("restore-offsets", path) == 0
    assert f"refused now: query {mark.query} uses group" in tools.output
    assert "end that query and wait 1" in tools.output
    with run_app(path) as run:
        assert run.wait_exit() == 7
        assert "end that query and wait" in run.text()

    # And a minute after it the new query reads on, with no other option
    last_commit(61)
    assert tools("restore-offsets", path) == 0
    assert f"may keep the consumer group '{app.group}'." in tools.output
    later = produce("east", shop.east, shop.orders, 3)
    assert_rows(app.run(checkpoint="checkpoints-2"), later)
    client.close_in_background()
