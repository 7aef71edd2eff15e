"""`plan` and `inspect`: the query then does what they show, and they change nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.kafka.commit_marks import CommitMark
from dynamic_kafka.kafka.groups import GroupClient
from tests.integration.app_tools.story import MakeStory, Tools, every_file
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.streams import assert_rows, cluster, produce, start_query, write_metadata

DEEP = pytest.mark.deep("each finding of a plan")


def by_action(plan: dict[str, Any]) -> dict[str, list[tuple[str, int, int | None]]]:
    changes: dict[str, list[tuple[str, int, int | None]]] = {}
    for change in plan["changes"]:
        changes.setdefault(change["action"], []).append((change["cluster"], change["splits"], change["records"]))
    return changes


def test_a_migration_is_planned_before_it_happens(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a query that reads clusters a and b
    name = topic("orders")
    for broker in brokers:
        broker.create_topic(name, 2)
    story = make_story()
    story.names(cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    wanted = produce("a", brokers.a, name, 10) + produce("b", brokers.b, name, 5)

    # then before its first batch, the plan shows what it would read
    assert by_action(tools.json("plan", story.app)) == {"add": [("a", 2, 10), ("b", 2, 5)]}
    assert_rows(story.run(), wanted)

    # when an edit removes a and adds c, which has 7 records already, and 3 more wait in b
    wanted = produce("c", brokers.c, name, 7) + produce("b", brokers.b, name, 3)
    produce("a", brokers.a, name, 4)
    edited = [cluster("b", brokers.b, [name]), cluster("c", brokers.c, [name])]
    edit = write_metadata(story.folder / "edit.json", {"streamId": "orders", "clusterMetadataList": edited})
    before = every_file(story.folder)
    tried = tools.json("plan", story.app, "--metadata", edit)
    assert every_file(story.folder) == before

    # and metadata becomes the edit
    story.names(*edited)
    before = every_file(story.folder)
    plan = tools.json("plan", story.app)
    for change in (*tried["changes"], *plan["changes"]):
        change["text"] = re.sub(r"until \S+ \S+Z", "until …", change["text"])  # it depends on the time of the plan
    assert tried == plan | {"target": f"{plan['target']}, with {edit}"}

    # then the plan names all of it, and nothing was written
    assert by_action(plan) == {"park": [("a", 2, None)], "add": [("c", 2, 7)], "read": [("b", 2, 3)]}
    assert plan["nextBatch"] == 10
    assert every_file(story.folder) == before
    assert tools("plan", story.app) == 0
    assert "starts at earliest" in tools.output and "kept until" in tools.output

    # and the query does exactly this
    assert_rows(story.run(), wanted)

    # when metadata names a again, then the plan resumes it with its 4 records
    story.names(cluster("a", brokers.a, [name]), cluster("c", brokers.c, [name]))
    assert by_action(tools.json("plan", story.app)) == {
        "park": [("b", 2, None)],
        "resume": [("a", 2, 4)],
        "read": [("c", 2, 0)],
    }

    # and inspect shows the offsets, and the parked splits with their deadlines
    shown = tools.json("inspect", story.app)
    assert shown["clusters"]["c"]["topics"][name]["next"] == {"0": 7, "1": 0}
    assert shown["parked"]["a"]["topics"][name]["next"] == {"0": 10, "1": 0}
    assert shown["batches"]["pending"] is None
    assert tools("inspect", story.checkpoint) == 0
    assert "in 7 d" in tools.output and brokers.c.kafka_id in tools.output


@DEEP
def test_the_plan_names_ranges_that_a_restart_leaves_out(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a batch of a and b that failed in the sink, and metadata without b
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a, b=brokers.b)
    wanted = produce("a", brokers.a, name, 6)
    produce("b", brokers.b, name, 4)
    story.run(fails=True)
    story.names(cluster("a", brokers.a, [name]))

    # when plan and inspect run
    shown = tools.json("inspect", story.app)
    plan = tools.json("plan", story.app)

    # then they show the ranges and those that a restart leaves out, and write no amendment
    assert shown["pendingRanges"] == [["a", name, 0, 0, 6], ["b", name, 0, 0, 4]]
    assert plan["pending"]["leftOut"] == [["b", name, 0, 0, 4]]
    assert plan["pending"]["reasons"] == {"b": "removed"}
    assert not list(story.state.glob("*/amendments"))

    # and the restart leaves them out
    assert_rows(story.run(), wanted)
    shown = tools.json("inspect", story.app)
    assert shown["amendments"][0]["leftOut"] == [["b", name, 0, 0, 4]]
    assert shown["parked"]["b"]["topics"][name]["next"] == {"0": 0}


@DEEP
def test_with_refuse_the_plan_reports_a_refused_start(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    story = make_story(pendingRemovedRanges="refuse")
    name = story.reads(topic("orders"), a=brokers.a, b=brokers.b)
    produce("a", brokers.a, name, 1)
    produce("b", brokers.b, name, 1)
    story.run(fails=True)
    story.names(cluster("a", brokers.a, [name]))

    assert tools("plan", story.app) == 4
    assert "abandon app.yaml" in tools.output


@DEEP
def test_expired_records_of_the_pending_batch_are_refused(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a batch that failed in the sink, and whose records expired since
    story = make_story()
    name = story.reads(topic("orders"), a=brokers.a)
    produce("a", brokers.a, name, 16)
    story.run(fails=True)
    wanted = produce("a", brokers.a, name, 3)
    brokers.a.delete_records(name, 0, 16)

    # then the plan reports it, with the commands that help
    assert tools("plan", story.app) == 4
    assert "records 0..16 have expired" in tools.output
    assert f"abandon app.yaml a/{name}/0" in tools.output

    # and these commands help
    assert tools("abandon", story.app, f"a/{name}/0", "--yes", "--stopped") == 0
    assert tools("plan", story.app) == 4
    assert f"accept app.yaml --data-loss a/{name}/0" in tools.output
    assert tools("accept", story.app, "--data-loss", f"a/{name}/0", "--yes") == 0
    assert tools("plan", story.app) == 0
    assert_rows(story.run(), wanted)


@DEEP
def test_a_checkpoint_older_than_its_group_is_refused(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    name = topic("orders")
    story = make_story(**{"kafka.group.id": name})
    story.reads(name, a=brokers.a)
    produce("a", brokers.a, name, 2)
    story.run()
    assert tools("plan", story.app) == 0
    query, later = tools.json("inspect", story.app)["query"], tools.json("inspect", story.app)["document"] + 1
    group = GroupClient("a", name, {"bootstrap.servers": brokers.a.bootstrap}, deadline_s=20)
    group.commit({(name, 0): 2}, str(CommitMark(query, later, 0)))
    group.close_in_background()

    assert tools("plan", story.app) == 4
    assert f"has commits of its document {later}" in tools.output


@DEEP
def test_a_group_ahead_of_sparks_commits_is_refused(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    # given a query whose group has the mark of its last batch, while Spark's commit of the batch is lost
    name = topic("orders")
    story = make_story(**{"kafka.group.id": name})
    story.reads(name, a=brokers.a)
    produce("a", brokers.a, name, 2)
    story.run()
    produce("a", brokers.a, name, 2)
    story.run()
    saved = tools.json("inspect", story.app)
    group = GroupClient("a", name, {"bootstrap.servers": brokers.a.bootstrap}, deadline_s=20)
    group.commit({(name, 0): 4}, str(CommitMark(saved["query"], saved["document"], 0)))
    group.close_in_background()
    assert tools("plan", story.app) == 0
    max((story.checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name)).unlink()

    # then the plan reports the error of the application, which compares the group with Spark's commits
    assert tools("plan", story.app) == 4
    assert f"has commits of its document {saved['document']}" in tools.output


@DEEP
def test_a_hanging_cluster_is_named_and_the_others_are_planned(
    brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    hanging = fresh_cluster()
    story = make_story(**{"kafka.socket.timeout.ms": "3000"})
    name = story.reads(topic("orders"), a=brokers.a, h=hanging)
    produce("a", brokers.a, name, 2)
    hanging.pause()

    plan = tools.json("plan", story.app, code=5)

    assert by_action(plan)["add"] == [("a", 1, 2)]
    assert list(plan["silent"]) == ["h"]


@DEEP
def test_a_topic_that_does_not_exist_is_refused_by_name(
    brokers: Brokers, topic: Topic, make_story: MakeStory, tools: Tools
) -> None:
    name = brokers.a.create_topic(topic("orders"))
    story = make_story()
    story.names(cluster("a", brokers.a, [name]), cluster("b", brokers.b, ["no-such"]))

    plan = tools.json("plan", story.app, code=10)

    assert by_action(plan)["add"] == [("a", 1, 0)]
    assert "no-such" in plan["refusals"][0]["text"]


def test_inspect_works_while_the_query_runs(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path, tools: Tools
) -> None:
    name = brokers.a.create_topic(topic("orders"))
    path = write_metadata(
        tmp_path / "s.json", {"streamId": "orders", "clusterMetadataList": [cluster("a", brokers.a, [name])]}
    )
    options = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest"}
    with start_query(spark, options, tmp_path) as query:
        for _ in range(5):
            query.wait_rows(query.rows().total() + produce("a", brokers.a, name, 3).total())
            assert tools.json("inspect", query.checkpoint)["clusters"]["a"]["kafkaId"] == brokers.a.kafka_id
        shown = tools.json("inspect", query.checkpoint)
    assert shown["clusters"]["a"]["topics"][name]["next"] == {"0": 15}


@pytest.mark.parametrize("kind", ["nothing", "foreign"])
def test_a_foreign_or_empty_folder_is_refused(kind: str, tmp_path: Path, tools: Tools) -> None:
    if kind == "foreign":
        (tmp_path / "offsets").mkdir()
        (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"orders":{"0":4}}')

    assert tools("inspect", tmp_path) in (2, 4)
    assert ("import-checkpoint" if kind == "foreign" else "no batch") in tools.errors
