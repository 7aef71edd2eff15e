"""The options for the start and the stop: words, times, Spark's JSON, and the level of clusters around it."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.options import Mode, SourceOptions, parse_options

SINGLE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}
MANY = {"streamIds": "orders", "metadataPath": "/m"}
NOVEMBER = 1_793_491_200_000


def parse(base: dict[str, str], mode: Mode = "streaming", **given: str) -> SourceOptions:
    return parse_options(base | given, mode=mode)


def refusal(base: dict[str, str], mode: Mode = "streaming", **given: str) -> str:
    with pytest.raises(OptionError) as refused:
        parse(base, mode, **given)
    return str(refused.value)


def test_a_single_cluster_takes_sparks_json_as_it_is() -> None:
    options = parse(SINGLE, startingOffsets='{"orders":{"0":23,"1":-2,"2":-1}}')
    assert options.starting == OffsetSpec("explicit", offsets={"orders": {0: 23, 1: -2, 2: -1}})


def test_words_are_read_in_any_case() -> None:
    assert parse(SINGLE, startingOffsets="EARLIEST").starting == EARLIEST


def test_several_clusters_have_offsets_words_or_times_each() -> None:
    options = parse(
        MANY,
        startingOffsets='{"east":{"orders":{"0":42}},"west":"earliest",'
        '"north":{"timestamp":"2026-11-01T00:00:00Z"},"south":{"timestamp":5}}',
    )
    assert options.starting_for("east") == OffsetSpec("explicit", offsets={"orders": {0: 42}})
    assert options.starting_for("west") == EARLIEST
    assert options.starting_for("north") == OffsetSpec("timestamp", timestamp_ms=NOVEMBER)
    assert options.starting_for("south") == OffsetSpec("timestamp", timestamp_ms=5)


def test_a_cluster_that_is_not_named_follows_the_default() -> None:
    options = parse(MANY, startingOffsets='{"west":"earliest"}')
    assert options.starting_for("east") == LATEST
    assert parse(MANY, "batch", endingOffsets='{"west":{"o":{"0":1}}}').ending_for("east") == LATEST


def test_a_topic_may_be_called_timestamp() -> None:
    options = parse(MANY, startingOffsets='{"east":{"timestamp":{"0":5}}}')
    assert options.starting_for("east") == OffsetSpec("explicit", offsets={"timestamp": {0: 5}})


def test_times_per_partition() -> None:
    spec = OffsetSpec("explicit", timestamps={"orders": {0: 1000}})
    assert parse(SINGLE, startingOffsetsByTimestamp='{"orders":{"0":1000}}').starting == spec
    many = parse(MANY, startingOffsetsByTimestamp='{"east":{"orders":{"0":1000}},"west":"Earliest"}')
    assert (many.starting_for("east"), many.starting_for("west")) == (spec, EARLIEST)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"orders":{"0":-1}}', "'orders.0' must be a time in milliseconds since 1970"),
        ('{"orders":5}', "'orders' must map partitions to times"),
        ('{"orders":{"x":1}}', "'orders.x' is no partition number"),
    ],
)
def test_wrong_times_per_partition_are_named(text: str, reason: str) -> None:
    assert reason in refusal(SINGLE, startingOffsetsByTimestamp=text)


@pytest.mark.parametrize("text", [str(NOVEMBER), "2026-11-01T00:00:00Z", "2026-11-01T01:00:00+01:00"])
def test_one_time_for_all(text: str) -> None:
    assert parse(MANY, startingTimestamp=text).starting == OffsetSpec("timestamp", timestamp_ms=NOVEMBER)


def test_the_order_among_the_options_is_sparks() -> None:
    by_partition = '{"orders":{"0":1000}}'
    three = parse(SINGLE, startingTimestamp="7", startingOffsetsByTimestamp=by_partition, startingOffsets="earliest")
    assert three.starting == OffsetSpec("timestamp", timestamp_ms=7)
    assert three.warnings == (
        "option 'startingOffsetsByTimestamp' has no effect beside 'startingTimestamp'",
        "option 'startingOffsets' has no effect beside 'startingTimestamp'",
    )
    two = parse(SINGLE, startingOffsetsByTimestamp=by_partition, startingOffsets="earliest")
    assert two.starting == OffsetSpec("explicit", timestamps={"orders": {0: 1000}})


def test_an_end_is_allowed_in_streaming_and_makes_it_bounded() -> None:
    options = parse(SINGLE, startingOffsets="earliest", endingOffsets="latest")
    assert (options.ending, options.bounded) == (LATEST, True)


@pytest.mark.parametrize(
    ("base", "text", "reason"),
    [
        (SINGLE, "newest", "it must be earliest, latest, committed or JSON such as"),
        (MANY, "earlyest", "is 'earlyest'; it must be earliest, latest, committed or JSON; did you mean 'earliest'?"),
        (SINGLE, "{}", "names nothing"),
        (SINGLE, '["orders"]', "names nothing"),
        (SINGLE, '{"orders":{}}', "'orders' must map partitions to offsets"),
        (SINGLE, '{"orders":5}', "'orders' must map partitions to offsets"),
        (SINGLE, '{"orders":{"0":-3}}', "'orders.0' must be an offset"),
        (SINGLE, '{"orders":{"0":1.5}}', "'orders.0' must be an offset"),
        (SINGLE, '{"orders":{"0":true}}', "'orders.0' must be an offset"),
        (SINGLE, '{"orders":{"0":9223372036854775808}}', "'orders.0' must be an offset"),
        (SINGLE, '{"orders":{"0":NaN}}', "it is not JSON"),
        (SINGLE, '{"orders":{"x":1}}', "'orders.x' is no partition number"),
        (SINGLE, '{"orders":{"00":1}}', "'orders.00' is no partition number"),
        (SINGLE, '{"orders":{"0":1,"0":2}}', "'0' is there twice"),
        (SINGLE, '{"default":{"orders":{"0":1}}}', "a single cluster has no level by cluster"),
        (MANY, '{"east":{"orders":{"0":{"1":1}}}}', "'east.orders' is one level too deep"),
        (MANY, '{"orders":{"0":42}}', '{"<cluster id>":{"orders":{"0": 42}}}'),
        (MANY, '{"east":"newest"}', "'east' must be earliest, latest, committed"),
        (MANY, '{"east":5}', "'east' must be earliest, latest, committed"),
        (MANY, '{"east":{}}', "'east' must be earliest, latest, committed"),
        (MANY, '{"east":{"orders":{"0":-3}}}', "'east.orders.0' must be an offset"),
        (MANY, '{"east":{"timestamp":"2026-11-01"}}', "'east.timestamp' has no zone"),
        (MANY, '{"east":{"timestamp":5,"orders":{"0":1}}}', "stands for all topics"),
        (MANY, '{"":"latest"}', "a cluster id is empty"),
        (SINGLE, '{"":{"0":1}}', "names an empty topic"),
        (SINGLE, '{"orders":{"2147483648":1}}', "'orders.2147483648' is no partition number"),
        (MANY, "[" * 100_000, "it is not JSON"),
    ],
)
def test_wrong_offsets_are_refused_with_their_place(base: dict[str, str], text: str, reason: str) -> None:
    message = refusal(base, startingOffsets=text)
    assert reason in message
    assert message.startswith("option 'startingOffsets'")
    assert len(message) < 400


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("yesterday", "is no timestamp; write milliseconds since 1970"),
        ("1.5", "is no timestamp"),
        ("9" * 30, "is no timestamp"),
        ("9" * 19, "is no timestamp"),
        ("-1", "lies before 1970"),
        ("1969-12-31T23:59:59Z", "lies before 1970"),
        ("2026-11-01T00:00:00", "has no zone"),
    ],
)
def test_wrong_times_are_refused(text: str, reason: str) -> None:
    assert f"option 'startingTimestamp' {reason}" in refusal(SINGLE, startingTimestamp=text)


@pytest.mark.parametrize(
    ("base", "given", "reason"),
    [
        (SINGLE, {"startingOffsets": "latest"}, "'startingOffsets': the start can't be latest"),
        (SINGLE, {"startingOffsets": '{"orders":{"1":-1}}'}, "orders-1: the start can't be latest"),
        (MANY, {"startingOffsets": '{"east":"latest"}'}, "of cluster 'east': the start can't be latest"),
        (SINGLE, {"endingOffsets": "earliest"}, "'endingOffsets': the end can't be earliest"),
        (SINGLE, {"endingOffsets": '{"orders":{"1":-2}}'}, "orders-1: the end can't be earliest"),
        (
            SINGLE,
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
            "option 'startingOffsets' and option 'endingOffsets': the starting offsets of orders-0 (5) lie after",
        ),
        (
            MANY,
            {"startingOffsets": '{"e":{"o":{"0":5}}}', "endingOffsets": '{"e":{"o":{"0":4}}}'},
            "of cluster 'e' of o-0 (5)",
        ),
        (
            SINGLE,
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
            "only one of them names orders-0, orders-1",
        ),
        (
            SINGLE,
            {"startingTimestamp": "9", "endingTimestamp": "8"},
            "option 'startingTimestamp' and option 'endingTimestamp': the starting time (9) is later than",
        ),
    ],
)
def test_batch_reads_refuse_the_bounds_that_spark_refuses(
    base: dict[str, str], given: dict[str, str], reason: str
) -> None:
    assert reason in refusal(base, "batch", **given)


def test_a_stream_that_would_end_at_earliest_is_refused() -> None:
    assert "the end can't be earliest" in refusal(SINGLE, endingOffsets="earliest")
