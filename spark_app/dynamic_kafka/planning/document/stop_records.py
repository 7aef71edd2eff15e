"""Stop records: where executors have ended ranges: by `recordEvaluator`, or by the times of records.

Pure values and arithmetic; `executor.evaluating.record_evaluation` finds stop records and reports them,
`planning.document.amendments` applies them to a batch, `state.store` reads them.

A batch is planned to the end of the log, before anyone has seen its records. If one of them ends the split, the batch
reads up to that record, in each replay. The next document records it (`TopicProgress.ended`), with the split's next
offset at the stop record: from then on no report is needed.

With `timestampAssigner`, a range may also pause at a record that is too new for the batch. Each range has a report
then, which says how old the unread records are at least. The next document has that as `TopicProgress.times`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, NamedTuple

from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split, SplitRange

RangeEnd = Literal["split", "pause", "whole"]
"""A range ended with its split; or before a record that a later batch will read; or at its planned end."""


class StopRecord(NamedTuple):
    """The record at which an attempt has ended a range.

    Attributes:
        topic_id: None if the brokers report none.
        time_ms: the time of that record for `pause`, the newest one of the range for `whole`, milliseconds since the
            epoch; None if no record has one.
    """

    split: Split
    offset: int
    topic_id: str | None
    ends: RangeEnd = "split"
    time_ms: int | None = None


def of_document(stop_records: Iterable[StopRecord], document: OffsetDocument) -> list[StopRecord]:
    """Return the stop records of the topics that a document has: a topic that was re-created since is another one."""
    topics = ((record, document.topic(record.split.cluster, record.split.topic)) for record in stop_records)
    return [
        record
        for record, topic in topics
        if topic is not None and record.split.partition in topic.next and topic.topic_id == record.topic_id
    ]


def cut(ranges: Iterable[SplitRange], stop_records: Iterable[StopRecord]) -> list[SplitRange]:
    """Return the ranges up to the stop records, without empty ones."""
    ends = {record.split: record.offset for record in stop_records}
    shortened = (replace(part, end=min(part.end, ends.get(part.split, part.end))) for part in ranges)
    return [part for part in shortened if part.size > 0]


def end_splits(progress: OffsetDocument, stop_records: Iterable[StopRecord]) -> OffsetDocument:
    """Return the progress with these ranges ended: no split goes behind its stop record.

    A split of which the batch left a range out is still before its stop record: it will be read up to there.
    """
    by_topic: dict[tuple[str, str], list[StopRecord]] = {}
    for record in stop_records:
        by_topic.setdefault((record.split.cluster, record.split.topic), []).append(record)
    clusters = {cluster: dict(reading.topics) for cluster, reading in progress.clusters.items()}
    for (cluster, name), records in by_topic.items():
        topic = clusters[cluster][name]
        following, ended, times = dict(topic.next), dict(topic.ended), dict(topic.times)
        for (_, _, partition), offset, _, ends, time_ms in records:
            is_read = following[partition] >= offset
            following[partition] = min(following[partition], offset)
            if ends == "split":
                ended[partition] = offset
            elif is_read:
                # A range without any time leaves the split where the clock is: its next record may have any later one.
                found = [time for time in (times.get(partition), time_ms, progress.clock_ms) if time is not None]
                times |= {partition: max(found)} if found else {}
        clusters[cluster][name] = replace(topic, next=following, ended=ended, times=times)
    kept = {cluster: replace(reading, topics=clusters[cluster]) for cluster, reading in progress.clusters.items()}
    return replace(progress, clusters=kept)
