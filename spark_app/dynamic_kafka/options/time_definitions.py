"""The options of time over many clusters. Pure; `options.index` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.options.checks import (
    check_time_characteristic,
    check_timestamp_assigner,
    check_watermark_mode,
)
from dynamic_kafka.options.columns import EVENT_TIME, TIMESTAMP
from dynamic_kafka.options.option import option


@dataclass(frozen=True, kw_only=True)
class TimeOptions:
    """Alignment of the splits by the times of their records. `alignment_max_drift_ms` None: no alignment."""

    time_characteristic: Literal["event", "processing"] = option(
        "timeCharacteristic",
        "word",
        "Which time the query goes by: `event`, the records' own; or `processing`, without a clock. For `ingestion`"
        " time, use Spark's `current_timestamp()` ([time](../how-to/time.md#which-time)).",
        default="event",
        words=("event", "processing"),
        check=check_time_characteristic,
        streaming_only=True,
    )
    timestamp_assigner: str | None = option(
        "timestampAssigner",
        "text",
        "Where the time of a record is: a field of the value, which `value.schema` has as a timestamp or as a number of"
        " milliseconds since 1970, or a class or function of your own that returns the times of a batch of rows. Each"
        " row has it as the column `kafka_event_time`, and the clock follows it"
        " ([how to](../how-to/time.md#times-in-the-value)). Your code's own options are `timestampAssigner.<key>`. If"
        " absent: the record's Kafka timestamp. It needs `watermarkAlignmentMaxDrift` and `stateLocation`.",
        "`value.ordered_at`, or `module:Name`",
        check=check_timestamp_assigner,
    )
    watermark_mode: Literal["none", "periodic"] = option(
        "watermarkMode",
        "word",
        "`periodic`: each row has the column `kafka_late`, true if it is older than the clock"
        " ([late rows](../how-to/time.md#late-rows)). It needs `watermarkAlignmentMaxDrift`. `punctuated` is refused"
        " ([why](../how-to/time.md#which-time)).",
        default="none",
        words=("none", "periodic"),
        check=check_watermark_mode,
        streaming_only=True,
    )
    allowed_lateness_ms: int = option(
        "allowedLateness",
        "duration",
        "With `watermarkMode=periodic`: how much older than the clock a row may be before it is late. The delay of"
        " Spark's watermark has to be at least this and `watermarkAlignmentMaxDrift` together.",
        default="0",
        streaming_only=True,
    )
    late_rows: Literal["mark", "deadletter"] = option(
        "lateRows",
        "word",
        "With `watermarkMode=periodic`: `mark` keeps late rows in the stream; `deadletter` writes their records to the"
        " [dead-letter topic](../how-to/internal-topics.md#dead-letters) instead.",
        default="mark",
        words=("mark", "deadletter"),
        streaming_only=True,
    )
    alignment_max_drift_ms: int | None = option(
        "watermarkAlignmentMaxDrift",
        "duration",
        "How far a split may be ahead of the slowest one after a batch, by the times of their records"
        " ([time](../how-to/time.md)). The delay of Spark's watermark has to be at least this. If absent: each split"
        " is read as fast as it can be, and Spark drops rows of a cluster that is behind.",
        minimum=1,
        streaming_only=True,
    )
    idle_timeout_ms: int = option(
        "idleTimeout",
        "duration",
        "How long the others wait for a split that is read to its end, from the first plan that finds nothing to read."
        " It has no effect without `watermarkAlignmentMaxDrift`.",
        default="1m",
        streaming_only=True,
    )
    announced_timeout_ms: int = option(
        "announcedTimeout",
        "duration",
        "How long the clock waits for the first records of a cluster whose metadata say `state: Announced`, from the"
        " first plan that has them. It has no effect without `watermarkAlignmentMaxDrift`.",
        default="1h",
        streaming_only=True,
    )

    @property
    def time_column(self) -> str:
        """The column of a row's time, which a watermark belongs on."""
        return TIMESTAMP if self.timestamp_assigner is None else EVENT_TIME

    @property
    def least_delay_ms(self) -> int | None:
        """The least delay of a watermark under which Spark drops no row that is not late; None without alignment."""
        drift_ms = self.alignment_max_drift_ms
        return None if drift_ms is None else drift_ms + self.allowed_lateness_ms
