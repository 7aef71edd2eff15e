"""A pending batch whose records are not all there any more: found before a restart does. Tools only; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.planning.observation import TopicObservation
from dynamic_kafka.planning.splits import Split, SplitRange


def find_gone(ranges: Iterable[SplitRange], seen: Callable[[Split], TopicObservation | None]) -> dict[Split, str]:
    """Which ranges cannot be read again as they were planned, each with what is wrong.

    Args:
        seen: what a split's cluster says of its topic, first offsets and high watermarks included; None if it says
            nothing.
    """
    gone: dict[Split, str] = {}
    for part in ranges:
        topic = seen(part.split)
        if topic is None:
            continue
        partition = part.split.partition
        # Of a cluster that is read by committed records: behind the first open transaction nothing is gone.
        first, end = topic.earliest.get(partition), topic.high.get(partition, topic.latest.get(partition))
        if first is not None and part.start < first:
            gone[part.split] = f"records {part.start}..{min(first, part.end)} have expired"
        elif end is not None and end < part.end:
            gone[part.split] = f"records {max(end, part.start)}..{part.end} are gone: the log ends at {end}"
    return gone


def cannot_be_repeated(gone: Mapping[Split, str]) -> DataLossError:
    """What a restart would fail with, and the two words that let it go on."""
    tool, steps = "python -m dynamic_kafka.app", []
    for split, what in gone.items():
        name = "/".join(map(str, split))
        steps.append(
            f"{name}: {what}: abandon the range with `{tool} abandon app.yaml {name}`, then accept the loss with"
            f" `{tool} accept app.yaml --data-loss {name}`"
        )
    return DataLossError(
        f"the pending batch cannot be read again as it was planned, unless the records are restored: {'; '.join(steps)}"
    )
