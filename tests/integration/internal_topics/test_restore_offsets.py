"""`restore-offsets` after a checkpoint was lost: from the changelog, the group's commits and the sink's rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.metadata.topic_ids import shown_topic_id
from tests.integration.app.driving import AppRun, write_app
from tests.integration.app_tools.story import Tools
from tests.integration.internal_topics.conftest import CHANGELOG, Shop
from tests.support.fixtures import Topic
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(900)]


class LostCheckpoint:
    """An application with a Parquet sink and a group, that reads all there is and ends."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.east, self.folder = shop, shop.east, shop.folder
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
        with AppRun(self.write(**fields)) as run:
            assert run.wait_exit() == 0, run.last_lines()
            return run.rows(self.lake)


def test_a_lost_checkpoint_is_replaced_with_known_numbers(shop: Shop, tools: Tools) -> None:
    app = LostCheckpoint(shop)
    first = produce("east", shop.east, shop.orders, 20)
    assert_rows(app.run(), first)
    # Given one more batch, which the changelog misses, and records that nothing has read
    second = produce("east", shop.east, shop.orders, 7)
    assert_rows(app.run(changelog=False), first + second)
    third = produce("east", shop.east, shop.orders, 5)
    path = app.write()
    assert tools("restore-offsets", path) == 0
    assert "holds a checkpoint: if it can be read, continue with it" in tools.output
    shutil.rmtree(app.folder / "checkpoints")

    # Then each source shows its offsets, and the changelog's are seven records behind
    def restored(origin: str) -> dict[str, Any]:
        found: dict[str, Any] = tools.json("restore-offsets", path, "--from", origin)
        return found

    changelog, group, sink = (restored(origin) for origin in ("changelog", "group", "sink"))
    assert changelog["startingOffsets"] == {"east": {shop.orders: {"0": 20}}}
    assert group["startingOffsets"] == sink["startingOffsets"] == {"east": {shop.orders: {"0": 27}}}
    split = ["east", shop.orders, 0]
    assert changelog["splits"] == [{"split": split, "start": 20, "waiting": 12, "twice": 7, "missed": 0, "unseen": 0}]
    assert group["splits"] == [{"split": split, "start": 27, "waiting": 5, "twice": 0, "missed": 0, "unseen": 0}]
    assert (changelog["unchecked"], group["unchecked"], sink["unchecked"]) == ([], ["east"], ["east"])

    # And a part of the sink's rows gives no offsets
    lake = yaml.safe_load(path.read_text())["sinks"][0]
    lake["options"]["retention"] = "1h"
    (app.folder / "other").mkdir()
    other = write_app(app.folder / "other", metadata=str(app.folder / "streams.json"), sinks=[lake])
    assert tools("restore-offsets", other, "--from", "sink") == 2
    assert "forgets old files (option retention)" in tools.errors
    (app.folder / "lake" / "_spark_metadata" / "0").unlink()
    assert tools("restore-offsets", path, "--from", "sink") == 4
    assert "neither batch 0 nor a later compaction" in tools.errors

    # When a new query starts there: exactly the announced records come twice, and none is missed
    assert tools("restore-offsets", path) == 0
    option = tools.output.partition("startingOffsets  ")[2].splitlines()[0]
    app.options["startingOffsets"] = json.loads(option)
    app.options["kafka.group.id"] = f"{app.group}-new"
    app.lake = "lake-2"
    assert_rows(app.run(checkpoint="checkpoints-2"), second + third)


def test_a_missing_record_is_written_at_the_next_start(shop: Shop, tools: Tools) -> None:
    """A driver that died between Spark's commit and its record: the batch is committed, and the changelog lacks it."""
    app = LostCheckpoint(shop)
    rows = produce("east", shop.east, shop.orders, 6)
    assert_rows(app.run(changelog=False), rows)
    path = app.write()
    assert tools("restore-offsets", path, "--from", "changelog") == 2
    assert "has no record of application 'test', sink 'lake', source 0" in tools.errors
    assert_rows(app.run(), rows)
    found = tools.json("restore-offsets", path)
    assert found["startingOffsets"] == {"east": {shop.orders: {"0": 6}}}


def test_expired_records_and_another_topic_are_noticed(shop: Shop, tools: Tools) -> None:
    app = LostCheckpoint(shop)
    produce("east", shop.east, shop.orders, 10)
    app.run()
    produce("east", shop.east, shop.orders, 10)
    shop.east.delete_records(shop.orders, 0, before=13)
    path = app.write()
    shutil.rmtree(app.folder / "checkpoints")
    (split,) = tools.json("restore-offsets", path)["splits"]
    assert (split["start"], split["waiting"], split["missed"]) == (13, 7, 3)

    shop.east.delete_topic(shop.orders)
    assert tools("restore-offsets", path) == 10
    shop.east.create_topic(shop.orders)
    assert tools("restore-offsets", path) == 4
    assert "was re-created (saved id" in tools.errors
    (split,) = tools.json("restore-offsets", path, "--leave-out", f"east/{shop.orders}")["splits"]
    assert split["start"] is None

    content = yaml.safe_load(path.read_text())
    del content["internalTopics"]
    path.write_text(yaml.safe_dump(content))
    assert tools("restore-offsets", path) == 2
    assert "choose the source of the offsets with --from group or --from sink" in tools.errors


def test_a_parked_topic_returns_at_its_offset(shop: Shop, tools: Tools, topic: Topic) -> None:
    # Given a topic that was read, then left the metadata, and has new records since
    app, returns = LostCheckpoint(shop), shop.east.create_topic(topic("returns"))
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
