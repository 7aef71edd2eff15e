"""The parser of options: values, defaults and refusals, without any broker."""

from __future__ import annotations

import pickle

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import COMMITTED, EARLIEST, LATEST
from dynamic_kafka.options import Mode, check_stream
from tests.unit.options.parsing import FROM_FILE, GROUP, SINGLE, STATE, parse, refusal

SECRET = "hunter2"


def test_absent_options_have_their_documented_defaults() -> None:
    options = parse(FROM_FILE)
    assert options.service == "file"
    assert options.metadata_discovery_interval_ms == 10_000
    assert options.metadata_failure_threshold == 1
    assert options.removed_cluster_retention_ms == 7 * 86_400_000
    assert options.partition_discovery_interval_ms is None
    assert options.read_timeout_ms == 30_000
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.commit_offsets
    assert options.pending_removed_ranges == "refuse"
    assert (options.starting_for("east"), options.ending_for("east")) == (LATEST, None)
    assert not options.bounded
    assert options.warnings == ()


def test_a_batch_reads_from_earliest_to_latest() -> None:
    options = parse(FROM_FILE, mode="batch")
    assert (options.starting_for("east"), options.ending_for("east")) == (EARLIEST, LATEST)
    assert options.bounded


def test_keys_match_in_the_lower_case_of_spark() -> None:
    lower = {key.lower(): value for key, value in (FROM_FILE | STATE | {"maxOffsetsPerTrigger": "5"}).items()}
    options = parse(lower)
    assert (options.metadata_path, options.max_offsets_per_trigger) == ("/etc/kafkastreams", 5)
    assert options.pending_removed_ranges == "filter"


def test_options_can_be_pickled() -> None:
    options = parse(SINGLE, {"startingOffsets": '{"orders":{"0":1}}'})
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.scenario(42)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"removedClusterRetention": "-1"}, "'removedClusterRetention' is '-1', which is not a duration"),
        ({"stream-metadata-removed-cluster-retention-ms": "-1"}, "(removedClusterRetention)"),
        ({"commitOffsets": "true"}, "needs a consumer group; set kafka.group.id"),
        ({"commitOffsets": "yes"}, "must be true or false"),
        ({"failOnDataLoss": "1"}, "must be true or false"),
        ({"clusterFailurePolicy": "stall"}, "needs 'stateLocation'"),
        ({"clusterFailurePolicy": "ignore"}, "must be fail or stall"),
        ({"pendingRemovedRanges": "filter"}, "needs 'stateLocation'"),
        ({"minPartitions": "0"}, "a whole number from 1"),
        ({"minPartitions": "-3"}, "a whole number from 1"),
        ({"minPartitions": "2147483648"}, "a whole number from 1 to 2147483647"),
        ({"maxOffsetsPerTrigger": "1e3"}, "a whole number from 1"),
        ({"maxRecordsPerPartition": "ten"}, "a whole number from 1"),
        ({"metadataFailureThreshold": "-1"}, "a whole number from 0"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "is higher than option 'maxOffsetsPerTrigger'"),
        ({"readTimeout": "0"}, "must be longer than 0"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "must be error or latest"),
        ({"startingOffsets": "committed"}, "no group is named"),
        ({"secretsRoot": "secrets"}, "must be an absolute path"),
        ({"stateLocation": ""}, "is empty"),
        ({"groupIdPrefix": "a", "kafka.": "x"}, "names no client property"),
    ],
)
def test_values_that_make_no_sense_are_refused(given: dict[str, str], message: str) -> None:
    assert message in refusal(FROM_FILE, given)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("streamId", "streamIds"),
        ("startingOffset", "startingOffsets"),
        ("maxoffsetpertrigger", "maxOffsetsPerTrigger"),
        ("stream-metadata-discovery-intervall-ms", "stream-metadata-discovery-interval-ms"),
    ],
)
def test_an_unknown_option_is_refused_naming_the_nearest(key: str, near: str) -> None:
    assert f"unknown option '{key}'; did you mean '{near}'?" in refusal(FROM_FILE, {key: "1"})


@pytest.mark.parametrize("key", ["zzzzzz", "punctuationAssigners"])
def test_an_unknown_option_without_a_near_one_is_refused(key: str) -> None:
    # Nor is an option named that this version refuses, too
    refused = refusal(FROM_FILE, {key: "1"})
    assert "docs/reference/options.md" in refused and "did you mean" not in refused


