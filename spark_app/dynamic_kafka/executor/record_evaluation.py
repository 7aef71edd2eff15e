"""End a range at the record that ends its split. Runs on executors, for `range_reader`.

A record for which the evaluator answers yes is a stop record. It is not emitted, nor is anything behind it. The batch
was planned beyond it, so what one attempt has found must hold for all others: a retry, a speculative attempt, a replay
after a restart, also with an evaluator that changed. Hence a report (`BatchReports.save_stop_record`):

1. An attempt first asks for a report. With one it reads up to there, and evaluates nothing.
2. At its end, and before its last rows, it asks again. A report that appeared meanwhile has to name its own stop
   record, else the attempt fails, and the next one obeys.
3. Without a report, it writes its own. Spark takes the rows of an attempt only after that.

If the process dies before 3, nothing counts. If it dies after 3, the next attempt obeys. The report is of the planned
topic: 3 comes after the last look at the topic's id. Decision 025 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from confluent_kafka import Message

from dynamic_kafka.errors import OptionError, RecordEvaluationError
from dynamic_kafka.executor.columns import to_batch
from dynamic_kafka.executor.evaluation import Evaluation
from dynamic_kafka.executor.evaluators import Evaluator
from dynamic_kafka.executor.read_task import ReadTask


class StopSearch:
    """The search for the stop record in one range.

    Attributes:
        found: the offset of the stop record, None before it is found.
    """

    def __init__(self, task: ReadTask, evaluator: Evaluator) -> None:
        self._task, self._evaluator = task, evaluator
        self.found: int | None = None

    def batches(self, fetched: Iterable[list[Message]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records before the stop record, in batches. Raises as `Evaluator.first_end`."""
        split, stream = self._task.part.split, self._task.stream
        for messages in fetched:
            batch = to_batch(messages, schema, split, stream)
            end = self._evaluator.first_end(messages, batch, split, stream)
            self.found = messages[end].offset() if end is not None else None
            del messages  # or they would stay in memory while the next ones are fetched
            if end is None:
                yield batch
                continue
            if end > 0:
                yield batch.slice(0, end)
            return

    def settle(self) -> None:
        """Make durable what was found. The caller emits the last rows of the range only after that.

        Raises:
            RecordEvaluationError: another attempt has found another stop record.
            OptionError, DynamicKafkaError: the `stateLocation` cannot be read or written.
        """
        reports, split = self._task.reports, self._task.part.split
        if reports is None:
            return
        known = reports.stop_record(split)
        if known is None and self.found is not None:
            reports.save_stop_record(split, self.found, self._task.topic_id)
            known = reports.stop_record(split)
        if known != self.found:
            own = "nowhere" if self.found is None else f"at offset {self.found}"
            raise RecordEvaluationError(
                f"another attempt has ended {split} at offset {known}, and this one would end it {own}: this attempt"
                " fails, and the next one obeys. A record evaluator has to give one answer for one record, on all"
                " executors: check that all of them have the same version of it"
            )


def begin(task: ReadTask, evaluation: Evaluation | None) -> tuple[ReadTask, Evaluator | None]:
    """Return the range to read, and the evaluator; None if nothing is evaluated, since the stop record is known.

    Raises:
        OptionError: executors cannot load the evaluator; or as `BatchReports.stop_record`.
        DynamicKafkaError: as `BatchReports.stop_record`.
    """
    if evaluation is None or task.has_stop_record:
        return task, None
    known = task.reports.stop_record(task.part.split) if task.reports is not None else None
    if known is not None:
        end = max(task.part.start, min(known, task.part.end))
        return replace(task, part=replace(task.part, end=end)), None
    try:
        return task, evaluation.load()
    except OptionError as error:
        raise OptionError(f"{error}. Executors need it, too: add its module to spark.submit.pyFiles") from error
