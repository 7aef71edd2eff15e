"""`accept` and `abandon`: a refused query continues after the command that its error names, with exact rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from dynamic_kafka.metadata.topic_ids import saved_topic_id
from tests.integration.app_tools.story import MakeStory, Tools, contents, every_file
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.streams import Rows, assert_rows, cluster, last_document, produce

DEEP = pytest.mark.deep("each state of a loss")


def test_an_accepted_wiped_cluster_is_read_from_its_start(
    brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a query, and a new cluster behind the servers of one of its clusters
    east = fresh_cluster()
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a, east=east)
    wanted = produce("a", brokers.a, name, 3) + produce("east", east, name, 8)
    assert_rows(story.run(), wanted)
    former = east.kafka_id
    east.wipe()
    east.start().wait_ready()
    east.create_topic(name)
    wanted = produce("a", brokers.a, name, 2) + produce("east", east, name, 5, prefix="new")

    # then the query refuses to start, and the plan reports it
    with pytest.raises(StreamingQueryException, match=r"accept app\.yaml --identity east="):
        story.run()
    assert tools("plan", story.app) == 4
    assert f"--identity east={east.kafka_id}" in tools.output

    # and nothing changes without consent, nor for an id other than the one that answers
    before = every_file(story.folder)
    assert tools("accept", story.app, "--identity", f"east={east.kafka_id}") == 2
    assert tools("accept", story.app, "--identity", f"east={former}x", "--yes") == 2
    assert every_file(story.folder) == before

    # when the user accepts all that is refused
    assert tools("accept", story.app, "--yes") == 0

    # then it is recorded, the new cluster is read from its start, and the other one is read on
    (accepted,) = contents(next(story.state.glob("*/accepted")))
    mark = accepted.pop("id")
    assert accepted == {"kind": "identity", "cluster": "east", "kafkaId": east.kafka_id, "replaces": former}
    (audit,) = contents(story.state / "audit")
    assert audit["before"] == {"kafkaId": former, "next": {f"{name}/0": 8}} and "@" in audit["who"]
    assert tools("plan", story.app) == 0
    assert_rows(story.run(), wanted)
    document = last_document(story.checkpoint)
    assert document is not None and document.used_acceptances == {"east": mark}


def test_a_loss_is_accepted_once_and_for_its_own_offset_only(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a query whose next records have expired
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a)
    wanted = produce("a", brokers.a, name, 4)
    assert_rows(story.run(), wanted)
    lost = produce("a", brokers.a, name, 6)
    wanted = produce("a", brokers.a, name, 2)
    brokers.a.delete_records(name, 0, 10)

    # then plan and query refuse, with the count
    plan = tools.json("plan", story.app, code=4)
    assert [(c["records"], c["topic"]) for c in plan["changes"] if c["action"] == "refuse"] == [(lost.total(), name)]
    with pytest.raises(StreamingQueryException, match=r"accept app\.yaml --data-loss"):
        story.run()

    # when the user accepts it
    assert tools("accept", story.app, "--data-loss", "--yes") == 0
    assert "6 records are given up" in tools.output

    # then the remaining records are read, and a second loss is refused again
    (accepted,) = contents(next(story.state.glob("*/accepted")))
    assert accepted["from"] == 4 and accepted["to"] == 10
    assert_rows(story.run(), wanted)
    produce("a", brokers.a, name, 3)
    brokers.a.delete_records(name, 0, 14)
    assert tools("plan", story.app) == 4


@DEEP
def test_a_loss_in_the_pending_batch_is_abandoned_and_accepted(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a pending batch whose first records have expired
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a)
    wanted = produce("a", brokers.a, name, 10)
    story.run(fails=True)
    brokers.a.delete_records(name, 0, 4)
    with pytest.raises(StreamingQueryException, match=rf"abandon app\.yaml a/{name}/0"):
        story.run()

    # when the user runs the commands that the error names
    assert tools("abandon", story.app, f"a/{name}/0", "--stopped", "--yes") == 0
    assert tools("accept", story.app, "--data-loss", "--yes") == 0

    # then the rest is read
    assert_rows(story.run(), Rows({row: 1 for row in wanted if row.offset >= 4}))


def test_an_abandoned_range_is_read_when_its_cluster_returns(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a query that refuses to start, since metadata no longer names a cluster of its pending batch
    name = topic("orders")
    for broker in (brokers.a, brokers.b):
        broker.create_topic(name)
    story = make_story(pendingRemovedRanges="refuse")
    both = (cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    story.names(*both)
    first, second = produce("a", brokers.a, name, 3), produce("b", brokers.b, name, 5)
    story.run(fails=True)
    story.names(both[0])
    with pytest.raises(StreamingQueryException, match=r"abandon app\.yaml"):
        story.run()

    # then `abandon` asks first, refuses a running query and a range that is not pending, and changes nothing
    before = every_file(story.folder)
    assert tools("abandon", story.app, "b", "--yes") == 2 and "may be running" in tools.errors
    assert tools("abandon", story.app, "b", "--stopped") == 2 and "--yes" in tools.errors
    assert tools("abandon", story.app, "c", "--stopped", "--yes") == 2 and f"b/{name}" in tools.errors
    assert every_file(story.folder) == before

    # when the user abandons the range
    assert tools("abandon", story.app, f"b/{name}/0", "--stopped", "--yes") == 0

    # then the batch runs without it, it is recorded, and the range is read when the cluster is back
    (audit,) = contents(story.state / "audit")
    assert audit["before"] == {f"b/{name}[0]": 5} and audit["after"] == {f"b/{name}[0]": 0}
    assert_rows(story.run(), first)
    story.names(*both)
    assert_rows(story.run(), second)
    assert tools("abandon", story.app, "b", "--stopped", "--yes") == 2 and "no batch is pending" in tools.errors


@DEEP
def test_a_replaced_clusters_pending_range_is_abandoned(
    brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a pending batch of a cluster that was replaced since
    east = fresh_cluster()
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a, east=east)
    wanted = produce("a", brokers.a, name, 3)
    produce("east", east, name, 8)
    story.run(fails=True)
    east.wipe()
    east.start().wait_ready()
    east.create_topic(name)
    wanted += produce("east", east, name, 5, prefix="new")
    both = rf"abandon app\.yaml east`, then .*accept app\.yaml --identity east={east.kafka_id}`"
    with pytest.raises(StreamingQueryException, match=both):
        story.run()
    assert tools("plan", story.app) == 4 and re.search(both, tools.output)

    # when the user runs both commands that the errors name
    assert tools("abandon", story.app, "east", "--stopped", "--yes") == 0
    assert tools("plan", story.app) == 4 and "--identity east=" in tools.output and "abandon" not in tools.output
    assert tools("accept", story.app, "--identity", f"east={east.kafka_id}", "--yes") == 0

    # then the query continues with exact rows
    assert_rows(story.run(), wanted)


@DEEP
def test_a_re_created_topics_pending_batch_is_abandoned(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a pending batch at offset 4 of a topic that was re-created since, with records at those offsets
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a)
    wanted = produce("a", brokers.a, name, 4)
    assert_rows(story.run(), wanted)
    produce("a", brokers.a, name, 3)
    story.run(fails=True)
    old = brokers.a.topic_id(name)
    brokers.a.delete_topic(name)
    brokers.a.create_topic(name)
    wanted = produce("a", brokers.a, name, 12, prefix="new")

    # then query and plan refuse, and name both commands in their order; the second alone is refused
    with pytest.raises(StreamingQueryException, match=rf"abandon app\.yaml a/{name}`.*accept app\.yaml.*--data-loss"):
        story.run()
    assert tools("plan", story.app) == 4
    assert (
        "4..7 is pending" in tools.output and f"re-created (id {old}, now {brokers.a.topic_id(name)})" in tools.output
    )
    assert tools("inspect", story.app) == 0 and old in tools.output
    before = every_file(story.folder)
    assert tools("accept", story.app, "--data-loss", "--yes") == 2 and f"abandon app.yaml a/{name}" in tools.errors
    assert every_file(story.folder) == before

    # when the user runs both
    assert tools("abandon", story.app, f"a/{name}", "--stopped", "--yes") == 0
    plan = tools.json("plan", story.app, code=4)
    [refused] = [change for change in plan["changes"] if change["action"] == "refuse"]
    assert refused["records"] is None and "offset 4 belongs to the old one" in refused["text"]
    assert tools("accept", story.app, "--data-loss", "--yes") == 0

    # then all of the new topic is read
    [accepted] = contents(next(story.state.glob("*/accepted")))
    assert (accepted["topicId"], accepted["from"], accepted["to"]) == (saved_topic_id(old), 4, 0)
    assert tools("plan", story.app) == 0 and "continues at 0" in tools.output
    assert_rows(story.run(), wanted)


def test_a_bare_checkpoint_needs_to_know_where_its_query_looks(tmp_path: Path, tools: Tools) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "offsets" / "0").write_text(
        'v1\n{}\n{"version":2,"query":"q","number":1,"previous":"x","clusters":{"a":{"kafkaId":"old","topics":'
        '{"orders":{"stream":"orders","partitions":1,"next":4}}}}}'
    )

    assert tools("accept", tmp_path, "--identity", "a=new", "--yes") == 2
    assert "--state-location" in tools.errors

    state = tmp_path / "elsewhere"
    assert tools("accept", tmp_path, "--identity", "a=new", "--yes", "--state-location", state) == 0
    written = {"kind": "identity", "cluster": "a", "kafkaId": "new", "replaces": "old"}
    [accepted] = contents(state / "q" / "accepted")
    assert accepted == {**written, "id": accepted["id"]}
    assert tools("accept", tmp_path, "--identity", "a=newer", "--yes", "--state-location", state) == 0
    assert [content["kafkaId"] for content in contents(state / "q" / "accepted")] == ["new", "newer"]
