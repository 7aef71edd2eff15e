"""The demo's proof finds every kind of wrong row in a sink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demo.proof import Delivered, Split, Verdict, check_return, prove

OFFSETS_BEFORE = 100
"""Offsets in each partition before the first record, so that offsets and sequences differ."""


def written(per_lane: int = 10, clusters: str = "AB") -> dict[Split, dict[int, int]]:
    return {(name, split): {n: OFFSETS_BEFORE + n for n in range(per_lane)} for name in clusters for split in (0, 1)}


def sink_of(produced: dict[Split, dict[int, int]]) -> list[Delivered]:
    return [
        Delivered(cluster, partition, offset, cluster, partition, sequence, written_at=0.0, batch=0)
        for (cluster, partition), known in produced.items()
        for sequence, offset in known.items()
    ]


def record(rows: list[Delivered], cluster: str, partition: int, sequence: int) -> Delivered:
    return next(row for row in rows if row[3:6] == (cluster, partition, sequence))


def wrong(verdict: Verdict) -> dict[str, int]:
    kinds = ("lost", "duplicated", "unknown", "misplaced", "gaps")
    return {kind: getattr(verdict, kind) for kind in kinds if getattr(verdict, kind)}


def test_a_sink_with_every_record_once_is_right() -> None:
    verdict = prove(written(), sink_of(written()))

    assert verdict.holds
    assert (verdict.produced, verdict.delivered, wrong(verdict), verdict.examples) == (40, 40, {}, [])
    assert verdict.per_cluster == {"A": (20, 20), "B": (20, 20)}


def test_the_order_of_rows_does_not_matter() -> None:
    assert prove(written(), reversed(sink_of(written()))).holds


def test_a_record_lost_in_the_middle_is_found_and_named() -> None:
    rows = sink_of(written())
    rows.remove(record(rows, "B", 1, 5))

    verdict = prove(written(), rows)

    assert not verdict.holds
    assert wrong(verdict) == {"lost": 1, "gaps": 1}
    assert verdict.examples == ["lost: cluster B, partition 1, sequence 5"]
    assert verdict.per_cluster == {"A": (20, 20), "B": (20, 19)}


@pytest.mark.parametrize("sequence", [0, 9])
def test_a_record_lost_at_an_end_is_found_without_a_gap(sequence: int) -> None:
    rows = sink_of(written())
    rows.remove(record(rows, "A", 0, sequence))

    verdict = prove(written(), rows)

    assert not verdict.holds
    assert wrong(verdict) == {"lost": 1}


def test_a_cluster_without_any_row_is_lost() -> None:
    verdict = prove(written(clusters="ABC"), sink_of(written(clusters="AB")))

    assert not verdict.holds
    assert wrong(verdict) == {"lost": 20}


def test_a_duplicate_record_is_found_and_named() -> None:
    rows = sink_of(written())
    rows.append(record(rows, "A", 1, 3))

    verdict = prove(written(), rows)

    assert not verdict.holds
    assert wrong(verdict) == {"duplicated": 1}
    assert verdict.delivered == 40
    assert verdict.examples == ["2 times: cluster A, partition 1, sequence 3"]


def test_each_further_copy_counts() -> None:
    rows = sink_of(written())
    rows += [record(rows, "A", 1, 3)] * 3

    assert prove(written(), rows).duplicated == 3


def test_a_lost_and_a_duplicate_record_do_not_cancel_out() -> None:
    rows = sink_of(written())
    rows.remove(record(rows, "A", 0, 9))
    rows.append(record(rows, "A", 0, 8))

    verdict = prove(written(), rows)

    assert len(rows) == verdict.produced
    assert not verdict.holds
    assert wrong(verdict) == {"lost": 1, "duplicated": 1}


def test_a_duplicate_at_another_offset_is_found() -> None:
    # A producer that is not idempotent may write a record twice. Both rows have their right offsets.
    rows = sink_of(written())
    rows.append(record(rows, "A", 0, 9)._replace(offset=OFFSETS_BEFORE + 10))

    assert wrong(prove(written(), rows)) == {"duplicated": 1, "misplaced": 1}


def test_a_row_under_another_clusters_name_is_found() -> None:
    rows = sink_of(written())
    swapped = record(rows, "A", 0, 4)
    rows[rows.index(swapped)] = swapped._replace(cluster="B")

    verdict = prove(written(), rows)

    assert not verdict.holds
    assert verdict.misplaced == 1


def test_a_row_that_was_never_produced_is_found() -> None:
    rows = sink_of(written())
    rows.append(record(rows, "A", 0, 9)._replace(offset=OFFSETS_BEFORE + 10, sequence=10))

    verdict = prove(written(), rows)

    assert not verdict.holds
    assert wrong(verdict) == {"unknown": 1}


def test_a_run_without_records_proves_nothing() -> None:
    assert not prove({}, []).holds


def test_only_the_first_few_of_many_are_named() -> None:
    assert len(prove(written(), []).examples) == 5


# A cluster that came back


def before_and_after(first: range, second: range) -> list[Delivered]:
    def row(offset: int, batch: int) -> Delivered:
        return Delivered("A", 0, offset, "A", 0, offset, written_at=0.0, batch=batch)

    elsewhere = [row(offset, 4)._replace(cluster="B") for offset in range(50)]
    return [*(row(offset, 3) for offset in first), *elsewhere, *(row(offset, 9) for offset in second)]


def test_a_return_at_the_parked_offset_is_exact() -> None:
    [split] = check_return(before_and_after(range(10), range(10, 15)), "A", {0: 10}, since=8)

    assert split.exact
    assert (split.last_before, split.parked, split.first_after, split.read_again) == (9, 10, 10, 0)


def test_a_cluster_that_is_read_from_the_start_again_is_found() -> None:
    [split] = check_return(before_and_after(range(10), range(15)), "A", {0: 10}, since=8)

    assert not split.exact
    assert split.read_again == 10


def test_a_cluster_that_skips_a_record_is_found() -> None:
    [split] = check_return(before_and_after(range(10), range(11, 15)), "A", {0: 10}, since=8)

    assert not split.exact
    assert split.first_after == 11


def test_an_offset_kept_beyond_what_was_read_is_found() -> None:
    [split] = check_return(before_and_after(range(9), range(10, 15)), "A", {0: 10}, since=8)

    assert not split.exact


def test_a_partition_without_rows_after_the_return_is_not_exact() -> None:
    splits = check_return(before_and_after(range(10), range(10, 15)), "A", {0: 10, 1: 10}, since=8)

    assert [split.exact for split in splits] == [True, False]


def test_a_return_is_exact_only_with_all_three_right() -> None:
    [split] = check_return(before_and_after(range(10), range(10, 15)), "A", {0: 10}, since=8)

    assert not replace(split, read_again=1).exact
    assert not replace(split, last_before=8).exact
    assert not replace(split, first_after=None).exact