DRIFT = {"watermarkAlignmentMaxDrift": "10s"}
SCHEMA = "id BIGINT, ordered_at TIMESTAMP, item STRUCT<name: STRING, sold_at: BIGINT>"
TIMED = {"value.format": "json", "value.schema": SCHEMA, **DRIFT}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"watermarkinterval": "1s"}, ("'watermarkinterval'", "trigger")),
        ({"timestampAssigner": "module:Name"}, ("'timestampAssigner'", "'watermarkAlignmentMaxDrift'")),
        ({"timestampAssigner": "ordered_at", **DRIFT}, ("'timestampAssigner' is 'ordered_at'", "`value.ordered_at`")),
        ({"timestampAssigner": "value.at", **DRIFT}, ("'timestampAssigner' is 'value.at'", "'value.format'")),
        ({**TIMED, "timestampAssigner": "value.ordered_a"}, ("no field 'ordered_a'", "did you mean 'ordered_at'")),
        ({**TIMED, "timestampAssigner": "value.item.name"}, ("another type than TIMESTAMP and BIGINT",)),
        ({**TIMED, "timestampAssigner": "value.id.at"}, ("no field 'at'",)),
        ({**TIMED, "timestampAssigner": "m:N", "minPartitions": "4"}, ("'minPartitions'", "'timestampAssigner'")),
        ({"punctuationAssigner": "module:Name"}, ("'punctuationAssigner'", "watermarkMode=periodic")),
        ({"watermarkMode": "Punctuated", **DRIFT}, ("'watermarkMode' is 'Punctuated'", "watermarkMode=periodic")),
        ({"watermarkMode": "sometimes"}, ("'watermarkMode' is 'sometimes'", "none or periodic")),
        ({"watermarkMode": "periodic"}, ("'watermarkMode' is 'periodic'", "'watermarkAlignmentMaxDrift'")),
        ({"lateRows": "deadletter", **DRIFT}, ("'lateRows' is 'deadletter'", "watermarkMode=periodic")),
        ({"timeCharacteristic": "ingestion"}, ("'timeCharacteristic' is 'ingestion'", "`current_timestamp()`")),
        ({"timeCharacteristic": "now"}, ("'timeCharacteristic' is 'now'", "event or processing")),
        ({"timeCharacteristic": "processing", **DRIFT}, ("'timeCharacteristic'", "'watermarkAlignmentMaxDrift'")),
        (
            {"timeCharacteristic": "processing", "watermarkMode": "periodic"},
            ("'timeCharacteristic'", "'watermarkMode'"),
        ),
    ],
)
def test_a_clock_that_nothing_sets_is_refused_with_the_reason(given: dict[str, str], names: tuple[str, ...]) -> None:
    refused = refusal(FROM_FILE, given)
    assert [name for name in names if name not in refused] == []


@pytest.mark.parametrize("assigner", ["value.ordered_at", "value.item.sold_at", "value.id", "package.module:Name"])
def test_times_may_be_in_the_value(assigner: str) -> None:
    options = parse({**FROM_FILE, **TIMED, "timestampAssigner": assigner})
    assert options.columns[-1] == options.time_column == "kafka_event_time"
    with pytest.raises(OptionError, match="'timestampAssigner' needs 'stateLocation'"):
        check_stream(options)


@pytest.mark.parametrize(
    ("given", "has_late"),
    [
        ({}, False),
        ({"timeCharacteristic": "processing", "watermarkMode": "none"}, False),
        ({"timeCharacteristic": "event", **DRIFT}, False),
        ({"watermarkMode": "Periodic", **DRIFT}, True),
    ],
)
def test_rows_have_a_column_for_lateness_with_a_mode(given: dict[str, str], *, has_late: bool) -> None:
    columns = parse(FROM_FILE, given).columns
    assert (columns[-1] == "kafka_late") is has_late and len(columns) == 9 + has_late


@pytest.mark.parametrize("name", ["idleTimeout", "announcedTimeout", "allowedLateness"])
def test_a_setting_of_the_clock_alone_has_no_effect(name: str) -> None:
    aligned = {**DRIFT, "watermarkMode": "periodic"}
    assert parse(FROM_FILE, {name: "5m", **aligned}).warnings == parse(FROM_FILE, aligned).warnings == ()
    (warning,) = parse(FROM_FILE, {name: "5m"}).warnings
    needed = "'watermarkMode=periodic'" if name == "allowedLateness" else "'watermarkAlignmentMaxDrift'"
    assert f"'{name}' has no effect without {needed}" in warning


