"""The clock of a stream whose times are in the records' values (`timestampAssigner`). Pure.

No broker can look these times up, so no plan can cut a range by them. Executors do: each one ends its range before the
first record that is as new as the **horizon**, the clock and `watermarkAlignmentMaxDrift`. It reports that record's
time, or the newest time of a range that it has read whole (`planning.document.stop_records`). So the next plan has a
time for each split that no unread record is older than, and the clock is the least of them. It follows one batch
behind.

This holds for records in order within a split, as alignment by Kafka's timestamps does.
"""

from __future__ import annotations

from dynamic_kafka.planning.clock import FUTURE_MS, Aligned, Memory, Standing
from dynamic_kafka.planning.document.progress import OffsetDocument

BEFORE_ALL_MS = -(2**63 // 1000)
"""The horizon of a batch without a clock: each range ends before its first record with a time, which is reported."""


def horizon_ms(document: OffsetDocument, drift_ms: int) -> int:
    """Return the time before which the records of a batch are read; `document` is its last one."""
    return BEFORE_ALL_MS if document.clock_ms is None else document.clock_ms + drift_ms


def align_by_values(
    progress: OffsetDocument, stand: Standing, memory: Memory, *, drift_ms: int, now_ms: int
) -> Aligned:
    """Return the clock for the next batch, and the splits that take nothing, since their next record is too new.

    The arguments are those of `planning.clock.align`; `progress` has the times that executors have found.
    """
    times = {
        split: time_ms
        for split in stand.places
        if (time_ms := progress.clusters[split.cluster].topics[split.topic].times.get(split.partition)) is not None
    }
    beyond = frozenset(split for split, time_ms in times.items() if time_ms >= now_ms + FUTURE_MS)
    clock = progress.clock_ms
    holding = [
        split
        for split in stand.holding
        # Without a clock, nobody waits for a partition that never had a record.
        if split not in beyond and (clock is not None or stand.places[split].end != 0)
    ]
    held_by = min(holding, key=lambda split: (split in times, times.get(split, 0), split), default=None)
    if held_by is not None and held_by in times and not stand.waits_for:
        # A record that is newer than the driver's time is not yet due.
        found = min(times[held_by], now_ms)
        clock = found if clock is None else max(clock, found)
    # After a start, a record from the future is looked at again: the assigner may have changed.
    forgotten = beyond - memory.beyond
    # Without a clock, only the times of first records are looked for: none is read.
    too_new = {split for split, time_ms in times.items() if clock is None or time_ms >= clock + drift_ms}
    room = dict.fromkeys((too_new | beyond) - forgotten, 0)
    return Aligned(
        clock_ms=clock,
        room=room,
        held_by=held_by,
        beyond=beyond,
        forgotten=forgotten,
        waits_for=stand.waits_for,
        given_up=stand.given_up,
        memory=Memory(stand.read_since, beyond=beyond),
    )
