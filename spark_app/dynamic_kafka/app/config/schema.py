"""The fields of `app.yaml`, one pydantic model per part. Driver and tools; pure.

`loading.py` has the checks that need more than one part, such as two sinks with one consumer group.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.app.config.parts import Duration, FunctionPath, Name, Names, Part, Text, mapping_like
from dynamic_kafka.metadata.yaml.located import Findings, Problem
from dynamic_kafka.wording import nearest

_NEEDED = {"parquet": "path", "kafka": "kafka.bootstrap.servers"}
"""The option that each type of sink must have."""
_ASYNC_PROGRESS = "asyncprogresstrackingenabled"
"""An option of Spark's queries that leaves gaps in the offset log, in lower case."""


class Streams(Part):
    """The streams to read: a list of ids or a pattern."""

    ids: Names | None = Field(default=None, min_length=1)
    pattern: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Streams:
        if (self.ids is None) == (self.pattern is None):
            raise ValueError("set exactly one of `ids` and `pattern`")
        return self


class Transformation(Part):
    """The step between the source and the sinks: a query over the view `stream`, then a function of DataFrames."""

    sql: str | None = None
    function: FunctionPath | None = None

    @model_validator(mode="after")
    def _any(self) -> Transformation:
        if self.sql is None and self.function is None:
            raise ValueError("set `sql`, `function`, or both")
        return self


class Watermark(Part):
    """Spark's watermark on the source's rows, before any transformation."""

    delay: Duration
    column: Literal["timestamp", "kafka_event_time"] | None = None


class Trigger(Part):
    """The start of batches. With `interval` 0, a batch starts as soon as the one before has ended."""

    interval: Duration | None = None
    available_now: bool = False
    once: bool = False

    @model_validator(mode="after")
    def _one(self) -> Trigger:
        if (self.interval is not None) + self.available_now + self.once != 1:
            raise ValueError("set exactly one of `interval`, `availableNow: true` and `once: true`")
        return self

    @property
    def ends(self) -> bool:
        """Whether a query with this trigger ends by itself."""
        return self.available_now or self.once


TriggerField = Annotated[Trigger, BeforeValidator(mapping_like("trigger: {interval: 10s}"))]
StreamsField = Annotated[Streams, BeforeValidator(mapping_like("streams: {ids: [orders]}"))]


class Sink(Part):
    """One sink of the records, with a query and a checkpoint of its own.

    Attributes:
        name: the folder of its checkpoint and its label in metrics.
        type: `parquet`, `kafka`, `console`, or `format` for any other of Spark's formats.
        format: Spark's name of the format, with type `format`.
        foreach_batch: a function that is called with (DataFrame, batch id), instead of a type.
        options: options of Spark's sink.
        output_mode, partition_by: as in Spark.
        group_id: the consumer group that this sink's progress is committed to.
        transformation, trigger: those of this sink, instead of the file's.
    """

    name: Name
    type: Literal["parquet", "kafka", "console", "format"] | None = None
    format: str | None = None
    foreach_batch: FunctionPath | None = None
    options: dict[str, Text] = Field(default_factory=dict)
    output_mode: Literal["append", "update", "complete"] = "append"
    partition_by: Names = Field(default_factory=list)
    group_id: str | None = Field(default=None, min_length=1)
    transformation: Transformation | None = None
    trigger: TriggerField | None = None

    @model_validator(mode="after")
    def _complete(self) -> Sink:
        if (self.type is None) == (self.foreach_batch is None):
            raise ValueError("set exactly one of `type` and `foreachBatch`")
        if (self.type == "format") != (self.format is not None):
            raise ValueError("`format` goes with `type: format`, and names one of Spark's formats")
        needed = _NEEDED.get(self.type or "")
        if needed is not None and needed not in {key.lower() for key in self.options}:
            near = nearest(needed, self.options)
            hint = f"; is {near!r} a misspelling of it?" if near else ""
            text = f"a {str(self.type).capitalize()} sink needs the option `{needed}`{hint}"
            raise Findings([Problem(("options",), text)])
        for key, value in self.options.items():
            if key.lower() == _ASYNC_PROGRESS and value.lower() != "false":
                text = "Spark would log only some batches, and could not repeat one that was cut off: take it out"
                raise Findings([Problem(("options", key), text)])
        return self

    @property
    def format_name(self) -> str | None:
        """Spark's name of the sink's format; None for a function."""
        return self.format if self.type == "format" else self.type

    @property
    def folder(self) -> str | None:
        """The folder that the sink writes to; None for a function and for Kafka and console sinks.

        Any other format with a path counts. Most formats for files write through Spark's file sink, which logs the
        delivered batches in this folder.
        """
        if self.format_name in (None, "kafka", "console"):
            return None
        return next((value for key, value in self.options.items() if key.lower() == "path"), None)


class Metrics(Part):
    """The address of the metrics for Prometheus, and the port for executors' read reports (0: any free one)."""

    port: int = Field(ge=0, le=65535)
    host: str = "0.0.0.0"
    reports_port: int = Field(default=0, ge=0, le=65535)


WatermarkField = Annotated[Watermark, BeforeValidator(mapping_like("watermark: {delay: 5m}"))]
MetricsField = Annotated[Metrics, BeforeValidator(mapping_like("metrics: {port: 9108}"))]


InternalTopicsField = Annotated[
    InternalTopics, BeforeValidator(mapping_like("internalTopics: {cluster: east, topics: [...]}"))
]


class AppFile(Part):
    """The whole of `app.yaml`."""

    name: Name
    streams: StreamsField | None = None
    metadata: str | None = None
    options: dict[str, Text] = Field(default_factory=dict)
    watermark: WatermarkField | None = None
    transformation: Transformation | None = None
    trigger: TriggerField = Field(default_factory=lambda: Trigger(interval=0))
    checkpoint: str = Field(min_length=1)
    sinks: list[Sink] = Field(min_length=1)
    spark: dict[str, Text] = Field(default_factory=dict)
    metrics: MetricsField | None = None
    internal_topics: InternalTopicsField | None = None
    grace_period: Duration = 30_000
    restart_backoff: Duration = 1_000

    @property
    def writes_dead_letters(self) -> bool:
        """Whether the source writes records to a dead-letter topic (`mode=deadletter`, `lateRows=deadletter`)."""
        words = (value.lower() for key, value in self.options.items() if key.lower() in ("mode", "laterows"))
        return "deadletter" in words
