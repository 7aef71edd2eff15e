"""What a plan checks before it goes on, without brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, cast

import pytest

from dynamic_kafka.driver.observer import Observed, RevisionRejectedError
from dynamic_kafka.driver.offset_resolution import Decisions
from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.errors import ClusterError, DataLossError
from dynamic_kafka.kafka.probe import ClusterProbe
from dynamic_kafka.metadata import Discovered, OffsetSpec, Revision, SubscribedCluster, Subscription
from dynamic_kafka.options import SourceOptions, parse_options
from dynamic_kafka.planning.dataloss import DataLoss, find_data_loss
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.reconcile import Reconciled
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery

GIVEN = {"streamIds": "orders", "metadataPath": "streams.yaml"}
OPTIONS = parse_options(GIVEN, mode="streaming")
EARLIEST = parse_options(GIVEN | {"startingOffsets": "earliest"}, mode="streaming")
BOUNDED = parse_options(GIVEN | {"endingOffsets": "latest"}, mode="streaming")
SAVED = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": TopicProgress("orders", {0: 5})}, "Mk")})


def decisions(status: PlanStatus, kafka_id: str | None) -> Decisions:
    """The answers for a plan on a cluster `east` that tells this `cluster.id`."""
    subscription = Subscription({"east": SubscribedCluster({"t": "orders"}, {})}, ("orders",))
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, kafka_id)
    found = Discovered(subscription, Revision("sha256:x"), 1)
    observed = Observed(subscription, {"east": answer}, found, {}, False)
    return Decisions(OPTIONS, None, status, SAVED, observed, frozenset({"east"}), "q")


def test_a_cluster_that_tells_no_id_is_read_on_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    status = PlanStatus()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert decisions(status, None).verify(SAVED) is SAVED
    assert [record.message for record in caplog.records] == [
        "cluster 'east' tells no cluster.id: that it is still the same one cannot be checked"
    ]


def test_a_cluster_that_tells_its_saved_id_is_read_on_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decisions(PlanStatus(), "Mk").verify(SAVED) is SAVED
    assert not caplog.records


def unclear(options: SourceOptions, logged: OffsetDocument, *, stops: bool = False) -> Decisions:
    """The answers for a plan on a cluster `east` that lists the topics `t` and `u`, and describes only `t`."""
    stopping = OffsetSpec("latest") if stops else None
    wanted = SubscribedCluster({"t": "orders", "u": "orders"}, {}, stopping_offsets=stopping)
    subscription = Subscription({"east": wanted}, ("orders",))
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk", missing=frozenset())
    observed = Observed(subscription, {"east": answer}, Discovered(subscription, Revision("sha256:x"), 1), {}, False)
    return Decisions(options, None, PlanStatus(), logged, observed, frozenset(), "q")


@pytest.mark.parametrize(("options", "stops"), [(BOUNDED, False), (OPTIONS, True)], ids=["by option", "by metadata"])
def test_a_bounded_run_does_not_begin_without_a_topic_that_is_listed_and_not_described(
    options: SourceOptions, stops: bool
) -> None:
    # It finds nothing after its first plan: the topic would be left out, and nobody told
    with pytest.raises(ClusterError) as refused:
        unclear(options, OffsetDocument(), stops=stops).verify(OffsetDocument())
    assert "[CLUSTER_ERROR cluster=east] lists the topic 'u' but does not describe it" in str(refused.value)
    assert "Start again in a moment" in str(refused.value)


def test_a_first_plan_that_starts_elsewhere_does_not_miss_such_a_topic() -> None:
    # Found later, it would start at its first record
    with pytest.raises(ClusterError, match=r"cluster=east\] lists the topic 'u' .* read from its first record"):
        unclear(OPTIONS, OffsetDocument()).verify(OffsetDocument())


@pytest.mark.parametrize(
    ("options", "logged"),
    [(EARLIEST, OffsetDocument()), (OPTIONS, SAVED), (BOUNDED, SAVED)],
    ids=["from the start", "later", "bounded, later"],
)
def test_any_other_plan_leaves_such_a_topic_to_the_next(options: SourceOptions, logged: OffsetDocument) -> None:
    assert unclear(options, logged).verify(logged) is logged


@pytest.mark.parametrize("named", [True, False])
def test_a_topic_that_is_not_there_rejects_the_metadata_that_name_it_and_no_later_ones(named: bool) -> None:
    topics = {"t": "orders", **({"typo": "orders"} if named else {})}
    subscription = Subscription({"east": SubscribedCluster(topics, {})}, ("orders",))
    # The answer to a question that was asked when it was named.
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk", missing=frozenset({"typo"}))
    observed = Observed(subscription, {"east": answer}, Discovered(subscription, Revision("sha256:x"), 2), {}, True)
    plan = Decisions(OPTIONS, None, PlanStatus(), SAVED, observed, frozenset({"east"}), "q")
    if named:
        with pytest.raises(RevisionRejectedError, match="has no topic 'typo'"):
            plan.verify(SAVED)
    else:
        assert plan.verify(SAVED) is SAVED


class Firsts:
    """A probe that knows where the log begins, and counts who asks."""

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
    """What `accept` makes of a topic that was read up to 5 and is another one now."""
    loss = DataLoss(Split("east", "t", 0), "the topic was re-created", earliest.get(0, 0), "old", recreated=True)
    subscription = Subscription({"east": SubscribedCluster({"t": "orders"}, {})}, ("orders",))
    answer = ClusterObservation({"t": TopicObservation({0: 9}, earliest, topic_id="new")}, "Mk")
    found = Discovered(subscription, Revision("sha256:x"), 1)
    observed = Observed(subscription, {"east": answer}, found, {"east": cast(ClusterProbe, probe)}, False)
    options = parse_options(GIVEN | given, mode="streaming")
    return Decisions(options, None, PlanStatus(), SAVED, observed, frozenset({"east"}), "q").accept(SAVED, [loss])[0]


@pytest.mark.parametrize(("earliest", "asked"), [({}, 1), ({0: 3}, 0)], ids=["asked for now", "known already"])
def test_where_a_topic_that_was_recreated_begins_is_asked_of_its_cluster(earliest: dict[int, int], asked: int) -> None:
    # Offset 0 may have expired by then, in the new topic too
    probe = Firsts(3)
    after = recreated({"failOnDataLoss": "false"}, earliest, probe)
    assert (after.next_of(Split("east", "t", 0)), probe.asked) == (3, asked)


def test_a_topic_that_was_recreated_ends_the_query_by_default() -> None:
    with pytest.raises(DataLossError, match=r"re-created.*accept app\.yaml --data-loss.*read from its first record"):
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


def behind_the_end(given: Mapping[str, str], probe: Ends, *, logged: OffsetDocument = SAVED) -> OffsetDocument:
    """What `accept` makes of a split that was read up to 5, or is to start there, of a log that seems to end at 3."""
    subscription = Subscription({"east": SubscribedCluster({"t": "orders"}, {})}, ("orders",))
    answer = ClusterObservation({"t": TopicObservation({0: 3})}, "Mk")
    found = Discovered(subscription, Revision("sha256:x"), 1)
    observed = Observed(subscription, {"east": answer}, found, {"east": cast(ClusterProbe, probe)}, False)
    options = parse_options(GIVEN | given, mode="streaming")
    plan = Decisions(options, None, PlanStatus(), logged, observed, frozenset({"east"}), "q")
    return plan.accept(SAVED, find_data_loss(SAVED, observed.answers))[0]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_what_lies_behind_the_beginning_of_an_open_transaction_is_not_lost(fail: str) -> None:
    # Read while its cluster was read by all records: it is there, only not to be seen
    assert behind_the_end({"failOnDataLoss": fail}, Ends(5)) == SAVED


@pytest.mark.parametrize("probe", [Ends(4), Ends(5, read_committed=False)], ids=["shorter for everyone", "as it is"])
def test_a_log_that_ends_earlier_for_everyone_was_cut_off(probe: Ends) -> None:
    with pytest.raises(DataLossError, match="the log ends at 3, before the next offset 5"):
        behind_the_end({}, probe)
    after = behind_the_end({"failOnDataLoss": "false"}, probe)
    assert after.next_of(Split("east", "t", 0)) == 3


def test_a_start_that_is_newer_than_the_look_is_no_loss() -> None:
    # A commit, or the first record since a time: its cluster was asked for it after its ends
    found = behind_the_end({}, Ends(5, read_committed=False), logged=OffsetDocument())
    assert found.next_of(Split("east", "t", 0)) == 5


def test_a_start_behind_the_end_is_a_loss() -> None:
    with pytest.raises(DataLossError, match="the log ends at 3, before the next offset 5"):
        behind_the_end({}, Ends(4, read_committed=False), logged=OffsetDocument())


def stopped(status: PlanStatus, rule: OffsetSpec | None, *, bounded: bool = False) -> None:
    """A plan of a query that has read `east` up to its stop at 3, under the stopping rule that metadata has now."""
    topic = TopicProgress("orders", {0: 3}, stops={0: 3})
    document = OffsetDocument("q", 3, "p", bounded=bounded, clusters={"east": ClusterProgress({"t": topic}, "Mk")})
    subscription = Subscription({"east": SubscribedCluster({"t": "orders"}, {}, stopping_offsets=rule)}, ("orders",))
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk")
    observed = Observed(subscription, {"east": answer}, Discovered(subscription, Revision("sha256:x"), 1), {}, False)
    plan = Decisions(OPTIONS, None, status, document, observed, frozenset({"east"}), "q")
    assert plan.resolve(Reconciled(document, frozenset(), {}, ())) == ({}, {})


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (None, "metadata has no stopping offsets any more for topic 't' of cluster 'east'"),
        (OffsetSpec("explicit", offsets={"t": {0: 5}}), "metadata has other stopping offsets for topic 't'"),
    ],
    ids=["taken back", "moved"],
)
def test_a_stop_that_metadata_takes_back_or_moves_stays_and_that_is_said_once(
    rule: OffsetSpec | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    status = PlanStatus()
    for _ in range(3):
        stopped(status, rule)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert said in record.message
    assert "nothing behind them is read. To read on, start a query with a new checkpoint" in record.message

    # Put back and taken out again, it is said again
    stopped(status, OffsetSpec("explicit", offsets={"t": {0: 3}}))
    stopped(status, rule)
    assert len(caplog.records) == 2


def test_of_a_stop_that_is_as_it_was_or_that_nobody_asks_for_again_nothing_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stopped(PlanStatus(), OffsetSpec("explicit", offsets={"t": {0: 3}}))
    stopped(PlanStatus(), OffsetSpec("latest"))
    stopped(PlanStatus(), OffsetSpec("timestamp", timestamp_ms=5))
    stopped(PlanStatus(), None, bounded=True)
    assert not caplog.records


def test_of_other_ends_for_a_bounded_run_that_has_its_own_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    stopped(PlanStatus(), OffsetSpec("explicit", offsets={"t": {0: 5}}), bounded=True)
    assert "metadata has other stopping offsets for topic 't' of cluster 'east'" in caplog.text


@pytest.mark.parametrize("kept", [{1: 9}, {0: 2}], ids=["a partition that was added", "past its retention"])
def test_a_start_that_is_newer_than_the_look_is_no_loss_in_a_topic_that_was_parked(kept: dict[int, int]) -> None:
    parked = {"east": ParkedCluster({"t": ParkedTopic("orders", kept, until_ms=1)}, "Mk")}
    found = behind_the_end({}, Ends(5, read_committed=False), logged=OffsetDocument("q", 2, "p", parked=parked))
    assert found.next_of(Split("east", "t", 0)) == 5


def test_a_split_that_goes_on_where_it_was_parked_is_not_new() -> None:
    parked = {"east": ParkedCluster({"t": ParkedTopic("orders", {0: 5}, until_ms=1)}, "Mk")}
    with pytest.raises(DataLossError, match="the log ends at 3, before the next offset 5"):
        behind_the_end({}, Ends(5, read_committed=False), logged=OffsetDocument("q", 2, "p", parked=parked))
