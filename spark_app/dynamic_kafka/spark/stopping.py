"""End a streaming query when all its splits have reached their stopping offsets or stop records.

Runs in the user's driver process. A source cannot stop a Spark query: it marks the offset document as finished, and
the owner of the query stops it. The bundled application does this by itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamic_kafka.planning.document.codec import decode, is_saved_document

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.5
"""Seconds between two looks at the query's progress."""


def is_finished(progress: Any) -> bool:
    """Return whether all `dynamic-kafka` sources of a query have read everything, up to stopping offsets or records.

    The end offset shows that the last batch is done. The planner's report must confirm it, since a batch may have left
    out ranges that the next batch reads.

    Args:
        progress: a query's `lastProgress`; None before its first event.
    """
    sources = json.loads(progress.json)["sources"] if progress is not None else []
    ours = [
        (decode(end), source.get("latestOffset"))
        for source in sources
        if is_saved_document(end := source.get("endOffset"))
    ]
    return bool(ours) and all(
        document.finished and isinstance(report, dict) and report.get("finished") is True for document, report in ours
    )


def stop_when_finished(query: StreamingQuery, timeout_s: float | None = None) -> bool:
    """Wait until a query that ends by itself has read everything, then stop it.

    Args:
        query: a query on `dynamic-kafka` with `endingOffsets`, stopping offsets or a record evaluator.
        timeout_s: longest wait in seconds; None waits for ever.

    Returns:
        True if the query had read everything and was stopped; False if time ran out, or the query ended by itself.

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
