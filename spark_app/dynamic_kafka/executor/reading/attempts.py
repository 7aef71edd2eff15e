"""The time that each attempt of a task may take. Runs on executors; the readers of `spark` read through it.

Spark repeats a failed task in another Python process. After our own time-out the range has had its `readTimeout`, and
the next attempts get `RETRY_TIMEOUT_S`: `readTimeout` bounds the batch. After any other failure, such as a lost
executor or a killed process, the next attempt gets all of `readTimeout`.

A mark carries the time-out to the next process: an empty file in the executor's folder for temporary files, which Spark
deletes with the executor. Another executor finds no mark, and takes all of the time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from dynamic_kafka.errors import ClusterUnreachableError, ReadTimeoutError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.range_reader import read_range

RETRY_TIMEOUT_S = 5.0
"""Longest `readTimeout` of an attempt after a time-out of the same range."""
MARK_PREFIX = "dynamic-kafka-timeout-"


def read_attempt(task: ReadTask, evaluation: Evaluation | None = None) -> Iterator[pa.RecordBatch]:
    """Return the records of a range as `read_range` does, in the time that this attempt has."""
    context = TaskContext.get()
    mark = _mark(task, context) if context is not None else None
    if context is None or mark is None:
        return read_range(task, evaluation)
    return _marked(task, evaluation, mark, is_first=context.attemptNumber() == 0)


def _marked(task: ReadTask, evaluation: Evaluation | None, mark: Path, *, is_first: bool) -> Iterator[pa.RecordBatch]:
    if is_first:
        _remove(mark)  # of an earlier run of the batch
    elif mark.exists():
        task = replace(task, read_timeout_s=min(task.read_timeout_s, RETRY_TIMEOUT_S))
    try:
        yield from read_range(task, evaluation)
    except (ReadTimeoutError, ClusterUnreachableError):
        with suppress(OSError):  # without a mark, the next attempt takes longer
            mark.touch()
        raise
    _remove(mark)


def _mark(task: ReadTask, context: TaskContext) -> Path | None:
    """Return the path of the range's mark in the executor's first folder for temporary files; None without one."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if not folder:
        return None
    query, batch = (context.getLocalProperty(key) for key in ("sql.streaming.queryId", "streaming.sql.batchId"))
    key = (query, batch if query else f"stage {context.stageId()}", task.part)
    return Path(folder, MARK_PREFIX + hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest())


def _remove(mark: Path) -> None:
    with suppress(OSError):
        mark.unlink(missing_ok=True)
