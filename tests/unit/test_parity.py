"""The pages of `docs/reference/parity/`: no cell is empty, each test that it names exists, and so does each option."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from dynamic_kafka.app.config.schema import AppFile, Sink
from dynamic_kafka.metadata.client_properties import PROPERTIES
from dynamic_kafka.metadata.document_models import ListCluster, ListStream, MappingDocument
from dynamic_kafka.options import OPTIONS
from tests.support.places import ROOT

FOLDER = ROOT / "docs" / "reference" / "parity"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
HEADER = ["Original", "Here", "Test"]

NAMES = {
    "flip-246.md": """
        DynamicKafkaSource DynamicKafkaSourceBuilder builder build setKafkaMetadataService setStreamIds setGroupId
        setDeserializer KafkaRecordDeserializationSchema valueOnly setStartingOffsets OffsetsInitializer earliest
        setProperties multi.cluster.kafka.source.kafka-metadata-service-discovery-internal-ms
        KafkaClusterIdentifier name bootstrapServers KafkaStream streamId clusterToClusterMetadata kafkaClusterTopicMap
        ClusterMetadata KafkaMetadataService AutoCloseable Serializable getAllStreams describeStreams isClusterActive
        KafkaStreamSubscriber getSubscribedStreams MetadataUpdateEvent currentMetadata currentClusterTopics
        GetMetadataUpdateEvent SourceEvent DynamicKafkaSourceEnumerator SplitEnumerator restartEnumerators
        StoppableKafkaEnumContextProxy SplitEnumeratorContext assignSplits DynamicKafkaSourceReader SourceReader
        clusterReaderMap restartReader DynamicKafkaSourceSplit SourceSplit kafkaClusterId kafkaPartitionSplit
        DynamicKafkaSourceEnumState ResultTypeQueryable Boundedness KafkaSource WakeupException
        MultiClusterKafkaSource MultiClusterKafkaSourceBuilder MultiClusterKafkaSourceEnumerator
        MultiClusterKafkaSourceReader MultiClusterKafkaSourceSplit MultiClusterKafkaSourceEnumState
    """,
    "flip-208.md": """
        RecordEvaluator isEndOfStream Serializable SingleThreadMultiplexSourceReaderBase SourceReaderBase
        eofRecordEvaluator KafkaSourceBuilder setEofRecordEvaluator setBounded setUnbounded PulsarSourceBuilder
        setBoundedStopCursor setUnboundedStopCursor scan.record.evaluator.class KafkaDeserializationSchema
        FlinkKafkaConsumer KafkaStopCursor withEofRecordEvaluator fromSource
    """,
    "topic-integrity.md": """
        KafkaSourceBuilder enableTopicIntegrityCheck KafkaSourceOptions TOPIC_INTEGRITY_CHECK_ENABLED
        KafkaConnectorOptions SCAN_TOPIC_INTEGRITY_CHECK_ENABLED scan.topic-integrity-check.enabled
        PARTITION_DISCOVERY_INTERVAL_MS scan.topic-partition-discovery.interval setTopics TopicIdentifier
        TopicIntegrityException KafkaSourceEnumeratorState topicIntegrityMapping UNKNOWN_TOPIC_OR_PARTITION
    """,
    "kip-698.md": """
        KafkaStreams init InitParameters initParameters MissingInternalTopicException MissingInternalTopicsException
        MissingSourceTopicException StreamsException StreamsConfig INTERNAL_TOPIC_SETUP AUTOMATIC_SETUP MANUAL_SETUP
        internal.topics.setup automatic manual
        enableSetupRepartitionTopicsIfIncomplete disableSetupRepartitionTopicsIfIncomplete
        setupRepartitionTopicsIfIncompleteEnabled enableSetupChangelogTopicsIfIncomplete
        disableSetupChangelogTopicsIfIncomplete setupChangelogTopicsIfIncompleteEnabled
        enableSetupInternalTopicsIfIncomplete disableSetupInternalTopicsIfIncomplete
        setupInternalTopicsIfIncompleteEnabled
        InitProperties setUpRepartitionTopicsIfAbsentEnabled setUpRepartitionTopicsIfAbsentDisabled
        setUpChangelogTopicsIfAbsentEnabled setUpChangelogTopicsIfAbsentDisabled setUpInternalTopicsIfAbsentEnabled
        setUpInternalTopicsIfAbsentDisabled APPLICATION_INITIALIZATION AUTOMATIC_INITIALIZATION USER_INITIALIZATION
    """,
    "article.md": """
        FlinkKafkaConsumerBase SourceFunction run AbstractFetcher Kafka09Fetcher runFetchLoop KafkaConsumerThread
        KafkaTopicPartitionState setOffset KafkaTopicPartitionStateWithPeriodicWatermarks
        KafkaTopicPartitionStateWithPunctuatedWatermarks NO_TIMESTAMPS_WATERMARKS PERIODIC_WATERMARKS
        PUNCTUATED_WATERMARKS AssignerWithPeriodicWatermarks AssignerWithPunctuatedWatermarks emitRecord checkpointLock
        SourceContext collect collectWithTimestamp emitWatermark StreamSourceContexts getSourceContext
        TimeCharacteristic EventTime IngestionTime ProcessingTime ManualWatermarkContext AutomaticWatermarkContext
        NonTimestampContext watermarkInterval snapshotState AbstractUdfStreamOperator HandOver
    """,
}
"""The public names of each original: interfaces, classes, methods, options and their values, by its page."""


def rows() -> list[list[str]]:
    """Return the cells of all rows of all pages; `\\|` within a cell is no border."""
    lines = [line.strip() for page in PAGES.values() for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return [row for row in cells if row != HEADER and not set("".join(row)) <= {"-"}]


ROWS = rows()


@functools.cache
def functions(file: str) -> frozenset[str]:
    """Return the test functions of a file below `tests/`."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_table_has_the_same_three_columns() -> None:
    tables = r"^(\|.*\|)\n\|[-|]+\|$"
    headers = [heading for page in PAGES.values() for heading in re.findall(tables, page, re.MULTILINE)]
    assert [[cell.strip() for cell in header.strip("|").split("|")] for header in headers] == [HEADER] * 6
    assert len(ROWS) > 120


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_each_row_is_whole_and_its_test_exists(row: list[str]) -> None:
    assert len(row) == 3 and all(row), row
    mark, _, what = row[2].partition(": ")
    if mark == "not applicable":
        assert what and row[1].startswith(("not applicable: ", "the same")), "a reason, and nothing here"
    else:
        match = re.fullmatch(r"`((?:unit|integration|e2e)/[\w/]+\.py)::(test_\w+)`", row[2])
        assert match, row[2]
        assert match[2] in functions(match[1])


