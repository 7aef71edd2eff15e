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
from dynamic_kafka.wording import first_few


def restored_text(saved: SavedOffsets, restored: RestoredOffsets, checkpoint: str | None) -> str:
    """Return the result as text.

    Args:
        checkpoint: the query's checkpoint, if it still holds a batch.
    """
    rows = [
        (*each.split, "first record" if each.start is None else each.start, each.waiting, each.twice, each.missed)
        for each in restored.splits
    ]
    titles = ("cluster", "topic", "partition", "start", "waiting", "twice", "missed")
    offsets = restored.offsets()
    parts = [
        f"From {saved.origin}.",
        *_notes(restored, checkpoint),
        table(titles, rows),
        _sums(restored),
        f"In the metadata, for each cluster:\n\n{indent(_metadata(offsets), '    ').rstrip()}",
        "Or as an option of the new query, which has to list every partition (-2 is the first record):\n\n"
        f"    startingOffsets  {json.dumps(_every_partition(restored), sort_keys=True)}",
        "Give the query a new checkpoint and a new stateLocation, and a Parquet sink a new folder. After its first"
        " committed batch, remove the offsets from the metadata.",
    ]
    return "\n\n".join(parts)


def _notes(restored: RestoredOffsets, checkpoint: str | None) -> Iterator[str]:
    if checkpoint is not None:
        yield f"{checkpoint} holds a checkpoint: if it can be read, continue with it instead (`inspect` shows it)."
    if restored.unchecked:
        yield (
            f"NOT CHECKED: this source has no ids of {first_few(restored.unchecked)}. Make sure that these are still"
            " the same clusters and topics: offsets of others would skip or repeat records."
        )
    if restored.unnamed:
        yield f"Saved, but not in the metadata: {first_few(restored.unnamed)}."


def _sums(restored: RestoredOffsets) -> str:
    known = [each.twice for each in restored.splits if each.twice is not None]
    twice = f"At least {sum(known)} records come twice" if known else "It is not known how many records come twice"
    lines = [
        f"{twice}: they are behind the start, and another source shows them as delivered or committed.",
        f"{sum(each.missed for each in restored.splits)} records are missed: they have expired since.",
    ]
    unseen = [each.unseen for each in restored.splits if each.unseen is not None]
    if unseen:
        text = "records before the start have no row in the sink: its transformation dropped them, or they are missed"
        lines.append(f"At most {sum(unseen)} {text}.")
    new = sum(each.start is None for each in restored.splits)
    if new:
        lines.append(f"{new} partitions are not saved, and start at their first record.")
    return "\n".join(lines)


def _metadata(offsets: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    content = [
        {"clusterId": cluster, "startingOffsets": {topic: dict(found) for topic, found in topics.items()}}
        for cluster, topics in offsets.items()
    ]
    return str(yaml.safe_dump(content, sort_keys=False))


def _every_partition(restored: RestoredOffsets) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for each in restored.splits:
        start = -2 if each.start is None else each.start
        found.setdefault(each.split.cluster, {}).setdefault(each.split.topic, {})[str(each.split.partition)] = start
    return found


def restored_wire(saved: SavedOffsets, restored: RestoredOffsets) -> dict[str, Any]:
    """Return the result for `--json`."""
    return {
        "from": saved.origin,
        "startingOffsets": restored.offsets(),
        "splits": [asdict(each) for each in restored.splits],
        "unnamed": [list(split) for split in restored.unnamed],
        "unchecked": list(restored.unchecked),
    }
