"""Names that users write down: a change breaks their code, their options or their error handling."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dynamic_kafka
from dynamic_kafka import errors
from dynamic_kafka.options import OPTIONS


def test_the_public_names_are_pinned() -> None:
    assert sorted(dynamic_kafka.__all__) == [
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
    assert all(getattr(dynamic_kafka, name).__name__ == name for name in dynamic_kafka.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'DynamicKafka'"):
        _ = dynamic_kafka.DynamicKafka


def test_the_package_is_importable_without_spark() -> None:
    """The operator imports `dynamic_kafka.metadata` from an image that has neither Spark nor a Kafka client."""
    code = (
        "import sys, dynamic_kafka, dynamic_kafka.metadata, dynamic_kafka.planning.plan;"
        "print(sorted({'pyspark', 'confluent_kafka', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8")
    assert done.stdout == "[]\n"


def test_workers_of_spark_import_no_document_models() -> None:
    """Spark forks a process for each look-up of the source and for tasks; pydantic would double its start."""
    code = "import sys, dynamic_kafka.spark.source; print(sorted({'pydantic', 'yaml', 'msgspec'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8")
    assert done.stdout == "[]\n"


def test_the_option_names_are_pinned() -> None:
    """As in the table of `docs/reference/options.md`; options of Spark's own source keep their names."""
    table = """
        streamIds streamPattern streamSubscriber metadataService metadataPath metadataRevision metadataTimeout
        metadataDiscoveryInterval metadataFailureThreshold removedClusterRetention partitionDiscoveryInterval
        clusterFailurePolicy readTimeout stateLocation pendingRemovedRanges subscribe subscribePattern assign
        topicIntegrityCheck recordEvaluator recordDeserializer internalTopicsSetup watermarkMode timeCharacteristic
        watermarkAlignmentMaxDrift idleTimeout commitOffsets startingOffsets endingOffsets startingTimestamp
        startingOffsetsByTimestamp endingTimestamp endingOffsetsByTimestamp startingOffsetsByTimestampStrategy
        failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition
        includeHeaders columns groupIdPrefix clusterId clientIdPrefix stream-enumerator-mode register.consumer.metrics
    """
    assert set(table.split()) - {option.name for option in OPTIONS.values()} == set()


def test_the_names_of_the_original_proposals_are_pinned() -> None:
    aliases = {alias: option.name for option in OPTIONS.values() for alias in option.aliases}
    named = {
        "stream-ids": "streamIds",
        "stream-pattern": "streamPattern",
        "metadata-service": "metadataService",
        "stream-metadata-discovery-interval-ms": "metadataDiscoveryInterval",
        "stream-metadata-discovery-failure-threshold": "metadataFailureThreshold",
        "stream-metadata-removed-cluster-retention-ms": "removedClusterRetention",
        "scan.topic-partition-discovery.interval": "partitionDiscoveryInterval",
        "partition.discovery.interval.ms": "partitionDiscoveryInterval",
        "multi.cluster.kafka.source.kafka-metadata-service-discovery-internal-ms": "metadataDiscoveryInterval",
        "metadata-service.cluster-id": "clusterId",
        "client.id.prefix": "clientIdPrefix",
        "kafkaConsumer.pollTimeoutMs": "readTimeout",
        "scan.topic-integrity-check.enabled": "topicIntegrityCheck",
        "scan.record.evaluator.class": "recordEvaluator",
        "internal.topics.setup": "internalTopicsSetup",
        "commit.offsets.on.checkpoint": "commitOffsets",
    }
    assert {alias: aliases.get(alias) for alias in named} == named


def test_the_errors_are_pinned() -> None:
    """Users catch these errors, by themselves or by their base class."""
    bases = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert bases == {
        "DynamicKafkaError": "Exception",
        "OptionError": "DynamicKafkaError",
        "MetadataError": "DynamicKafkaError",
        "MetadataInvalidError": "MetadataError",
        "MetadataConflictError": "MetadataInvalidError",
        "MetadataUnavailableError": "MetadataError",
        "MetadataTooOldError": "MetadataError",
        "SecretError": "DynamicKafkaError",
        "SecretWithheldError": "SecretError",
        "OffsetDocumentError": "DynamicKafkaError",
        "StaleCheckpointError": "OffsetDocumentError",
        "RecordTooLargeError": "ClusterError",
        "StateMismatchError": "OffsetDocumentError",
        "IdentityError": "DynamicKafkaError",
        "PendingRangesError": "DynamicKafkaError",
        "DataLossError": "DynamicKafkaError",
        "RecordDecodingError": "DynamicKafkaError",
        "RecordEvaluationError": "DynamicKafkaError",
        "TopicIntegrityError": "DynamicKafkaError",
        "GroupInUseError": "DynamicKafkaError",
        "DriverReplacedError": "DynamicKafkaError",
        "DeadLetterError": "DynamicKafkaError",
        "MissingInternalTopicError": "DynamicKafkaError",
        "MisconfiguredInternalTopicError": "DynamicKafkaError",
        "ClusterError": "DynamicKafkaError",
        "ClusterUnreachableError": "ClusterError",
        "ClusterRefusedError": "ClusterError",
        "MissingSourceTopicError": "ClusterError",
        "ReadTimeoutError": "ClusterError",
    }


def test_the_hierarchy_in_the_docstring_names_every_error() -> None:
    assert errors.__doc__ is not None
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert [name for name in kinds if name not in errors.__doc__] == []
