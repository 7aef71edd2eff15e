"""The read tasks of a batch: what they carry, and what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dynamic_kafka.driver.read_tasks import make_tasks
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.metadata.subscription import unite
from dynamic_kafka.options import Mode, parse_options
from dynamic_kafka.options.columns import COLUMNS
from dynamic_kafka.planning.clock_of_values import BEFORE_ALL_MS
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.observation import Observation
from dynamic_kafka.planning.splits import Split, SplitRange

PARTITIONS = range(100)


def tasks(
    document: str,
    *,
    topic_id: str | None = "T",
    ended: Mapping[int, int] | None = None,
    query: str = "q",
    clock_ms: int | None = None,
    read: Mode = "streaming",
    by_value: int | None = None,
    drift_ms: int | None = None,
    saved_clock_ms: int | None = None,
    known: Sequence[StopRecord] = (),
    **more: str,
) -> list[ReadTask]:
    """Return the tasks of one batch over every split of the clusters `east` and `west`."""
    options = {"metadataService": "static", "metadataDocument": document, "streamIds": "orders", **more}
    subscription = unite(parse_document(document, source="test").streams.values())
    topic = TopicProgress("orders", dict.fromkeys(PARTITIONS, 1), topic_id=topic_id, ended=ended or {})
    saved = OffsetDocument(
        query,
        clusters={name: ClusterProgress({"t": topic}, f"id of {name}") for name in subscription.clusters},
        clock_ms=saved_clock_ms,
        by_value=by_value,
        drift_ms=drift_ms,
    )
    ranges = [SplitRange(Split(name, "t", number), 0, 1) for name in subscription.clusters for number in PARTITIONS]
    parsed = parse_options(options, mode=read)
    return make_tasks(parsed, Observation(subscription, {}), saved, ranges, clock_ms=clock_ms, ended=known)


DOCUMENT = """
streams:
  orders:
    clusters:
      east: {bootstrapServers: "e:1", topics: [t]}
      west: {bootstrapServers: "w:1", topics: [t]}
"""


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"mode": "deadletter", "recordDeserializer": "json:loads"}, (True, False)),
        ({"lateRows": "deadletter"}, (False, True)),
        ({"lateRows": "deadletter", "mode": "deadletter", "recordDeserializer": "json:loads"}, (True, True)),
    ],
)
def test_the_options_say_which_records_become_dead_letters(more: dict[str, str], kept: tuple[bool, bool]) -> None:
    more |= {"watermarkAlignmentMaxDrift": "5m", "watermarkMode": "periodic"}
    made = tasks(DOCUMENT, deadLetters='{"cluster": "east", "topic": "dead"}', **more)
    assert {(t.dead_letters.refused, t.dead_letters.late) for t in made if t.dead_letters} == {kept}


@pytest.mark.parametrize(
    ("clock_ms", "more", "late_before_ms"),
    [
        (90_000, {}, None),
        (90_000, {"watermarkMode": "periodic"}, 90_000),
        (90_000, {"watermarkMode": "periodic", "allowedLateness": "1m"}, 30_000),
        (None, {"watermarkMode": "periodic"}, None),
    ],
)
def test_the_clock_says_which_rows_are_late(
    clock_ms: int | None, more: dict[str, str], late_before_ms: int | None
) -> None:
    made = tasks(DOCUMENT, clock_ms=clock_ms, watermarkAlignmentMaxDrift="5m", **more)
    assert {task.late_before_ms for task in made} == {late_before_ms}


BY_VALUE = {"watermarkAlignmentMaxDrift": "10s", "timestampAssigner": "module:Name", "stateLocation": "/state"}


def pauses(**given: Any) -> set[tuple[int | None, str | None]]:
    made = tasks(DOCUMENT, **given)
    return {(task.pauses_at_ms, task.reports.kind if task.reports is not None else None) for task in made}


def test_ranges_pause_at_the_clock_and_the_drift() -> None:
    assert pauses(by_value=200, saved_clock_ms=90_000, **BY_VALUE) == {(100_000, "range-end")}
    assert pauses(by_value=200, drift_ms=3_000, saved_clock_ms=90_000, **BY_VALUE) == {(93_000, "range-end")}
    # Without a clock, the first time of each split is too new
    assert pauses(by_value=200, **BY_VALUE) == {(BEFORE_ALL_MS, "range-end")}
    # The batch decides, not the options, which may have changed since
    assert pauses(by_value=None, **BY_VALUE) == {(None, "stop-record")}
    assert pauses(by_value=200, stateLocation="/state") == {(None, "range-end")}
    assert {task.time_column for task in tasks(DOCUMENT, **BY_VALUE)} == {"kafka_event_time"}


def test_a_range_whose_end_is_known_pauses_nowhere_else() -> None:
    split = Split("east", "t", 7)
    known = (StopRecord(split, 7, None, "pause", 5),)
    made = tasks(DOCUMENT, by_value=200, saved_clock_ms=90_000, known=known, **BY_VALUE)
    assert [task.part.split for task in made if task.pauses_at_ms is None] == [split]


def test_the_tasks_of_a_cluster_share_their_large_parts() -> None:
    made = tasks(DOCUMENT)

    assert len(made) == 200
    assert {(task.kafka_id, task.active) for task in made} == {
        ("id of east", frozenset({"east", "west"})),
        ("id of west", frozenset({"east", "west"})),
    }
    # 50,000 tasks with a set or a client of their own would take more memory than the rest of the planner.
    assert len({id(task.active) for task in made}) == len({id(task.client) for task in made}) == 2


def test_tasks_have_the_columns_of_the_options() -> None:
    assert {task.columns for task in tasks(DOCUMENT, columns="timestamp,headers")} == {("timestamp", "headers")}
    assert tasks(DOCUMENT, includeHeaders="true")[0].columns == COLUMNS


@pytest.mark.parametrize(("mode", "more"), [("streaming", ("timestamp", "size")), ("batch", ())])
def test_only_a_stream_has_columns_for_reports(mode: Mode, more: tuple[str, ...]) -> None:
    made = tasks(DOCUMENT, read=mode, columns="value", readReports="h:1/k")
    assert {task.reported_columns for task in made} == {("value", *more)}


def test_tasks_name_their_source_by_its_options() -> None:
    first, again = tasks(DOCUMENT)[0], tasks(DOCUMENT)[0]
    other = tasks(DOCUMENT, **{"kafka.group.id": "sink-2"})[0]

    assert first.source == again.source
    assert first.source != other.source


def test_tasks_carry_the_topic_and_where_to_report() -> None:
    [task, *others] = tasks(DOCUMENT, stateLocation="/state")

    assert (task.topic_id, task.reports and task.reports.location) == ("T", "/state")
    assert len({id(read_task.reports) for read_task in [task, *others]}) == 1


def test_tasks_carry_no_state_location_that_nothing_needs() -> None:
    assert tasks(DOCUMENT)[0].reports is None
    assert tasks(DOCUMENT, stateLocation="/state", topic_id=None)[0].reports is None


def test_with_an_evaluator_every_task_knows_where_to_report() -> None:
    evaluated = {"stateLocation": "/state", "recordEvaluator": "m:f"}
    assert all(task.reports is not None for task in tasks(DOCUMENT, topic_id=None, **evaluated))
    assert all(task.reports is None for task in tasks(DOCUMENT, topic_id=None, stateLocation="/state"))


def test_a_task_knows_that_its_split_has_a_stop_record() -> None:
    planned = tasks(DOCUMENT, ended={3: 1})
    assert {task.part.split.partition for task in planned if task.has_stop_record} == {3}
