"""End a bounded streaming query when all its splits have reached their stopping offsets.

Runs in the user's driver process. A source cannot stop a Spark query; it marks the offset document, and whoever owns
the query stops it. The bundled application does so by itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamic_kafka.planning.codec import decode

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.5


def is_finished(progress: Any) -> bool:
    """Whether a progress event shows that all sources of ours in the query have read all they will ever read.

    The batch must be done, hence the end offset counts; and the planner must say so too, since a batch may have left
    ranges out that the next one reads.
    """
    sources = json.loads(progress.json)["sources"] if progress is not None else []
    # Spark describes every Python source by the same class: an offset document is what tells ours.
    ours = [
        (decode(end), source.get("latestOffset"))
        for source in sources
        if isinstance(end := source.get("endOffset"), dict) and {"version", "query", "clusters"} <= end.keys()
    ]
    return bool(ours) and all(
        document.finished and isinstance(told, dict) and told.get("finished") is True for document, told in ours
    )


def stop_when_finished(query: StreamingQuery, timeout_s: float | None = None) -> bool:
    """Wait until a bounded query has read everything, then stop it.

    Args:
        query: a query on `dynamic-kafka` with `endingOffsets` or stopping offsets.
        timeout_s: give up waiting after so many seconds; None waits for ever.

    Returns:
        True if the query was stopped because it had finished; False if time ran out or it ended by itself.

    Raises:
        StreamingQueryException: the query failed.
    """
    waited = 0.0
    while timeout_s is None or waited < timeout_s:
        if query.awaitTermination(POLL_S):  # type: ignore[arg-type]
            return False
        if is_finished(query.lastProgress):
            query.stop()
            return True
        waited += POLL_S
    return False
