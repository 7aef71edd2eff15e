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

import logging
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka.errors import OptionError, RecordEvaluationError
from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.decoding.typed_rows import TypedRows, ValueDecoding
from dynamic_kafka.executor.evaluating.dead_letters import DeadLetters
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.columns import TIMESTAMP, arrow_schema, is_late, without_time
from dynamic_kafka.executor.reading.rows import Rows, time_error, time_problem
from dynamic_kafka.options.columns import all_columns
from dynamic_kafka.wording import counted

log = logging.getLogger(__name__)


class StopSearch:
    """The search for the stop record in one range, and for records that are refused: malformed, or by a deserialiser.

    Args:
        confirm: is called before dead letters are written. Raises if the records may be those of another topic.

    Attributes:
        stop_offset: the offset of the stop record, None before it is seen.
    """

    def __init__(self, task: ReadTask, evaluator: Evaluator, confirm: Callable[[], None] = lambda: None) -> None:
        self._task, self._evaluator, self._confirm = task, evaluator, confirm
        target = task.dead_letters
        self._dead_letters = DeadLetters(task, target) if target is not None else None
        self._keeps_refused = target is not None and target.refused
        self._late_before_ms = task.late_before_ms if target is not None and target.late else None
        self.stop_offset: int | None = None

    def batches(self, fetched: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """Yield the records before the stop record, in batches, without those that are refused.

        The decoder and the evaluator see columns that the rows may not have.

        Raises as `Evaluator.first_end`, `DeadLetters.write`, `time_error` and `_refuse`.
        """
        split, values = self._task.part.split, self._evaluator.values
        shown = all_columns(include_headers=self._task.include_headers) if self._evaluator.mask is not None else ()
        needed = (*shown, "value") if values is not None else shown
        schema = arrow_schema(dict.fromkeys((*self._task.read_columns, *needed)))
        try:
            for fetched_rows in fetched:
                batch = fetched_rows.batch(schema)
                untimed = without_time(batch) if "timestamp" in self._task.columns else []
                rows, malformed = (fetched_rows, []) if values is None else values.decode(fetched_rows, batch, untimed)
                batch = batch if values is None else rows.batch(schema)
                refused: dict[int, str] | None = {} if self._keeps_refused else None
                end = self._evaluator.first_end(rows, batch.select(shown), split, refused)
                if end is not None:
                    self.stop_offset = rows.offset(end)
                    batch = batch.slice(0, end)
                if values is None:
                    for at in (at for at in untimed if at < len(batch)):
                        if refused is None:
                            raise time_error(rows, at, split)
                        refused.setdefault(at, time_problem(rows, at))
                letters = dict(refused or {})
                letters |= self._late(batch, letters)
                if self._dead_letters is not None and letters:
                    self._confirm()
                    self._dead_letters.write(fetched_rows, _places(rows, letters))
                    batch = batch.filter(pa.array([at not in letters for at in range(len(batch))]))
                if values is not None and malformed:
                    self._refuse(values, fetched_rows, malformed)
                del rows, fetched_rows  # or they would stay in memory while the next ones are fetched
                if len(batch):
                    yield batch.select(self._task.read_columns)
                if end is not None:
                    return
        finally:
            if self._dead_letters is not None:
                self._dead_letters.close()

    def _late(self, batch: pa.RecordBatch, refused: Container[int]) -> dict[int, str]:
        """Return the late rows that become dead letters, with the cause, and count them."""
        before_ms = self._late_before_ms
        if before_ms is None:
            return {}
        times = batch.column(TIMESTAMP)
        late = [at for at in pc.indices_nonzero(is_late(times, before_ms)).to_pylist() if at not in refused]
        if late:
            STATISTICS.add(self._task.part.split.cluster, ClientCounts(late=len(late)))
        return {at: f"late by {before_ms - times[at].value // 1000} ms" for at in late}

    def _refuse(self, values: ValueDecoding, rows: Rows, malformed: list[int]) -> None:
        """Treat malformed records as the mode says. Those behind the stop record are not read.

        Raises:
            RecordDecodingError: the mode is `failfast`.
        """
        before = [at for at in malformed if self.stop_offset is None or rows.offset(at) < self.stop_offset]
        if not before:
            return
        if self._dead_letters is not None and self._keeps_refused:
            self._confirm()
            self._dead_letters.write(rows, {at: values.cause(rows, at) for at in before})
        elif values.mode == "failfast":
            raise values.error(rows, before[0], self._task.part.split)
        else:
            dropped = counted(len(before), "malformed record", are=True)
            log.warning("%s left out of %s (mode=dropmalformed)", dropped, self._task.part)
            STATISTICS.add(self._task.part.split.cluster, ClientCounts(dropped=len(before)))

    def settle(self) -> None:
        """Make durable what was found. The caller emits the last rows of the range only after that.

        Raises:
            RecordEvaluationError: another attempt has found another stop record.
            OptionError, DynamicKafkaError: the `stateLocation` cannot be read or written.
        """
        reports, split = self._task.reports, self._task.part.split
        if reports is None or not self._evaluator.ends_splits:
            return
        known = reports.stop_record(split)
        if known is None and self.stop_offset is not None:
            reports.save_stop_record(split, self.stop_offset, self._task.topic_id)
            known = reports.stop_record(split)
        if known != self.stop_offset:
            own = "nowhere" if self.stop_offset is None else f"at offset {self.stop_offset}"
            raise RecordEvaluationError(
                f"another attempt has ended {split} at offset {known}, this one {own}: give all executors one version"
            )


def _places(rows: Rows, letters: dict[int, str]) -> dict[int, str]:
    """Return {index: cause} by the records' indices in the rows as Kafka has them."""
    return {rows.original(at): why for at, why in letters.items()} if isinstance(rows, TypedRows) else letters


def begin(task: ReadTask, evaluation: Evaluation | None) -> tuple[ReadTask, Evaluator | None]:
    """Return the range to read, and the evaluator; None if it has nothing to do.

    If the stop record is known, nothing is evaluated. Values are still decoded, and records are still refused.

    Raises:
        OptionError: executors cannot load the evaluator; or as `BatchReports.stop_record`.
        DynamicKafkaError: as `BatchReports.stop_record`.
    """
    if evaluation is None:
        return task, None
    decided = task.has_stop_record or evaluation.evaluator is None
    if not decided and task.reports is not None:
        known = task.reports.stop_record(task.part.split)
        if known is not None:
            end = max(task.part.start, min(known, task.part.end))
            task, decided = replace(task, part=replace(task.part, end=end)), True
    if decided and task.dead_letters is None and evaluation.values is None:
        return task, None
    try:
        evaluator = evaluation.load()
        if decided:
            refuses = task.dead_letters is not None and task.dead_letters.refused
            deserialize = evaluator.deserialize if refuses else None
            return task, replace(evaluator, is_end=None, mask=None, deserialize=deserialize)
        return task, evaluator
    except OptionError as error:
        raise OptionError(f"{error}. Executors need it, too: add its module to spark.submit.pyFiles") from error
