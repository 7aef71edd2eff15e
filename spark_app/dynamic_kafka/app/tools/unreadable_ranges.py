"""Find ranges of a pending batch whose records are gone, before a restart fails on them. Tools only; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.planning.observation import TopicObservation
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.wording import tool_command


def find_unreadable(
    ranges: Iterable[SplitRange], topic_of: Callable[[Split], TopicObservation | None]
) -> dict[Split, str]:
    """Return the splits whose ranges cannot be read as they were planned, each with the reason.

    Args:
        topic_of: returns what a split's cluster answered about its topic, with first offsets and high watermarks; None
            if it did not answer.
    """
    unreadable: dict[Split, str] = {}
    for part in ranges:
        topic = topic_of(part.split)
        if topic is None:
            continue
        partition = part.split.partition
        # With `read_committed`, `latest` is the start of the first open transaction, and records after it still exist.
        first, end = topic.earliest.get(partition), topic.high.get(partition, topic.latest.get(partition))
        if first is not None and part.start < first:
            unreadable[part.split] = f"records {part.start}..{min(first, part.end)} have expired"
        elif end is not None and end < part.end:
            unreadable[part.split] = f"records {max(end, part.start)}..{part.end} are gone: the log ends at {end}"
    return unreadable


def unreadable_error(unreadable: Mapping[Split, str]) -> DataLossError:
    """Return the error of a restart, with the two commands for each split that let the query continue."""
    steps = []
    for split, reason in unreadable.items():
        name = "/".join(map(str, split))
        steps.append(
            f"{name}: {reason}: abandon the range with {tool_command('abandon', name)}, then accept the loss with"
            f" {tool_command('accept', name, flag='--data-loss')}"
        )
    return DataLossError(
        f"the pending batch cannot be read again as it was planned, unless the records are restored: {'; '.join(steps)}"
    )
