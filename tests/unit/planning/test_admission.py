"""Rate limits, shared over all clusters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dynamic_kafka.planning.advance import must_wait, share

LAGS = st.dictionaries(st.integers(0, 30), st.integers(0, 1_000), max_size=15)


def test_below_the_limit_everything_is_taken() -> None:
    assert share({"a": 3, "b": 0, "c": 2}, 10) == {"a": 3, "c": 2}


def test_above_it_a_larger_backlog_takes_more() -> None:
    assert share({"a": 901, "b": 101}, 102) == {"a": 91, "b": 11}


def test_a_small_split_beside_a_huge_one_is_not_rounded_away() -> None:
    assert share({"huge": 1_000_000, "small": 1}, 10) == {"huge": 9, "small": 1}


def test_with_fewer_offsets_than_splits_everyone_has_a_turn() -> None:
    lags = {"a": 5, "b": 5, "c": 5}
    assert [sorted(share(lags, 1, turn)) for turn in range(4)] == [["a"], ["b"], ["c"], ["a"]]


def test_the_same_turn_shares_the_same_way() -> None:
    lags = {"a": 5, "b": 6, "c": 7}
    assert share(lags, 2, 8) == share(lags, 2, 8)


@given(lags=LAGS, limit=st.integers(1, 2_000), turn=st.integers(0, 1_000))
def test_a_share_is_within_limit_and_lag_and_complete(lags: dict[int, int], limit: int, turn: int) -> None:
    granted = share(lags, limit, turn)
    assert sum(granted.values()) == min(limit, sum(lags.values()))
    assert all(0 < count <= lags[split] for split, count in granted.items())


@given(lags=LAGS, limit=st.integers(1, 50), turn=st.integers(0, 1_000))
def test_no_split_starves_while_all_of_them_wait(lags: dict[int, int], limit: int, turn: int) -> None:
    # Producers are quicker than any limit: the backlog never shrinks.
    waiting = {split for split, lag in lags.items() if lag}
    turns = -(-len(waiting) // limit)
    served = {split for later in range(turns) for split in share(lags, limit, turn + later)}
    assert served == waiting


@given(lags=st.dictionaries(st.integers(0, 9), st.integers(0, 40), max_size=6), limit=st.integers(1, 20))
def test_a_backlog_is_read_in_as_few_turns_as_the_limit_allows(lags: dict[int, int], limit: int) -> None:
    left, turn = dict(lags), 0
    while any(left.values()):
        for split, count in share(left, limit, turn).items():
            left[split] -= count
        turn += 1
    assert turn == -(-sum(lags.values()) // limit)


def waits(lag: int, *, least: int | None = 100, waited_ms: int = 0) -> bool:
    return must_wait(lag, min_offsets=least, waited_ms=waited_ms, max_delay_ms=1_000)


def test_too_little_waits_for_more() -> None:
    assert waits(99)
    assert not waits(100)


def test_after_the_longest_delay_anything_is_worth_a_batch() -> None:
    assert waits(1, waited_ms=999)
    assert not waits(1, waited_ms=1_000)


def test_nothing_is_not_waited_for() -> None:
    assert not waits(0)
    assert not waits(5, least=None)