def test_a_watermark_has_room_for_drift_and_allowed_lateness() -> None:
    assert parse(FROM_FILE).least_delay_ms is None
    assert parse(FROM_FILE, DRIFT).least_delay_ms == 10_000
    late = {**DRIFT, "watermarkMode": "periodic", "allowedLateness": "1m"}
    assert parse(FROM_FILE, late).least_delay_ms == 70_000


def test_a_batch_read_aligns_nothing() -> None:
    options = parse(FROM_FILE, {**DRIFT, "watermarkMode": "periodic"}, mode="batch")
    assert options.alignment_max_drift_ms is None and options.columns[-1] == "kafka_late"


def test_the_same_value_under_two_names_is_fine() -> None:
    given = {"metadataDiscoveryInterval": "5s", "stream-metadata-discovery-interval-ms": "5000"}
    assert parse(FROM_FILE, given).metadata_discovery_interval_ms == 5000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"metadataDiscoveryInterval": "5s"}, {"stream-metadata-discovery-interval-ms": "5001"}),
        ({"readTimeout": "5s"}, {"kafkaConsumer.pollTimeoutMs": "10000"}),
        ({"kafka.client.rack": "a"}, {"properties.client.rack": "b"}),
        ({"streamids": "a"}, {"streamIds": "b"}),
    ],
)
def test_different_values_under_two_names_are_refused(one: dict[str, str], other: dict[str, str]) -> None:
    message = refusal({"metadataPath": "/m"}, one, other)
    assert f"'{next(iter(one))}' and '{next(iter(other))}' mean the same" in message


def test_the_interval_has_the_name_that_the_proposal_gives_it() -> None:
    name = "multi.cluster.kafka.source.kafka-metadata-service-discovery-internal-ms"
    for given, expected in ((name, "2500"), (f"properties.{name}", "2500"), (name, "-1")):
        options = parse(FROM_FILE, {given: expected})
        assert options.metadata_discovery_interval_ms == max(0, int(expected))
        assert (options.warnings, options.kafka_properties) == ((), {})
    assert "mean the same" in refusal(FROM_FILE, {name: "2500"}, {"metadataDiscoveryInterval": "3s"})


def test_every_enumerator_mode_of_flink_is_accepted() -> None:
    for mode in ("per_cluster", "per-cluster", "GLOBAL"):
        (warning,) = parse(FROM_FILE, {"properties.stream-enumerator-mode": mode}).warnings
        assert "'stream-enumerator-mode' has no effect" in warning
        assert "next free task" in warning
    assert "it must be per_cluster or" in refusal(FROM_FILE, {"stream-enumerator-mode": "local"})
    assert "must be true or false" in refusal(FROM_FILE, {"register.consumer.metrics": "on"})


def test_a_negative_interval_of_flink_switches_discovery_off() -> None:
    options = parse(FROM_FILE, {"stream-metadata-discovery-interval-ms": "-1", "partition.discovery.interval.ms": "-1"})
    assert (options.metadata_discovery_interval_ms, options.partition_discovery_interval_ms) == (0, 0)


def test_commits_are_on_with_a_group_unless_switched_off() -> None:
    assert parse(FROM_FILE, GROUP).commit_offsets
    assert not parse(FROM_FILE, GROUP, {"commit.offsets.on.checkpoint": "false"}).commit_offsets
    assert not parse(FROM_FILE, GROUP, mode="batch").commit_offsets
    assert parse(FROM_FILE, GROUP, {"startingOffsets": "committed"}).starting_for("east") == COMMITTED


def test_stall_and_filter_are_accepted_with_a_state_location() -> None:
    options = parse(FROM_FILE, STATE, {"clusterFailurePolicy": "stall", "pendingRemovedRanges": "filter"})
    assert (options.cluster_failure_policy, options.pending_removed_ranges) == ("stall", "filter")


def test_a_short_duration_without_a_unit_gets_a_hint() -> None:
    assert parse(FROM_FILE, {"metadataDiscoveryInterval": "10"}).warnings == (
        "option 'metadataDiscoveryInterval' is '10' without a unit, which means 10 ms; write 10s for seconds, else"
        " 10ms",
    )
    for given in ({"metadataDiscoveryInterval": "0"}, {"stream-metadata-discovery-interval-ms": "10"}):
        assert parse(FROM_FILE, given).warnings == ()
    for text in ("10s", "10ms", "10000"):
        assert parse(FROM_FILE, {"metadataDiscoveryInterval": text}).warnings == ()


