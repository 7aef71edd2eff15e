"""Many Kafka clusters, one Spark stream: the PySpark data source `dynamic-kafka` and its application.

from dynamic_kafka import register
register(spark)
spark.readStream.format("dynamic-kafka").option("streamIds", "orders").option("metadataPath", "streams.yaml").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamic_kafka.errors import cause_of
    from dynamic_kafka.executor.evaluating.evaluators import RecordEvaluator
    from dynamic_kafka.executor.evaluating.event_times import TimestampAssigner
    from dynamic_kafka.executor.reading.rows import Record
    from dynamic_kafka.metadata import (
        ClusterMetadata,
        KafkaMetadataService,
        KafkaStream,
        KafkaStreamSubscriber,
        OffsetSpec,
    )
    from dynamic_kafka.spark.source import DynamicKafkaDataSource, register
    from dynamic_kafka.spark.stopping import stop_when_finished
    from dynamic_kafka.spark.watermarks import watermark

__all__ = [
    "ClusterMetadata",
    "DynamicKafkaDataSource",
    "KafkaMetadataService",
    "KafkaStream",
    "KafkaStreamSubscriber",
    "OffsetSpec",
    "Record",
    "RecordEvaluator",
    "TimestampAssigner",
    "cause_of",
    "register",
    "stop_when_finished",
    "watermark",
]

_HOMES = {
    "ClusterMetadata": "dynamic_kafka.metadata",
    "DynamicKafkaDataSource": "dynamic_kafka.spark.source",
    "KafkaMetadataService": "dynamic_kafka.metadata",
    "KafkaStream": "dynamic_kafka.metadata",
    "KafkaStreamSubscriber": "dynamic_kafka.metadata",
    "OffsetSpec": "dynamic_kafka.metadata",
    "Record": "dynamic_kafka.executor.reading.rows",
    "RecordEvaluator": "dynamic_kafka.executor.evaluating.evaluators",
    "TimestampAssigner": "dynamic_kafka.executor.evaluating.event_times",
    "cause_of": "dynamic_kafka.errors",
    "register": "dynamic_kafka.spark.source",
    "stop_when_finished": "dynamic_kafka.spark.stopping",
    "watermark": "dynamic_kafka.spark.watermarks",
}


def __getattr__(name: str) -> Any:
    # Imported on demand: the operator imports `dynamic_kafka.metadata` from an image without Spark.
    if name in _HOMES:
        from importlib import import_module

        try:
            return getattr(import_module(_HOMES[name]), name)
        except ImportError as error:
            from dynamic_kafka.installed import explained

            raise explained(error) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
