"""The end of a run that ends by itself."""

from __future__ import annotations

import pytest

from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split


def progress(*, bounded: bool = False, stops: dict[int, int] | None = None, **following: int) -> OffsetDocument:
    """Return progress: the next offset of each cluster's only partition."""
    clusters = {
        name: ClusterProgress({"t": TopicProgress("s", {0: at}, stops=stops or {})}) for name, at in following.items()
    }
    return OffsetDocument("q", 3, "p", bounded=bounded, clusters=clusters)


def answers(**ends: int) -> dict[str, ClusterObservation]:
    return {name: ClusterObservation({"t": TopicObservation({0: end})}) for name, end in ends.items()}


def fixed(**ends: int) -> Targets:
    targets = Targets()
    targets.fix(answers(**ends))
    return targets


def test_a_clusters_ends_are_fixed_at_its_first_answer_in_a_run() -> None:
    targets = fixed(east=5)
    targets.fix(answers(east=9, west=7))
    assert targets.ends == {Split("east", "t", 0): 5, Split("west", "t", 0): 7}


def test_a_run_without_an_end_waits_for_no_cluster() -> None:
    assert still_to_read(progress(east=0), ["east", "west"], None) == frozenset()


@pytest.mark.parametrize(
    ("found", "targets", "wanted"),
    [
        (progress(east=5), fixed(east=5), set()),
        (progress(east=4), fixed(east=5), {"east"}),
        (progress(east=9), fixed(east=5), set()),
        (progress(east=0), fixed(east=0), set()),
        (progress(), fixed(east=0), {"east"}),  # it was seen and is not yet entered
        (progress(east=5), fixed(), {"east"}),  # it has not answered in this run: its ends are unknown
        (progress(), fixed(), {"east"}),
    ],
)
def test_a_run_of_available_now_is_over_at_its_ends(found: OffsetDocument, targets: Targets, wanted: set[str]) -> None:
    assert still_to_read(found, ["east"], targets) == wanted


@pytest.mark.parametrize(
    ("at", "targets", "wanted"),
    [
        (10, None, set()),
        (9, None, {"east"}),
        (10, fixed(), set()),
        (9, fixed(), {"east"}),
        (9, fixed(east=9), set()),  # the rest of it comes later
        (8, fixed(east=9), {"east"}),
    ],
)
def test_a_bounded_run_ends_at_its_stops_or_earlier_targets(at: int, targets: Targets | None, wanted: set[str]) -> None:
    assert still_to_read(progress(bounded=True, stops={0: 10}, east=at), ["east"], targets) == wanted


def test_a_bounded_run_ignores_clusters_found_after_its_start() -> None:
    assert still_to_read(progress(bounded=True, stops={0: 10}, east=10), ["east", "new"], None) == frozenset()