def test_an_option_without_effect_is_accepted_with_a_warning() -> None:
    given = {"maxOffsetsPerTrigger": "5", "fetchOffset.numRetries": "3", "register.consumer.metrics": "true"}
    given["kafka.max.poll.records"] = "500"
    warnings = parse(FROM_FILE, given, mode="batch").warnings
    assert [next(name for name in given if name.removeprefix("kafka.") in text) for text in warnings] == [
        "maxOffsetsPerTrigger",
        "fetchOffset.numRetries",
        "register.consumer.metrics",
        "kafka.max.poll.records",
    ]


@pytest.mark.scenario(21)
def test_the_sources_own_options_never_reach_a_client() -> None:
    own = {
        "removedClusterRetention": "1d",
        "properties.stream-metadata-discovery-interval-ms": "7000",
        "properties.commit.offsets.on.checkpoint": "false",
        "kafkaConsumer.pollTimeoutMs": "9000",
        "groupIdPrefix": "p",
    }
    options = parse(FROM_FILE, own, {"kafka.client.rack": "r1", "properties.fetch.min.bytes": "2"})
    assert options.kafka_properties == {"client.rack": "r1", "fetch.min.bytes": "2"}
    assert (options.metadata_discovery_interval_ms, options.read_timeout_ms) == (7000, 9000)


@pytest.mark.scenario(21)
@pytest.mark.parametrize("key", ["kafka.removedClusterRetention", "kafka.streamids", "kafka.readTimeout"])
def test_an_option_of_the_source_behind_kafka_is_refused(key: str) -> None:
    assert "is an option of the source" in refusal(FROM_FILE, {key: "1"})


@pytest.mark.parametrize(
    "key",
    [
        "kafka.sasl.password",
        "properties.sasl.password",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.password",
        "kafka.ssl.truststore.password",
        "kafka.ssl.key.pem",
        "kafka.ssl.keystore.key",
        "kafka.sasl.oauthbearer.client.secret",
        "KAFKA.SASL.PASSWORD",
    ],
)
def test_a_literal_secret_is_refused_without_being_shown(key: str) -> None:
    message = refusal(FROM_FILE, {key: SECRET})
    assert "literal secret" in message
    assert "${file:/path:key}" in message
    assert SECRET not in message


@pytest.mark.parametrize(
    "given",
    [
        {"kafka.sasl.password": SECRET + "${env:REST}"},
        {"kafka.sasl.password": "${vault:" + SECRET + "}"},
        {"kafka.client.rack": "${" + SECRET},
        {"stateLocation": f"s3://key:{SECRET}@bucket/state"},
        {"kafka.sasl.oauthbearer.token.endpoint.url": f"https://me:{SECRET}@idp/token"},
        {"kafka.sasl.jaas.config": f'a.b.PlainLoginModule required username="u" password="{SECRET}";'},
        {"kafka.sasl.jaas.config": f'a.b.PlainLoginModule required password="{SECRET}'},
        {"kafka.sasl.password": "${env:A}", "properties.sasl.password": "${env:" + SECRET + "}"},
        {"metadataService": "m:C", "metadataService.apiToken": SECRET},
    ],
)
def test_no_refusal_ever_shows_a_secret(given: dict[str, str]) -> None:
    assert SECRET not in refusal(FROM_FILE, given)


def test_references_are_kept_as_they_are() -> None:
    given = {"kafka.sasl.password": "${file:/run/s.properties:pw}", "kafka.client.id": "app-${env:POD}"}
    options = parse(FROM_FILE, given, {"allowedServers": "e:9092"})
    assert options.kafka_properties == {
        "sasl.password": "${file:/run/s.properties:pw}",
        "client.id": "app-${env:POD}",
    }


def test_own_classes_get_their_own_options() -> None:
    given = {"streamIds": "a", "metadataService": "acme:Service", "metadataService.baseUrl": "http://Registry"}
    options = parse(given)
    assert options.service == "acme:Service"
    assert options.raw == {
        "streamids": "a",
        "metadataservice": "acme:Service",
        "metadataservice.baseurl": "http://Registry",
    }


def test_own_classes_find_options_in_any_letter_case() -> None:
    given = {"streamIds": "a", "metadataService": "acme:Service", "metadataService.baseUrl": "http://Registry"}
    from_spark = {key.lower(): value for key, value in given.items()}
    for raw in (parse(given).raw, parse(from_spark).raw, pickle.loads(pickle.dumps(parse(given).raw))):
        for name in ("metadataService.baseUrl", "metadataservice.baseurl", "METADATASERVICE.BASEURL"):
            assert raw[name] == raw.get(name) == "http://Registry"
            assert name in raw
        assert (raw.get("metadataPath"), raw.get("metadataPath", "/m"), "metadataPath" in raw) == (None, "/m", False)
        with pytest.raises(KeyError, match="metadataPath"):
            _ = raw["metadataPath"]
        assert raw.pop("streamIds") == "a"
        assert list(raw) == ["metadataservice", "metadataservice.baseurl"]


