"""From Spark's own source to ours: the new query starts exactly at the progress of the old one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.integration.app_tools.spark_run import delivered, run_spark
from tests.integration.app_tools.story import MakeStory, Tools, contents, every_file
from tests.support.fixtures import Brokers, Topic
from tests.support.spark_kafka import SPARK42_PYTHON, connector_jars
from tests.support.streams import Rows, assert_rows, cluster, produce


@pytest.mark.timeout(900)
def test_a_job_moves_over_from_spark_s_kafka_source(
    brokers: Brokers, topic: Topic, tmp_path: Path, make_story: MakeStory, tools: Tools
) -> None:
    # given a query on Spark's source whose first batch was committed, and whose second one failed in the sink
    name = brokers.a.create_topic(topic("orders"), 2)
    written = produce("east", brokers.a, name, 10) + produce("east", brokers.a, name, 8, partition=1)
    old = {"kafka.bootstrap.servers": brokers.a.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    folder = tmp_path / "old"
    limited = {**old, "maxOffsetsPerTrigger": "12"}
    run_spark(SPARK42_PYTHON, "kafka", limited, folder, jars=connector_jars(), fails_at=1)
    taken = set(delivered(folder, "partition", "offset"))
    reached = {str(partition): sum(row[0] == partition for row in taken) for partition in (0, 1)}
    assert 0 < len(taken) < written.total()
    before = every_file(folder)

    # when its checkpoint is imported
    target = tmp_path / "start.yaml"
    asked = ("import-checkpoint", folder / "checkpoint", "--cluster", "east")
    assert tools(*asked, "-o", target, "--state-location", tmp_path / "state") == 0

    # then it prints the end of the committed batch and explains the pending one; the old checkpoint is unchanged
    assert json.dumps({"east": {name: reached}}) in tools.output
    assert "Batch 1 is pending" in tools.output and "--after-pending" in tools.output
    assert every_file(folder) == before
    start = yaml.safe_load(target.read_text())
    assert start == {"startingOffsets": {name: reached}}
    (audit,) = contents(tmp_path / "state" / "audit")
    assert audit["after"] == {"east": {name: reached}}

    # and with --after-pending, the end of the pending batch
    assert tools(*asked, "--after-pending") == 0
    assert json.dumps({name: {"0": 10, "1": 8}}) in tools.output

    # when the new query starts with the metadata's form, it reads exactly what the old one had not committed
    story = make_story()
    story.names(cluster("east", brokers.a, [name], **start))
    wanted = Rows({row: 1 for row in written if (row.partition, row.offset) not in taken})
    wanted += produce("east", brokers.a, name, 2, partition=1)
    assert [change["records"] for change in tools.json("plan", story.app)["changes"]] == [wanted.total()]
    assert_rows(story.run(), wanted)


def test_the_option_s_form_is_what_the_option_takes(tmp_path: Path, tools: Tools) -> None:
    from dynamic_kafka.metadata.model import OffsetSpec
    from dynamic_kafka.options import PerCluster, parse_options

    _checkpoint(tmp_path, 'v1\n{}\n{"orders":{"0":4,"11":7}}')

    assert tools("import-checkpoint", tmp_path, "--cluster", "east") == 0

    printed = next(line for line in tools.output.splitlines() if "startingOffsets  {" in line).split("  ")[-1]
    options = {"streamIds": "o", "metadataPath": "/x", "startingOffsets": printed}
    starting = parse_options(options, mode="streaming").starting
    assert starting == PerCluster({"east": OffsetSpec("explicit", offsets={"orders": {0: 4, 11: 7}})})


def test_of_several_sources_one_is_chosen(tmp_path: Path, tools: Tools) -> None:
    _checkpoint(tmp_path, 'v1\n{}\n{"orders":{"0":4}}\n-\n{"payments":{"0":9}}')

    assert tools("import-checkpoint", tmp_path, "--cluster", "east") == 2
    assert "--source: 0: orders; 2: payments" in tools.errors
    assert tools("import-checkpoint", tmp_path, "--cluster", "east", "--source", "2") == 0
    assert json.dumps({"payments": {"0": 9}}) in tools.output
    assert tools("import-checkpoint", tmp_path, "--cluster", "east", "--source", "1") == 2


def test_named_sources_are_read_too(tmp_path: Path, tools: Tools) -> None:
    # Spark's second form of the offset log, as `spark.sql.streaming.offsetLog.formatVersion=2` writes it.
    _checkpoint(tmp_path, 'v2\n{}\n0:{"orders":{"0":4}}\npaid:{"payments":{"0":9}}')

    assert tools("import-checkpoint", tmp_path, "--cluster", "east", "--source", "paid") == 0
    assert json.dumps({"payments": {"0": 9}}) in tools.output


@pytest.mark.parametrize(
    ("text", "committed", "code", "expected"),
    [
        ('v1\n{}\n{"orders":{"0":4}}', False, 2, "no batch is committed yet"),
        ('v1\n{}\n{"version":2}', True, 4, "already a checkpoint of dynamic-kafka"),
        ('v1\n{}\n{"logOffset":4}', True, 2, "no source of the query is Spark's"),
        ('v9\n{}\n{"orders":{"0":4}}', True, 4, "v9"),
    ],
)
def test_a_useless_checkpoint_is_refused_with_the_reason(  # noqa: PLR0917
    tmp_path: Path, tools: Tools, text: str, committed: bool, code: int, expected: str
) -> None:
    _checkpoint(tmp_path, text, committed=committed)

    assert tools("import-checkpoint", tmp_path, "--cluster", "east") == code
    assert expected in tools.errors


def _checkpoint(folder: Path, text: str, *, committed: bool = True) -> None:
    for log in ("offsets", "commits"):
        (folder / log).mkdir()
    (folder / "offsets" / "0").write_text(text)
    if committed:
        (folder / "commits" / "0").write_text("v1\n{}")
