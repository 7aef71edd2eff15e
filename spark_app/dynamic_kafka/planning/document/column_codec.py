"""The saved forms of a column: one number per partition of a topic.

Pure; `planning.document.codec` writes and reads the columns of an offset document with it. Equal columns have equal
text: a column has one form only, which follows from its numbers.

- `3`: all partitions 0..n-1 of the topic have this number.
- `[120, 98]`: the numbers of all partitions 0..n-1 of the topic.
- `"2:40:AAEB9A=="`: the same, packed: bytes per number, the least number, and base64 of what each number is above it.
  First come the highest bytes of all numbers, then the next ones.
- `{"1": 40}`: the numbers of some partitions.
- `{"partitions": "1:0:…", "numbers": "2:7:…"}`: the same, packed.

Few numbers stay readable. From `PACKED_FROM` numbers on the shorter form is written.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from dynamic_kafka.planning.document.progress import Column

PACKED_FROM = 16
"""The least count of numbers that may be packed."""

SavedColumn = int | list[int] | str | Mapping[str, int | str]
"""A column as JSON has it."""


def write_column(column: Column, whole: Column) -> SavedColumn | None:
    """Return the form of a column, or None if it is empty; a reader gets the partitions of the topic from `whole`."""
    plain = write_plain(column, whole)
    if len(column) < PACKED_FROM or isinstance(plain, int):
        return plain
    if isinstance(plain, list):
        packed = _pack(plain)
        # Each number takes at least its digits, a comma and a blank: mostly this decides, without the text.
        shortest = len(plain) * (len(str(min(map(abs, plain)))) + 2)
        return packed if text_length(packed) <= shortest or text_length(packed) <= text_length(plain) else plain
    partitions = sorted(column)
    some = {"partitions": _pack(partitions), "numbers": _pack([column[partition] for partition in partitions])}
    return min(some, plain, key=text_length)


def write_plain(column: Column, whole: Column) -> int | list[int] | dict[str, int] | None:
    """Return the form of a column without packing, as version 2 had it."""
    if not column:
        return None
    if _is_contiguous(column) and column.keys() == whole.keys():
        if len(set(column.values())) == 1:
            return column[0]
        return [column[partition] for partition in range(len(column))]
    return {str(partition): column[partition] for partition in sorted(column)}


def read_column(wire: Any, partitions: int | None) -> dict[int, int]:
    """Return a saved column; `partitions` is their count in the topic, if it is known.

    Raises:
        KeyError, TypeError, ValueError: the column is damaged.
    """
    if isinstance(wire, Mapping) and "numbers" in wire:
        return dict(zip(_unpack(wire["partitions"]), _unpack(wire["numbers"]), strict=True))
    if isinstance(wire, Mapping):
        return {int(partition): int(number) for partition, number in wire.items()}
    if isinstance(wire, str):
        return dict(enumerate(_unpack(wire)))
    if isinstance(wire, list):
        return dict(enumerate(int(number) for number in wire))
    if partitions is None:
        raise ValueError("one number stands for all partitions, but their count is missing")
    return dict.fromkeys(range(partitions), int(wire))


def write_nearby(plainly: str, distance: str, column: Column, near: Column, whole: Column) -> dict[str, Any]:
    """Return a column itself, or its distance behind another one, whichever is the shorter text.

    A query's first document names a start of every split, and would be twice as long as all others otherwise.
    """
    plain = write_column(column, whole)
    if column and column.keys() <= near.keys():
        distances = write_column({p: near[p] - number for p, number in column.items()}, whole)
        if text_length(distances) < text_length(plain):
            return {distance: distances}
    return {plainly: plain}


def read_nearby(wire: Mapping[str, Any], plainly: str, distance: str, near: Column, partitions: int) -> Column:
    """Return a column that `write_nearby` wrote."""
    distances = read_column(wire.get(distance, {}), partitions)
    return {p: near[p] - number for p, number in distances.items()} or read_column(wire.get(plainly, {}), partitions)


def uniform_count(column: Column) -> int | None:
    """Return the number of partitions if `write_column` writes one number for all of them."""
    return len(column) if _is_contiguous(column) and len(set(column.values())) == 1 else None


def text_length(wire: Any) -> int:
    """Return the length of the JSON text of a column."""
    return len(wire) + 2 if isinstance(wire, str) else len(json.dumps(wire))


def _is_contiguous(column: Column) -> bool:
    return len(column) > 0 and min(column) == 0 and max(column) == len(column) - 1


def _pack(numbers: Sequence[int]) -> str:
    least, count = min(numbers), len(numbers)
    above = [number - least for number in numbers]
    width = (max(above).bit_length() + 7) // 8 or 1
    # Copying every eighth byte is a call each; a loop over 10,000 numbers would take ten times as long.
    wide = struct.pack(f">{count}Q", *above)
    planes = b"".join(wide[byte::8] for byte in range(8 - width, 8))
    return f"{width}:{least}:{base64.b64encode(planes).decode()}"


def _unpack(text: str) -> list[int]:
    saved_width, least, encoded = text.split(":")
    width, planes = int(saved_width), base64.b64decode(encoded, validate=True)
    if not 1 <= width <= 8 or len(planes) % width:
        raise ValueError("a packed column is incomplete")
    count = len(planes) // width
    wide = bytearray(8 * count)
    for plane in range(width):
        wide[8 - width + plane :: 8] = planes[plane * count : (plane + 1) * count]
    return [int(least) + above for above in struct.unpack(f">{count}Q", wide)]
