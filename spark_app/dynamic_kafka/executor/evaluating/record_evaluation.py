"""End a range at the record that ends its split. Runs on executors, for `range_reader`.

A record for which the evaluator answers yes is a stop record. It is not emitted, nor is anything behind it. The batch
was planned beyond it, so what one attempt has found must hold for all others: a retry, a speculative attempt, a replay
after a restart, also with an evaluator that changed. Hence a report (`BatchReports.save_stop_record`):

With `timestampAssigner`, each range gets a report: it pauses before a record that is too new for the batch, or is read
whole, and the times are in the report.

1. An attempt first asks for a report. With one it reads up to there, and evaluates nothing.
2. At its end, and before its last rows, it asks again. A report that appeared meanwhile has to name its own stop
   record, else the attempt fails, and the next one obeys.
3. Without a report, it writes its own. Spark takes the rows of an attempt only after that.

If the process dies before 3, nothing counts. If it dies after 3, the next attempt obeys. The report is of the planned
topic: 3 comes after the last look at the topic's id. Decision 025 has the reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka.errors import OptionError, RecordEvaluationError
from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.decoding.typed_rows import TypedRows, ValueDecoding
from dynamic_kafka.executor.evaluating.dead_letters import DeadLetters
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.evaluating.event_times import EventTimes, milliseconds
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.columns import arrow_schema, is_as_new, is_late, without_time
from dynamic_kafka.executor.reading.rows import Rows, time_error, time_problem
from dynamic_kafka.options.columns import EVENT_TIME, all_columns
from dynamic_kafka.planning.document.stop_records import RangeEnd
from dynamic_kafka.state.folder import RANGE_END
from dynamic_kafka.wording import counted

log = logging.getLogger(__name__)


class StopSearch:
    """The search for the stop record in one range, and for records that are refused: malformed, or by a deserialiser.

    Args:
        confirm: is called before dead letters are written. Raises if the records may be those of another topic.

    Attributes:
        stop_offset: the offset of the record at which the range ends, None before it is seen.
    """

    def __init__(self, task: ReadTask, evaluator: Evaluator, confirm: Callable[[], None] = lambda: None) -> None:
        self._task, self._evaluator, self._confirm = task, evaluator, confirm
        target = task.dead_letters
        self._dead_letters = DeadLetters(task, target) if target is not None else None
        self._keeps_refused = target is not None and target.refused
        self._late_before_ms = task.late_before_ms if target is not None and target.late else None
        self.stop_offset: int | None = None
        self._ends: RangeEnd = "whole"
        self._time_ms: int | None = None

    def batches(self, fetched: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """Yield the records before the stop record, in batches, without those that are refused.

        The decoder and the evaluator see columns that the rows may not have.

        Raises as `Evaluator.first_end`, `DeadLetters.write`, `time_error` and `_refuse`.
        """
        split, values = self._task.part.split, self._evaluator.values
        needs_all = self._evaluator.needs_all_columns
        shown = all_columns(include_headers=self._task.include_headers) if needs_all else ()
        read = (*self._task.read_columns, *((EVENT_TIME,) if self._evaluator.times is not None else ()))
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
                batch, end = self._up_to_the_end(rows, batch, end, shown, refused or ())
                if values is None:
                    for at in (at for at in untimed if at < len(batch)):
                        if refused is None:
                            raise time_error(rows, at, split)
                        refused.setdefault(at, time_problem(rows, at))
                letters = {at: why for at, why in (refused or {}).items() if at < len(batch)}
                letters |= self._late(batch, letters)
                if self._dead_letters is not None and letters:
                    self._confirm()
                    self._dead_letters.write(fetched_rows, _places(rows, letters))
                    batch = batch.filter(pa.array([at not in letters for at in range(len(batch))]))
                if values is not None and malformed:
                    self._refuse(values, fetched_rows, malformed)
                del rows, fetched_rows  # or they would stay in memory while the next ones are fetched
                if len(batch):
                    yield batch.select(read)
                if end is not None:
                    return
        finally:
            if self._dead_letters is not None:
                self._dead_letters.close()

    def _up_to_the_end(
        self,
        rows: Rows,
        batch: pa.RecordBatch,
        end: int | None,
        shown: Sequence[str],
        refused: Container[int],
    ) -> tuple[pa.RecordBatch, int | None]:
        """Return the rows before the end of the range, with their times, and the index of the end; None if it goes on.

        Args:
            end: the index of the stop record.
            refused: the indices of records that are no rows: they have no time.
        """
        times = self._evaluator.times
        if end is not None:
            self._ends, batch = "split", batch.slice(0, end)
        if times is not None:
            batch, pause = self._with_times(batch, times, shown, refused)
            end = end if pause is None else pause
        if end is not None:
            self.stop_offset = rows.offset(end)
        return batch, end

    def _with_times(
        self, batch: pa.RecordBatch, times: EventTimes, shown: Sequence[str], refused: Container[int]
    ) -> tuple[pa.RecordBatch, int | None]:
        """Return the rows with their times, up to the first one that is too new, and the index of that; else None."""
        looked_at = batch.select(shown) if times.shows_all else batch
        if refused:
            kept = [at for at in range(len(batch)) if at not in refused]
            found = times.of(looked_at.take(pa.array(kept, pa.int64())), self._task.part.split)
            places = dict(zip(kept, range(len(kept)), strict=True))
            column = found.take(pa.array([places.get(at) for at in range(len(batch))], pa.int64()))
        else:
            column = times.of(looked_at, self._task.part.split)
        pause = None
        if self._task.pauses_at_ms is not None:
            at = pc.index(is_as_new(column, self._task.pauses_at_ms), True).as_py()
            pause = at if at >= 0 else None
            if pause is not None:
                self._ends, self._time_ms = "pause", milliseconds(column[pause])
            else:
                newest = milliseconds(pc.max(column))
                self._time_ms = max((time for time in (self._time_ms, newest) if time is not None), default=None)
        batch = batch.append_column(EVENT_TIME, column)
        return (batch if pause is None else batch.slice(0, pause)), pause

    def _late(self, batch: pa.RecordBatch, refused: Container[int]) -> dict[int, str]:
        """Return the late rows that become dead letters, with the cause, and count them."""
        before_ms = self._late_before_ms
        if before_ms is None:
            return {}
        times = batch.column(self._task.time_column)
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
        reports, split, offset = self._task.reports, self._task.part.split, self.stop_offset
        by_value = reports is not None and reports.kind == RANGE_END and not self._task.is_reported
        if reports is None or not (self._evaluator.ends_splits or by_value):
            return
        if by_value and offset is None:
            offset = self._task.part.end
        known = reports.stop_record(split)
        if known is None and offset is not None:
            more = {"ends": self._ends, "time": self._time_ms} if by_value else {}
            reports.save_stop_record(split, offset, self._task.topic_id, **more)
            known = reports.stop_record(split)
        if known != offset:
            own = "nowhere" if offset is None else f"at offset {offset}"
            raise RecordEvaluationError(
                f"another attempt has ended {split} at offset {known}, this one {own}: give all executors one version"
            )


def _places(rows: Rows, letters: dict[int, str]) -> dict[int, str]:
    """Return {index: cause} by the records' indices in the rows as Kafka has them."""
    return {rows.original(at): why for at, why in letters.items()} if isinstance(rows, TypedRows) else letters


def begin(task: ReadTask, evaluation: Evaluation | None) -> tuple[ReadTask, Evaluator | None]:
    """Return the range to read, and the evaluator; None if it has nothing to do.

    If the stop record is known, nothing is evaluated. Values are still decoded, records are still refused, and rows
    still get their times.

    Raises:
        OptionError: executors cannot load the evaluator; or as `BatchReports.stop_record`.
        DynamicKafkaError: as `BatchReports.stop_record`.
    """
    must_report = task.reports is not None and task.reports.kind == RANGE_END and not task.is_reported
    decided = task.has_stop_record or evaluation is None or evaluation.evaluator is None
    if task.reports is not None and not task.is_reported and (must_report or not decided):
        known = task.reports.stop_record(task.part.split)
        if known is not None:
            part = replace(task.part, end=max(task.part.start, min(known, task.part.end)))
            task = replace(task, part=part, pauses_at_ms=None, is_reported=True)
            decided, must_report = True, False
    if evaluation is None:
        return task, Evaluator("", "", None, None, None) if must_report else None
    if decided and not must_report and not evaluation.looks_at_rows and task.dead_letters is None:
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