def test_own_classes_get_the_same_keys_from_spark_and_the_app() -> None:
    as_written = {"streamIds": "a", "metadataService": "acme:Service", "metadataService.baseUrl": "http://Registry"}
    from_spark = {key.lower(): value for key, value in as_written.items()}
    assert parse(as_written).raw == parse(from_spark).raw


def test_options_of_the_application_are_checked() -> None:
    options = parse(FROM_FILE, {"applicationCommits": "TRUE", "readReports": "driver:4041/0af1"})
    assert (options.application_commits, options.read_reports) == (True, "driver:4041/0af1")
    assert "it must be host:port/key" in refusal(FROM_FILE, {"readReports": "driver/0af1"})
    message = refusal(FROM_FILE, {"applicationCommits": "yes"})
    assert "applicationCommits' is 'yes'" in message
    assert "must be true or false" in message
    absent = parse(FROM_FILE)
    assert (absent.application_commits, absent.read_reports) == (False, None)


def test_a_misspelt_kind_of_reference_is_no_literal_secret() -> None:
    message = refusal(FROM_FILE, {"kafka.sasl.password": "${envi:NOPE}", "allowedServers": "*"})
    assert "that is not a reference" in message and "did you mean 'env' instead of 'envi'?" in message
    for value in ("${hunter2:x}", "${hunter2}"):
        message = refusal(FROM_FILE, {"kafka.sasl.password": value, "allowedServers": "*"})
        assert "that is not a reference" in message and SECRET not in message


def test_a_duration_of_thousands_of_digits_is_refused() -> None:
    assert "longer than a hundred years" in refusal(FROM_FILE, {"readTimeout": "9" * 6000})


# -- record evaluators -------------------------------------------------------------------------------------------------

EVALUATOR = {"recordEvaluator": "rules:is_end"}


@pytest.mark.parametrize("key", ["recordEvaluator", "scan.record.evaluator.class"])
@pytest.mark.parametrize("value", ["rules:is_end", "shop.rules:Days.End", "end_of-day"])
def test_an_evaluator_is_named_by_its_path_or_a_short_name(key: str, value: str) -> None:
    assert parse(FROM_FILE, STATE, {key: value}).record_evaluator == value


@pytest.mark.parametrize("value", ["value = 'end'", "CAST(value AS STRING) LIKE 'end%'", "com.shop.EndOfDay", "a:b:c"])
def test_an_expression_or_a_java_class_is_no_evaluator(value: str) -> None:
    text = refusal(FROM_FILE, STATE, {"recordEvaluator": value})
    assert text.startswith(f"option 'recordEvaluator' is '{value}'; it must be `package.module:Name`, or a name that")
    assert "no SQL expression and no Java class" in text


@pytest.mark.parametrize("key", ["minPartitions", "maxRecordsPerPartition"])
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_split_with_an_evaluator_is_never_cut(key: str, mode: Mode) -> None:
    text = refusal(FROM_FILE, STATE, EVALUATOR, {key: "4"}, mode=mode)
    assert text.startswith(f"option '{key}' does not go with option 'recordEvaluator': it cuts a range")


def test_an_evaluator_in_a_stream_needs_a_state_location() -> None:
    with pytest.raises(OptionError, match="'recordEvaluator' needs 'stateLocation'"):
        check_stream(parse(FROM_FILE, EVALUATOR))
    check_stream(parse(FROM_FILE, EVALUATOR, STATE))
    check_stream(parse(FROM_FILE))


def test_a_deserialiser_alone_has_no_effect() -> None:
    alone = parse(FROM_FILE, {"recordDeserializer": "rules:read"})
    words = "option 'recordDeserializer' has no effect without 'recordEvaluator' or mode=deadletter"
    assert alone.warnings == (words,)
    assert parse(FROM_FILE, STATE, EVALUATOR, {"recordDeserializer": "rules:read"}).warnings == ()
    assert "must be `package.module:Name`" in refusal(FROM_FILE, EVALUATOR, {"recordDeserializer": "json"})


def test_evaluators_have_options_of_their_own() -> None:
    own = {"recordEvaluator.closing": "16:00", "recordDeserializer.schema": "v1", "recordDeserializer": "rules:read"}
    assert parse(FROM_FILE, STATE, EVALUATOR, own).raw["recordEvaluator.closing"] == "16:00"
