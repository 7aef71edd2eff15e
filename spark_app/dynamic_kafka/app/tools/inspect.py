"""The tool `inspect`: show the content of a checkpoint. Reads files only; the query may be running."""

from __future__ import annotations

import argparse
import json
from typing import Any

from dynamic_kafka.app.tools.formatting import shown_time, table
from dynamic_kafka.app.tools.saved_query import SavedQuery, add_query_arguments, open_query
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.progress import OffsetDocument, TopicProgress, has_stop_records
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.wording import first_few

HELP = "show a checkpoint: offsets, parked splits with their deadlines, the pending batch, ranges left out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `inspect`."""
    add_query_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Read the checkpoint and print it."""
    query = open_query(arguments)
    amendments = query.state.amendments(query.id) if query.state and query.id else []
    if arguments.json:
        print(json.dumps(_wire(query, amendments), indent=1))
    else:
        print(_text(query, amendments))
    return ExitCode.DONE


def _text(query: SavedQuery, amendments: list[Amendment]) -> str:
    saved, latest = query.saved, query.saved.latest
    head = [
        f"checkpoint  {query.checkpoint.uri}",
        f"query       {latest.query or '(none)'}",
        f"document    {latest.number}{' of a bounded run' if latest.bounded else ''}",
        f"batches     planned {saved.batches.planned}, committed {_or_none(saved.batches.committed)}",
        f"state       {query.state.uri if query.state else '(unknown)'}",
    ]
    after = saved.amended(amendments).after(latest)
    start = saved.batch_start(amendments) if saved.batches.pending is not None else None
    parts = ["\n".join(head), _pending_text(query, amendments), _offsets_text(after, start), _parked_text(latest)]
    if amendments:
        rows = [
            (a.number, *part.split, part.start, part.end, a.reasons.get(part.split.cluster), shown_time(a.made_ms))
            for a in amendments
            for part in a.left_out
        ]
        titles = ("document", "cluster", "topic", "partition", "from", "to", "why", "when")
        parts.append("Left out of batches:\n" + table(titles, rows))
    if (refusal := query.refused_start()) is not None:
        parts.append(f"A start would be refused: {refusal}.")
    elif saved.batches.pending is None and after.by_value:
        parts.append(
            f"{after.by_value} ranges of the last batch have no report of an executor: their next offsets are the"
            " planned ends. A start looks for the offsets that were read."
        )
    if after.over:
        parts.append("All splits have reached their stop records: this query is over, and plans no further batch.")
    elif after.finished:
        parts.append("This bounded run has reached all its ending offsets: it plans no further batch.")
    elif has_stop_records(after):
        waiting = first_few(after.open_splits()) or (
            "none of the active ones. The query is not over: its log and its report (`waitsFor`) have the reason"
        )
        parts.append(f"Splits that have not reached a stop record: {waiting}.")
    return "\n\n".join(part for part in parts if part)


def _pending_text(query: SavedQuery, amendments: list[Amendment]) -> str:
    saved = query.saved
    if saved.batches.pending is None:
        return "No batch is pending."
    head = f"Batch {saved.batches.pending} is pending: planned, not committed."
    ranges = _remaining(query, amendments)
    if ranges is None:
        return f"{head} Its ranges are unknown."
    if not ranges:
        return f"{head} It reads nothing from this source."
    rows = [(*part.split, part.start, part.end, part.size) for part in ranges]
    return f"{head}\n" + table(("cluster", "topic", "partition", "from", "to", "records"), rows)


def _remaining(query: SavedQuery, amendments: list[Amendment]) -> list[SplitRange] | None:
    """Return the ranges that a replay would still read; None if the documents do not show them."""
    try:
        return query.saved.remaining(amendments)
    except OffsetDocumentError:
        return None


def _offsets_text(document: OffsetDocument, start: OffsetDocument | None) -> str:
    rows = [
        (
            cluster,
            name,
            partition,
            *([start.next_of(Split(cluster, name, partition))] if start is not None else []),
            following,
            topic.ended.get(partition, topic.stops.get(partition)),
            _state_of(topic, partition),
        )
        for cluster, progress in sorted(document.clusters.items())
        for name, topic in sorted(progress.topics.items())
        for partition, following in sorted(topic.next.items())
    ]
    ids = [(cluster, progress.kafka_id or "(unknown)") for cluster, progress in sorted(document.clusters.items())]
    if not rows:
        return "No split is active."
    topics = [
        (cluster, name, shown_topic_id(topic.topic_id) or "(unknown)")
        for cluster, progress in sorted(document.clusters.items())
        for name, topic in sorted(progress.topics.items())
    ]
    pending_from = ["pending from"] if start is not None else []
    titles = ("cluster", "topic", "partition", *pending_from, "next offset", "stops at", "")
    return "\n\n".join(
        (
            table(("cluster", "kafka cluster.id"), ids),
            table(("cluster", "topic", "topic id"), topics),
            table(titles, rows),
        )
    )


def _state_of(topic: TopicProgress, partition: int) -> str:
    if partition in topic.ended:
        return "ended by a record" if topic.finished(partition) else "will end by a record"
    return "finished" if topic.finished(partition) else ""


def _parked_text(document: OffsetDocument) -> str:
    rows = [
        (cluster, name, partition, following, shown_time(topic.until_ms))
        for cluster, parked in sorted(document.parked.items())
        for name, topic in sorted(parked.topics.items())
        for partition, following in sorted(topic.progress.next.items())
    ]
    if not rows:
        return ""
    return "Parked:\n" + table(("cluster", "topic", "partition", "next offset", "kept until"), rows)


def _or_none(number: int | None) -> object:
    return "none" if number is None else number


def _wire(query: SavedQuery, amendments: list[Amendment]) -> dict[str, Any]:
    saved, latest = query.saved, query.saved.latest
    after = saved.amended(amendments).after(latest)
    start = saved.batch_start(amendments) if saved.batches.pending is not None else OffsetDocument()
    pending = _remaining(query, amendments)
    return {
        "checkpoint": query.checkpoint.uri,
        "query": latest.query,
        "document": latest.number,
        "bounded": latest.bounded,
        "finished": after.finished,
        "over": after.over,
        "batches": {
            "planned": saved.batches.planned,
            "committed": saved.batches.committed,
            "pending": saved.batches.pending,
        },
        "pendingRanges": [[*part.split, part.start, part.end] for part in pending or ()],
        "clusters": {
            cluster: {
                "kafkaId": progress.kafka_id,
                "topics": {
                    name: {
                        "stream": topic.stream,
                        "topicId": shown_topic_id(topic.topic_id),
                        "next": {str(p): offset for p, offset in sorted(topic.next.items())},
                        "pendingFrom": {
                            str(p): offset
                            for p in sorted(topic.next)
                            if (offset := start.next_of(Split(cluster, name, p))) is not None
                        },
                        "stops": {str(p): offset for p, offset in sorted(topic.stops.items())},
                        "ended": {str(p): offset for p, offset in sorted(topic.ended.items())},
                        "finished": [p for p in sorted(topic.next) if topic.finished(p)],
                    }
                    for name, topic in sorted(progress.topics.items())
                },
            }
            for cluster, progress in sorted(after.clusters.items())
        },
        "parked": {
            cluster: {
                "kafkaId": parked.kafka_id,
                "topics": {
                    name: {
                        "topicId": shown_topic_id(topic.progress.topic_id),
                        "next": {str(p): offset for p, offset in sorted(topic.progress.next.items())},
                        "ended": {str(p): offset for p, offset in sorted(topic.progress.ended.items())},
                        "untilMs": topic.until_ms,
                    }
                    for name, topic in sorted(parked.topics.items())
                },
            }
            for cluster, parked in sorted(latest.parked.items())
        },
        "refused": query.refused_start(),
        "amendments": [amendment.to_wire() for amendment in amendments],
    }
