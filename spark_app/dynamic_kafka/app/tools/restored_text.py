"""The output of `restore-offsets`: the offsets, the numbers, and the steps to take. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from textwrap import indent
from typing import Any

import yaml

from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.app.tools.restored_offsets import RestoredOffsets, SavedOffsets
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few

_LAST_STEPS = " ".join(
    (
        "Give the query a new checkpoint and a new stateLocation, and a Parquet sink a new folder.",
        "After its first committed batch, remove startingOffsets and topicIds from the metadata.",
    )
)


def restored_text(
    saved: SavedOffsets, restored: RestoredOffsets, checkpoint: str | None, *, evaluates: bool = False, group: str = ""
) -> str:
    """Return the result as text.

    Args:
        checkpoint: the query's checkpoint, if it still holds a batch.
        evaluates: whether the query has a record evaluator.
        group: a sentence about the consumer group, if the query has one.
    """
    rows = [
        (*split.split, "first record" if split.start is None else split.start, split.waiting, split.twice, split.missed)
        for split in restored.splits
    ]
    titles = ("cluster", "topic", "partition", "start", "waiting", "twice", "missed")
    parts = [
        f"From {saved.origin}.",
        *_notes(saved, restored, checkpoint),
        table(titles, rows),
        _sums(restored),
        *(_stop_records(saved, restored) if evaluates else ()),
        f"In the metadata, for each cluster:\n\n{_yaml(_metadata(restored))}",
        "Or as an option, which must list every partition (-2: the first record) and cannot check topic ids:",
        f"    startingOffsets  {json.dumps(_nested(_every(restored)), sort_keys=True)}",
        _LAST_STEPS,
        *filter(None, [group]),
        *_unnamed(saved, restored),
    ]
    return "\n\n".join(parts)


def _notes(saved: SavedOffsets, restored: RestoredOffsets, checkpoint: str | None) -> Iterator[str]:
    if saved.over:
        yield "The query is over: all splits ended at stop records. A new query also reads splits added since."
    if checkpoint is not None:
        yield f"{checkpoint} holds a checkpoint: if it can be read, continue with it instead (`inspect` shows it)."
    if restored.unchecked:
        names = first_few(restored.unchecked)
        yield f"NOT CHECKED: this source has no ids of {names}. If they were replaced, records are lost or repeated."


def _unnamed(saved: SavedOffsets, restored: RestoredOffsets) -> Iterator[str]:
    """Yield the lines for clusters and topics that metadata may name again: no form of a start has them before."""
    unnamed = restored.unnamed
    if unnamed:
        again = sum(unnamed.values())
        sentences = (
            f"NOT RESTORED: the metadata does not name {len(unnamed)} saved partitions now: {first_few(unnamed)}.",
            "Keep these lines, and put them into the metadata together with the topics when these return.",
            f"Without them, the topics are read from their first records: at most {again} records a second time.",
        )
        yield f"{' '.join(sentences)}\n\n{_yaml(_entries(unnamed, saved.topic_ids))}"


def _sums(restored: RestoredOffsets) -> str:
    known = [split.twice for split in restored.splits if split.twice is not None]
    missed = sum(split.missed for split in restored.splits)
    lines = [
        f"The group has committed {sum(known)} offsets from the start on: they, and what came since, come twice."
        if known
        else "It is not known how many records come twice.",
        f"At most {missed} records are missed: they have expired since.",
    ]
    new = sum(split.start is None for split in restored.splits)
    if new:
        lines.append(f"{new} partitions are not saved, and start at their first record.")
    lines.append("All numbers count offsets: with compaction or transactions there are fewer records.")
    return "\n".join(lines)


def _stop_records(saved: SavedOffsets, restored: RestoredOffsets) -> Iterator[str]:
    if saved.ended is None:
        yield "This source does not show which splits have ended: one with MISSED records may pass its stop record."
    elif saved.ended:
        ended = [split.split for split in restored.splits if split.ended]
        named = first_few(ended) or "none that is named now"
        yield f"{len(ended)} splits had ended at stop records: {named}. The record evaluator ends them there again."


def _every(restored: RestoredOffsets) -> dict[Split, int]:
    """Return the start of each split as the option has it: -2 is the first record."""
    return {split.split: -2 if split.start is None else split.start for split in restored.splits}


def _metadata(restored: RestoredOffsets) -> list[Any]:
    """Return the fields of each cluster. One without offsets must not get the option's default, which is the end."""
    saved = {entry["clusterId"]: entry for entry in _entries(restored.offsets(), restored.topic_ids)}
    clusters = dict.fromkeys(split.split.cluster for split in restored.splits)
    return [saved.get(cluster, {"clusterId": cluster, "startingOffsets": "earliest"}) for cluster in clusters]


def _entries(offsets: Mapping[Split, int], topic_ids: Mapping[tuple[str, str], str]) -> list[Any]:
    """Return the fields of each cluster in the metadata: the offsets, and the ids that the topics must have."""
    entries = []
    for cluster, topics in _nested(offsets).items():
        pins = {name: shown_topic_id(topic_ids.get((cluster, name))) for name in topics}
        pinned = {name: topic_id for name, topic_id in pins.items() if topic_id is not None}
        entry = {"clusterId": cluster, "startingOffsets": topics, "topicIds": pinned}
        entries.append({key: value for key, value in entry.items() if value})
    return entries


def _nested(offsets: Mapping[Split, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Return {cluster: {topic: {partition: offset}}}."""
    by_cluster: dict[str, dict[str, dict[str, int]]] = {}
    for (cluster, topic, partition), offset in offsets.items():
        by_cluster.setdefault(cluster, {}).setdefault(topic, {})[str(partition)] = offset
    return by_cluster


def _yaml(content: object) -> str:
    return indent(str(yaml.safe_dump(content, sort_keys=False)), "    ").rstrip()


def restored_wire(saved: SavedOffsets, restored: RestoredOffsets) -> dict[str, Any]:
    """Return the result for `--json`."""
    return {
        "from": saved.origin,
        "startingOffsets": _nested(_every(restored)),
        "metadata": _metadata(restored),
        "splits": [asdict(split) for split in restored.splits],
        "unnamed": _entries(restored.unnamed, saved.topic_ids),
        "unchecked": list(restored.unchecked),
        "over": saved.over,
    }
