"""Stop records: the records at which a record evaluator has ended splits (`recordEvaluator`).

Pure values and arithmetic; `executor.evaluating.record_evaluation` finds stop records and reports them,
`planning.document.amendments` applies them to a batch, `state.store` reads them.

A batch is planned to the end of the log, before anyone has seen its records. If one of them ends the split, the batch
reads up to that record, in each replay. The next document records it (`TopicProgress.ended`), with the split's next
offset at the stop record: from then on no report is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split, SplitRange


class StopRecord(NamedTuple):
    """The record that ended a split. `topic_id` is None if the brokers report none."""

    split: Split
    offset: int
    topic_id: str | None


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
    """Return the progress with these splits ended: none goes behind its stop record.

    A split of which the batch left a range out is still before its stop record: it will be read up to there.
    """
    clusters = {cluster: dict(reading.topics) for cluster, reading in progress.clusters.items()}
    for (cluster, name, partition), offset, _ in stop_records:
        topic = clusters[cluster][name]
        following = min(topic.next[partition], offset)
        clusters[cluster][name] = replace(
            topic, next={**topic.next, partition: following}, ended={**topic.ended, partition: offset}
        )
    kept = {cluster: replace(reading, topics=clusters[cluster]) for cluster, reading in progress.clusters.items()}
    return replace(progress, clusters=kept)
