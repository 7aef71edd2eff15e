"""Rate limits of one batch, shared over all clusters (`maxOffsetsPerTrigger` and its relatives).

Pure arithmetic; `planning.plan` calls it once a plan. Like Spark, it shares a limit in proportion to each partition's
lag. Unlike Spark, it never exceeds the limit, and no split starves, however small its lag is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

S = TypeVar("S")


def share(lags: Mapping[S, int], limit: int, turn: int = 0) -> dict[S, int]:
    """Share `limit` offsets over splits by their lag.

    Args:
        lags: offsets waiting per split; splits without any are ignored.
        limit: offsets to give out in total, at least 1.
        turn: a number that grows with every batch. With fewer offsets than splits, it selects the splits of this batch,
            so that each split has its turn. It comes from the offset document, so that a plan is a pure function.

    Returns:
        Offsets per split with lag, each at most its lag; their sum is min(limit, total lag).
    """
    waiting = [split for split, lag in lags.items() if lag > 0]
    total = sum(lags[split] for split in waiting)
    if total <= limit:
        return {split: lags[split] for split in waiting}
    if limit < len(waiting):
        first = turn * limit % len(waiting)
        chosen = (waiting[first:] + waiting[:first])[:limit]
        return dict.fromkeys(chosen, 1)
    # One for each split, the rest by lag: rounded down first, then the largest remainders, ties by order.
    rest, rest_total = limit - len(waiting), total - len(waiting)
    granted = {split: 1 + (lags[split] - 1) * rest // rest_total for split in waiting}
    left = limit - sum(granted.values())
    by_remainder = sorted(waiting, key=lambda split: -((lags[split] - 1) * rest % rest_total))
    for split in by_remainder[:left]:
        granted[split] += 1
    return granted


def must_wait(total_lag: int, *, min_offsets: int | None, waited_ms: int, max_delay_ms: int) -> bool:
    """Return whether a batch waits for more records (`minOffsetsPerTrigger`), at most for `maxTriggerDelay`.

    Args:
        total_lag: offsets waiting over all splits.
        waited_ms: milliseconds since the last batch was planned.
    """
    return min_offsets is not None and 0 < total_lag < min_offsets and waited_ms < max_delay_ms
