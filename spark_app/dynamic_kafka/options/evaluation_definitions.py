"""The options about ending by a record, declared as those in `definitions`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.options.checks import check_evaluator, check_import_path
from dynamic_kafka.options.option import option


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The record evaluator, which ends each split at a record (FLIP-208), and what it gets to see."""

    record_evaluator: str | None = option(
        "recordEvaluator",
        "text",
        "A class or function of your own that ends a split: the record for which it answers `True` is not read, nor is"
        " any record behind it in that split. The query ends once all splits have ended"
        " ([how to](../how-to/reading.md#end-by-a-record))."
        " A class gets all options as one mapping, which ignores letter case."
        " Its own options are `recordEvaluator.<key>`. Streaming needs `stateLocation`.",
        "`module:Name`, or a name that `register` was given",
        aliases=("scan.record.evaluator.class",),
        check=check_evaluator,
    )
    record_deserializer: str | None = option(
        "recordDeserializer",
        "text",
        "A class or function of your own that turns a record into what the record evaluator gets. Without it, the"
        " evaluator gets the record as Kafka has it. With `mode=deadletter` it decides which records are read, too. Its"
        " own options are `recordDeserializer.<key>`.",
        "`module:Name`",
        check=check_import_path,
    )
