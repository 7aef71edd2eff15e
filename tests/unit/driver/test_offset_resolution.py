"""Data losses of a plan, judged with the answers of clusters, without brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import pytest

from dynamic_kafka.driver.offset_resolution import answer_question
from dynamic_kafka.errors import DataLossError
from dynamic_kafka.kafka.probe import ClusterProbe
from dynamic_kafka.metadata import SubscribedCluster
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.losses.acceptance import judge_losses
from dynamic_kafka.planning.losses.dataloss import DataLoss, find_data_loss
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import run_steps
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery
from tests.unit.planning.plans import OPTIONS, plan_input

SPLIT = Split("east", "t", 0)
EAST = {"east": SubscribedCluster({"t": "orders"}, {})}
SAVED = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": TopicProgress("orders", {0: 5})}, "Mk")})


def judged(given: PlanInput, losses: list[DataLoss], probe: object) -> OffsetDocument:
    """Return the progress behind the losses, with the questions answered over this probe."""
    answer = partial(
        answer_question,
        probes={"east": cast(ClusterProbe, probe)},
        state=None,
        options=parse_options(OPTIONS, mode="streaming"),
    )
    return run_steps(judge_losses(given, SAVED, losses), answer).document


class Firsts:
    """A probe of a log that begins at `first`. It counts the questions."""

    def __init__(self, first: int) -> None:
        self.first, self.asked = first, 0

    def offsets(self, queries: Mapping[tuple[str, int], OffsetQuery]) -> dict[tuple[str, int], tuple[int, None]]:
        assert {query.kind for query in queries.values()} == {"earliest"}
        return dict.fromkeys(queries, (self.first, None))

    def ask(self, question: Callable[[Any], Any]) -> Future[Any]:
        self.asked += 1
        future: Future[Any] = Future()
        future.set_result(question(self))
        return future


def recreated(given: Mapping[str, str], earliest: dict[int, int], probe: Firsts) -> OffsetDocument:
    """Return the progress after the loss of a topic that was read up to 5 and is another one now."""
    loss = DataLoss(SPLIT, "the topic was re-created", earliest.get(0, 0), "old", recreated=True)
    answer = ClusterObservation({"t": TopicObservation({0: 9}, earliest, topic_id="new")}, "Mk")
    return judged(plan_input(SAVED, EAST, {"east": answer}, options=given), [loss], probe)


@pytest.mark.parametrize(("earliest", "asked"), [({}, 1), ({0: 3}, 0)], ids=["asked for now", "known already"])
def test_a_recreated_topic_starts_at_its_first_offset(earliest: dict[int, int], asked: int) -> None:
    # Offset 0 may have expired by then, in the new topic too
    probe = Firsts(3)
    after = recreated({"failOnDataLoss": "false"}, earliest, probe)
    assert (after.next_of(SPLIT), probe.asked) == (3, asked)


def test_a_recreated_topic_ends_the_query_by_default() -> None:
    with pytest.raises(DataLossError, match=r"re-created.*accept app\.yaml --data-loss.*first record"):
        recreated({}, {}, Firsts(3))


class Ends:
    """A probe of a cluster that is read by committed records: its last stable offset is 3."""

    def __init__(self, high: int, *, read_committed: bool = True) -> None:
        self.high, self.read_committed = high, read_committed

    def offsets(
        self, queries: Mapping[tuple[str, int], OffsetQuery], *, uncommitted: bool = False
    ) -> dict[tuple[str, int], tuple[int, None]]:
        assert {query.kind for query in queries.values()} == {"latest"}
        return dict.fromkeys(queries, (self.high if uncommitted else 3, None))

    def ask(self, question: Callable[[Any], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(question(self))
        return future


def past_the_end(given: Mapping[str, str], probe: Ends, *, logged: OffsetDocument = SAVED) -> OffsetDocument:
    """Return the progress of a split that was read up to 5, or starts there, in a log that seems to end at 3."""
    answers = {"east": ClusterObservation({"t": TopicObservation({0: 3})}, "Mk")}
    return judged(plan_input(logged, EAST, answers, options=given), find_data_loss(SAVED, answers), probe)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_hidden_by_an_open_transaction_are_not_lost(fail: str) -> None:
    # The split was read while its cluster was read by all records: they still exist
    assert past_the_end({"failOnDataLoss": fail}, Ends(5)) == SAVED


@pytest.mark.parametrize("probe", [Ends(4), Ends(5, read_committed=False)], ids=["shorter for everyone", "as it is"])
def test_a_log_that_ends_earlier_for_everyone_was_cut_off(probe: Ends) -> None:
    with pytest.raises(DataLossError, match=r"log ends at 3, .*offset 5"):
        past_the_end({}, probe)
    after = past_the_end({"failOnDataLoss": "false"}, probe)
    assert after.next_of(SPLIT) == 3


def test_a_start_that_is_newer_than_the_observation_is_no_loss() -> None:
    # A commit, or the first record since a time: the cluster was asked for it after its ends
    document = past_the_end({}, Ends(5, read_committed=False), logged=OffsetDocument())
    assert document.next_of(SPLIT) == 5


def test_a_start_behind_the_end_is_a_loss() -> None:
    with pytest.raises(DataLossError, match=r"log ends at 3, .*offset 5"):
        past_the_end({}, Ends(4, read_committed=False), logged=OffsetDocument())


@pytest.mark.parametrize("kept", [{1: 9}, {0: 2}], ids=["a partition that was added", "past its retention"])
def test_a_newer_start_in_a_parked_topic_is_no_loss(kept: dict[int, int]) -> None:
    parked = {"east": ParkedCluster({"t": ParkedTopic(TopicProgress("orders", kept), 1)}, "Mk")}
    document = past_the_end({}, Ends(5, read_committed=False), logged=OffsetDocument("q", 2, "p", parked=parked))
    assert document.next_of(SPLIT) == 5


def test_a_split_that_resumes_where_it_was_parked_is_not_new() -> None:
    parked = {"east": ParkedCluster({"t": ParkedTopic(TopicProgress("orders", {0: 5}), 1)}, "Mk")}
    with pytest.raises(DataLossError, match=r"log ends at 3, .*offset 5"):
        past_the_end({}, Ends(5, read_committed=False), logged=OffsetDocument("q", 2, "p", parked=parked))