def test_every_option_in_the_second_column_exists() -> None:
    known = {*OPTIONS} | {f"kafka.{known_property.name}" for known_property in PROPERTIES}
    fields = {
        info.alias or name
        for model in (ListCluster, ListStream, MappingDocument, AppFile, Sink)
        for name, info in model.model_fields.items()
    }
    for row in ROWS:
        for sentence in re.findall(r"options? ((?:`[^`]+`(?:, | and | or )?)+)", row[1]):
            names = set(re.findall(r"`([^`]+)`", sentence)) - {"kafka.<property>", "properties.<property>"}
            assert names <= known, row
        camel = set(re.findall(r"`([a-z]+[A-Z]\w*)(?:=[\w-]+)?`", row[1]))
        assert camel <= known | fields, row


@pytest.mark.parametrize("page", NAMES)
def test_each_public_name_of_an_original_has_a_row(page: str) -> None:
    first = [line.split("|")[1] for line in PAGES[page].splitlines() if line.startswith("|")]
    named = " ".join(re.findall(r"`([^`]+)`", " ".join(first)))
    missing = set(NAMES[page].split()) - set(re.findall(r"\w+", named)) - set(re.findall(r"[\w.-]+", named))
    assert not missing


def test_every_alias_of_an_option_is_in_the_first_column() -> None:
    first = " ".join(row[0] for row in ROWS)
    named = set(re.findall(r"`([^`]+)`", first))
    aliases = {alias for option in OPTIONS.values() for alias in option.aliases}
    assert aliases <= named
