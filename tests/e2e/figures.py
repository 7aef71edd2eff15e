"""The figures of a run: how soon an added cluster is read, by the way of the change. Pure.

They are over the undisturbed changes of all stories. `build/e2e/figures.json` has them, and the report shows them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Json = dict[str, Any]

BY_HAND = "by hand"
WAYS = ("Reload", "Restart", BY_HAND)
GOALS_S = {"Reload": 5.0, "Restart": 60.0}
"""The goals for the median from `kubectl apply` to the first record, in seconds."""
FILE = "figures.json"
_TIMES = ("apply_to_first_record", "restart_total")


def figures(stories: Sequence[Json]) -> Json:
    """Return median and values of both times in seconds, by way; the stories are as their files have them.

    `apply_to_first_record` begins when kubectl is called (by hand: for the edit of the document) and ends when the sink
    has a record of the added cluster. `restart_total` is the longest time without a new row around it.
    """
    return {way: _of_way(way, stories) for way in WAYS}


def _of_way(way: str, stories: Iterable[Json]) -> Json:
    changes = [
        {"story": story["story"], "what": change["what"], **{name: change[name] for name in _TIMES}}
        for story in stories
        for change in story["changes"]
        if change["way"] == way and not change["disturbed"] and change["apply_to_first_record"] is not None
    ]
    medians = {name: _median([entry[name] for entry in changes]) for name in _TIMES}
    return {"count": len(changes), "goal": GOALS_S.get(way), "median": medians, "changes": changes}


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 2) if known else None
