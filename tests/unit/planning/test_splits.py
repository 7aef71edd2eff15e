"""Splits, and how a batch's ranges become tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic_kafka.planning.splits import Split, SplitRange, group_ranges, slice_ranges


def part(cluster: str, partition: int, start: int, end: int, epoch: int = -1) -> SplitRange:
    return SplitRange(Split(cluster, "t", partition), start, end, epoch)


def test_without_limits_a_range_is_one_piece() -> None:
    assert slice_ranges([part("a", 0, 3, 10)], min_partitions=None, max_records=None) == [part("a", 0, 3, 10)]


def test_an_empty_range_is_no_task() -> None:
    assert slice_ranges([part("a", 0, 3, 3)], min_partitions=4, max_records=1) == []


def test_no_piece_holds_more_than_the_limit() -> None:
    pieces = slice_ranges([part("a", 0, 0, 10)], min_partitions=None, max_records=4)
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 3), (3, 6), (6, 10)]


def test_larger_ranges_are_cut_more_often() -> None:
    pieces = slice_ranges([part("a", 0, 0, 90), part("a", 1, 0, 10)], min_partitions=10, max_records=None)
    assert [piece.split.partition for piece in pieces].count(0) == 9
    assert len(pieces) == 10


def test_enough_pieces_are_not_cut_further() -> None:
    ranges = [part("a", 0, 0, 90), part("a", 1, 0, 10)]
    assert slice_ranges(ranges, min_partitions=2, max_records=None) == ranges


def test_a_range_is_never_cut_below_one_offset() -> None:
    assert len(slice_ranges([part("a", 0, 5, 7)], min_partitions=50, max_records=None)) == 2


@pytest.mark.scenario(9)
def test_clusters_take_turns_so_a_slow_one_never_holds_all_slots() -> None:
    ranges = [part("a", 0, 0, 1), part("a", 1, 0, 1), part("a", 2, 0, 1), part("b", 0, 0, 1), part("b", 1, 0, 1)]
    turns = slice_ranges(ranges, min_partitions=None, max_records=None)
    assert [piece.split.cluster for piece in turns] == ["a", "b", "a", "b", "a"]


def test_the_epoch_is_known_at_the_ranges_own_start_only() -> None:
    pieces = slice_ranges([part("a", 0, 0, 4, epoch=7)], min_partitions=2, max_records=None)
    assert [piece.epoch for piece in pieces] == [7, -1]


def test_a_split_is_no_joined_string() -> None:
    assert Split("a/b", "c", 0) != Split("a", "b/c", 0)
    assert str(Split("east", "orders", 3)) == "east/orders[3]"


@given(
    ranges=st.dictionaries(
        st.builds(Split, st.sampled_from("abc"), st.sampled_from("tu"), st.integers(0, 5)),
        st.tuples(st.integers(0, 1 << 40), st.integers(0, 60)),
        max_size=8,
    ),
    min_partitions=st.none() | st.integers(1, 80),
    max_records=st.none() | st.integers(1, 70),
)
def test_pieces_cover_the_ranges_exactly(
    ranges: dict[Split, tuple[int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [SplitRange(split, start, start + size) for split, (start, size) in ranges.items()]
    pieces = slice_ranges(whole, min_partitions=min_partitions, max_records=max_records)
    assert all(piece.size > 0 for piece in pieces)
    assert max_records is None or all(piece.size <= max_records for piece in pieces)
    for unsliced in whole:
        own = sorted((p.start, p.end) for p in pieces if p.split == unsliced.split)
        assert [start for start, _ in own] == ([unsliced.start, *[end for _, end in own[:-1]]] if unsliced.size else [])
        assert not own or own[-1][1] == unsliced.end


def few(cluster: str, count: int, size: int = 1) -> list[SplitRange]:
    return [part(cluster, number, 0, size) for number in range(count)]


def grouped(ranges: list[SplitRange], least: int | None = None) -> list[int]:
    return [len(group) for group in group_ranges(ranges, min_partitions=least)]


def test_only_many_small_ranges_share_tasks() -> None:
    assert grouped(few("a", 64)) == [1] * 64
    assert grouped(few("a", 127)) == [1] * 127
    assert grouped(few("a", 128)) == [2] * 64
    assert grouped(few("a", 1000)) == [15] * 66 + [10]


def test_shared_tasks_have_a_limited_number_of_offsets() -> None:
    assert grouped(few("a", 1000, size=4000)) == [2] * 500
    assert grouped(few("a", 1000, size=5001)) == [1] * 1000
    # A large range does not keep the small ones before and behind it apart
    assert grouped([*few("a", 2), part("a", 9, 0, 10_001), *few("a", 300)])[:3] == [4, 1, 4]


def test_there_are_never_fewer_tasks_than_min_partitions() -> None:
    assert grouped(few("a", 1000), 300) == [3] * 333 + [1]
    assert grouped(few("a", 1000), 3) == [15] * 66 + [10]


def test_tasks_are_shared_within_a_cluster_in_turns() -> None:
    turns = slice_ranges([*few("a", 200), *few("b", 200)], min_partitions=None, max_records=None)
    groups = group_ranges(turns, min_partitions=None)
    assert [{piece.split.cluster for piece in group} for group in groups] == [{"a"}, {"b"}] * 34


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6_000)), max_size=400),
    st.none() | st.integers(1, 300),
    st.none() | st.integers(1, 20_000),
)
def test_groups_hold_each_range_once(given_ranges: list[tuple[str, int]], least: int | None, most: int | None) -> None:
    ranges = [part(cluster, number, 0, size) for number, (cluster, size) in enumerate(given_ranges)]
    groups = group_ranges(ranges, min_partitions=least, max_records=most)
    assert sorted((piece for group in groups for piece in group), key=lambda piece: piece.split.partition) == ranges
    assert len(groups) >= min(len(ranges), max(64, least or 0))
    assert all(len({piece.split.cluster for piece in group}) == 1 for group in groups)
    assert all(len(group) == 1 or sum(piece.size for piece in group) <= min(10_000, most or 10_000) for group in groups)
