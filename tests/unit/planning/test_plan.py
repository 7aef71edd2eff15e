"""The next document of a plan, and the ranges of a batch between two documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.advance import Limits, Plan, advance, open_splits, ranges_between
from dynamic_kafka.planning.document.codec import decode, encode, fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split, SplitRange

EAST, WEST = Split("east", "t", 0), Split("west", "t", 0)


def logged(**clusters: TopicProgress) -> OffsetDocument:
    return OffsetDocument(
        "q", 4, "p", clusters={name: ClusterProgress({"t": topic}) for name, topic in clusters.items()}
    )


def at(*following: int, **more: Any) -> TopicProgress:
    return TopicProgress("s", dict(enumerate(following)), **more)


def ends(epoch: int | None = None, **clusters: int) -> dict[str, ClusterObservation]:
    epochs = {} if epoch is None else {0: epoch}
    return {
        name: ClusterObservation({"t": TopicObservation({0: end}, epochs=epochs)}) for name, end in clusters.items()
    }


def planned(
    document: OffsetDocument,
    observed: dict[str, ClusterObservation],
    *,
    of: OffsetDocument | None = None,
    **limits: Any,
) -> Plan:
    return advance(of or document, document, observed=observed, limits=Limits(**limits), query="q")


def test_a_batch_takes_what_is_there() -> None:
    document = logged(east=at(5))
    plan = planned(document, ends(east=9))
    assert plan.document.next_of(EAST) == 9
    assert (plan.document.number, plan.document.previous) == (5, fingerprint(document))
    assert (plan.admitted, plan.lag, plan.left) == (4, {"east": 4}, {"east": 0})


def test_without_news_it_is_the_very_same_document() -> None:
    document = logged(east=at(5, starts={0: 3}))
    assert planned(document.settled(), ends(east=5), of=document).document is document


def test_a_silent_cluster_stays_where_it_is_and_the_others_go_on() -> None:
    plan = planned(logged(east=at(5), west=at(7)), ends(east=9))
    assert (plan.document.next_of(EAST), plan.document.next_of(WEST)) == (9, 7)
    assert plan.lag == {"east": 4}


def test_a_limit_is_shared_over_the_clusters() -> None:
    plan = planned(logged(east=at(0), west=at(0)), ends(east=91, west=11), max_offsets=12)
    assert (plan.document.next_of(EAST), plan.document.next_of(WEST)) == (10, 2)
    assert plan.lag == {"east": 91, "west": 11}
    assert plan.left == {"east": 81, "west": 9}
    assert plan.admitted == 12


@pytest.mark.scenario(36)
def test_holding_back_a_split_touches_just_that_split() -> None:
    """Three ways to hold one split back; its neighbour on the same topic and the other cluster are read to their ends.

    Not covered yet: alignment by watermarks as the reason for holding back. The source has none so far; when it comes,
    it has to keep this rule.
    """
    # Given two splits of one topic, and one on another cluster, all with records waiting
    held, neighbour = Split("east", "t", 0), Split("east", "t", 1)
    document = logged(east=at(5, 5), west=at(5))
    world = {
        "east": ClusterObservation({"t": TopicObservation({0: 9, 1: 9})}),
        "west": ClusterObservation({"t": TopicObservation({0: 9})}),
    }
    stopped = replace(document, clusters={**document.clusters, "east": ClusterProgress({"t": at(5, 5, stops={0: 5})})})
    unseen = {**world, "east": ClusterObservation({"t": TopicObservation({1: 9})})}
    plans = {
        # When one split has a limit of its own (the ends of a run), a stop, or no answer
        "limit": planned(document, world, targets={held: 5, neighbour: 9, WEST: 9}),
        "stop": planned(stopped, world),
        "no answer": planned(document, unseen),
    }
    # Then it keeps its offset, and the others take all their records
    for why, plan in plans.items():
        after = [plan.document.next_of(split) for split in (held, neighbour, WEST)]
        assert (after, plan.admitted) == ([5, 9, 9], 8), why
        assert [part.split for part in ranges_between(document, plan.document)] == [neighbour, WEST], why
    # And when nothing holds it back any more, it takes the rest, and no record twice
    for why in ("limit", "no answer"):
        later = planned(plans[why].document, world).document
        assert ranges_between(plans[why].document, later) == [SplitRange(held, 5, 9)], why


def test_too_few_offsets_wait() -> None:
    document = logged(east=at(5))
    few = {"min_offsets": 10, "max_delay_ms": 1_000}
    assert planned(document, ends(east=9), waited_ms=10, **few).document is document
    assert planned(document, ends(east=9), waited_ms=1_000, **few).document.next_of(EAST) == 9


def test_a_run_up_to_now_reads_no_further() -> None:
    document = logged(east=at(5), west=at(7))
    plan = planned(document, ends(east=9, west=9), targets={EAST: 6})
    assert (plan.document.next_of(EAST), plan.document.next_of(WEST)) == (6, 7)


def test_a_stopping_offset_ends_a_split() -> None:
    document = replace(logged(east=at(5, stops={0: 6})), bounded=True)
    plan = planned(document, ends(east=9))
    assert plan.document.next_of(EAST) == 6
    assert plan.document.finished
    assert planned(plan.document, ends(east=9)).document is plan.document


def test_a_log_that_is_shorter_than_what_was_read_gives_nothing() -> None:
    document = logged(east=at(5))
    assert planned(document, ends(east=2)).document is document


def test_a_leader_epoch_moves_with_its_split_only() -> None:
    document = logged(east=at(5, epochs={0: 1}))
    assert planned(document, ends(epoch=2, east=5)).document is document
    assert planned(document, ends(epoch=2, east=6)).document.topic("east", "t") == at(6, epochs={0: 2})


def test_the_first_document_is_written_without_records_too() -> None:
    opened = replace(logged(east=at(5)), query="", number=0, previous="")
    plan = planned(opened, ends(east=5), of=OffsetDocument())
    assert plan.document.query == "q"
    assert plan.document.topic("east", "t") == at(5, starts={0: 5})


# -- starts ------------------------------------------------------------------------------------------------------------


def test_a_start_that_the_last_document_does_not_show_is_written() -> None:
    before = logged(east=at(5, 6))
    progress = logged(east=at(2, 6, 1))  # 0 went back, 2 is new
    topic = planned(progress, {}, of=before).document.topic("east", "t")
    assert topic is not None
    assert topic.starts == {0: 2, 2: 1}


def test_a_cluster_under_a_new_id_has_all_its_starts() -> None:
    before, after = logged(east=at(5)), logged(ost=at(5))
    document = planned(after, ends(ost=9), of=before).document
    assert ranges_between(before, document) == [SplitRange(Split("ost", "t", 0), 5, 9)]


def test_a_range_taken_again_is_news_even_with_the_same_end() -> None:
    before, rewound = logged(east=at(9)), logged(east=at(5))
    document = planned(rewound, ends(east=9), of=before).document
    assert ranges_between(before, document) == [SplitRange(EAST, 5, 9)]


def test_starts_are_those_of_one_batch() -> None:
    first = logged(east=at(5, starts={0: 3}))
    document = planned(first.settled(), ends(east=9), of=first).document
    assert document.topic("east", "t") == at(9)


# -- new splits --------------------------------------------------------------------------------------------------------


def test_new_splits_are_added_at_their_start_with_their_stop() -> None:
    opened = open_splits(logged(east=at()), {EAST: 7}, {EAST: 9}, {})
    assert opened.topic("east", "t") == at(7, stops={0: 9})


@pytest.mark.parametrize(("start", "epochs"), [(7, {0: 3}), (8, {0: 3}), (9, {})])
def test_new_splits_are_added_with_the_observed_leader_epoch(start: int, epochs: dict[int, int]) -> None:
    # A start behind the observed end belongs to a later observation
    opened = open_splits(logged(east=at()), {EAST: start}, {}, ends(epoch=3, east=8))
    assert opened.topic("east", "t") == at(start, epochs=epochs)


def test_a_topic_without_a_known_start_waits() -> None:
    assert open_splits(logged(east=at(), west=at(1)), {}, {}, {}) == logged(west=at(1))


# -- ranges ------------------------------------------------------------------------------------------------------------


def test_ranges_lead_from_one_document_to_the_next() -> None:
    ranges = ranges_between(logged(east=at(5, 1, epochs={0: 3})), logged(east=at(9, 1)))
    assert ranges == [SplitRange(EAST, 5, 9, epoch=3)]


def test_a_start_of_its_own_counts_before_the_document_before() -> None:
    assert ranges_between(logged(east=at(5)), logged(east=at(9, starts={0: 2}))) == [SplitRange(EAST, 2, 9)]


def test_what_is_read_no_longer_has_no_range() -> None:
    assert ranges_between(logged(east=at(5), west=at(7)), logged(west=at(7))) == []


@pytest.mark.parametrize("before", [logged(), logged(east=at(10))], ids=["unknown", "ahead"])
def test_documents_that_do_not_belong_together_are_refused(before: OffsetDocument) -> None:
    with pytest.raises(OffsetDocumentError, match=r"east/t\[0\] goes.*restore the checkpoint"):
        ranges_between(before, logged(east=at(9)))


def test_a_state_that_the_document_does_not_name_is_news() -> None:
    # Until a document names it, nothing shows that the folder was lost.
    document = logged(east=at(5))
    plan = advance(document, document, observed=ends(east=5), limits=Limits(), query="q", state="e1")
    assert (plan.document.state, plan.document.number, plan.admitted) == ("e1", 5, 0)
    bound = decode(encode(plan.document))
    assert (
        advance(bound, bound.settled(), observed=ends(east=5), limits=Limits(), query="q", state="e1").document is bound
    )
