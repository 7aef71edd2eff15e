"""Where a split starts, and where it stops."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import COMMITTED, EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery, resolve_start, resolve_stop, starting_spec

SPLIT = Split("east", "orders", 1)
EXPLICIT = OffsetSpec("explicit", offsets={"orders": {0: 5, 1: 42}})
NOON = OffsetSpec("timestamp", timestamp_ms=1_000)


def spec(
    *, first: bool, topic_is_new: bool = True, configured: OffsetSpec | None = None, own: OffsetSpec | None = None
) -> OffsetSpec:
    return starting_spec(first_plan=first, new_topic=topic_is_new, configured=configured, own=own)


def test_the_first_plan_starts_as_configured() -> None:
    assert spec(first=True, configured=COMMITTED) == COMMITTED
    assert spec(first=True) == LATEST


def test_what_metadata_says_of_a_cluster_wins() -> None:
    assert spec(first=True, configured=LATEST, own=EXPLICIT) == EXPLICIT
    assert spec(first=False, configured=LATEST, own=LATEST) == LATEST


def test_what_is_found_later_starts_at_earliest() -> None:
    assert spec(first=False, configured=LATEST) == EARLIEST
    assert spec(first=False, topic_is_new=False, configured=LATEST) == EARLIEST


@pytest.mark.parametrize("own", [LATEST, COMMITTED])
def test_a_partition_added_to_a_topic_in_use_skips_nothing(own: OffsetSpec) -> None:
    assert spec(first=False, topic_is_new=False, own=own) == EARLIEST


@pytest.mark.parametrize("topic_is_new", [True, False])
def test_explicit_offsets_do_not_apply_to_a_recreated_topic(topic_is_new: bool) -> None:
    rules = {"first_plan": False, "new_topic": topic_is_new, "configured": None, "recreated": True}
    assert starting_spec(**rules, own=EXPLICIT) == EARLIEST  # type: ignore[arg-type]
    assert starting_spec(**rules, own=NOON) == NOON  # type: ignore[arg-type]


def test_a_partition_added_to_a_topic_honours_a_timestamp() -> None:
    assert spec(first=False, topic_is_new=False, own=NOON) == NOON


def test_a_number_needs_no_question() -> None:
    assert resolve_start(EXPLICIT, SPLIT, lenient=False) == 42


@pytest.mark.parametrize(("offset", "kind"), [(-2, "earliest"), (-1, "latest")])
def test_sparks_two_numbers_for_the_ends_of_a_log(offset: int, kind: str) -> None:
    given = OffsetSpec("explicit", offsets={"orders": {1: offset}})
    assert resolve_start(given, SPLIT, lenient=False) == OffsetQuery(kind)
    assert resolve_stop(given, SPLIT) == OffsetQuery(kind)


def test_explicit_starts_have_to_name_every_partition() -> None:
    partial = OffsetSpec("explicit", offsets={"orders": {0: 5}})
    with pytest.raises(OptionError, match=r"no offset for east/orders\[1\].*-2[^,]*earliest"):
        resolve_start(partial, SPLIT, lenient=False, strict=True)
    assert resolve_start(partial, SPLIT, lenient=True) == OffsetQuery("earliest")


def test_a_timestamp_of_the_partition_wins_over_the_common_one() -> None:
    given = OffsetSpec("timestamp", timestamp_ms=1, timestamps={"orders": {1: 2}})
    assert resolve_start(given, SPLIT, lenient=False) == OffsetQuery("timestamp", 2)
    assert resolve_start(given, Split("east", "orders", 0), lenient=False) == OffsetQuery("timestamp", 1)


def test_timestamps_have_to_name_every_partition_too() -> None:
    given = OffsetSpec("explicit", timestamps={"orders": {0: 2}})
    with pytest.raises(OptionError, match="name no timestamp"):
        resolve_start(given, SPLIT, lenient=False, strict=True)


def test_no_record_as_new_is_an_error_unless_strategy_is_latest() -> None:
    assert resolve_start(NOON, SPLIT, lenient=False) == OffsetQuery("timestamp", 1_000, lenient=False)
    assert resolve_start(NOON, SPLIT, lenient=False, strategy="latest") == OffsetQuery("timestamp", 1_000, lenient=True)


def test_splits_found_later_need_no_commit() -> None:
    assert resolve_start(COMMITTED, SPLIT, lenient=False) == OffsetQuery("committed")
    assert resolve_start(COMMITTED, SPLIT, lenient=True) == OffsetQuery("committed", lenient=True)


def test_stops() -> None:
    assert resolve_stop(EXPLICIT, SPLIT) == 42
    assert resolve_stop(LATEST, SPLIT) == OffsetQuery("latest")
    assert resolve_stop(NOON, SPLIT) == OffsetQuery("timestamp", 1_000, lenient=True)


def test_explicit_ends_have_to_name_every_partition() -> None:
    for field, what in (("offsets", "offset"), ("timestamps", "timestamp")):
        partial = OffsetSpec("explicit", **{field: {"orders": {0: 5}}})  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=rf"endingOffsets.*no {what} .*east/orders\[1\].*every partition"):
            resolve_stop(partial, SPLIT, strict=True)
        assert resolve_stop(partial, SPLIT) == OffsetQuery("latest")


def test_a_partition_without_a_stop_of_its_own_ends_where_it_is() -> None:
    assert resolve_stop(OffsetSpec("explicit", offsets={}), SPLIT) == OffsetQuery("latest")
    assert resolve_stop(OffsetSpec("timestamp", timestamps={}), SPLIT) == OffsetQuery("latest")
