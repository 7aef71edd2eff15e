"""The properties of `test_exactly_once` under rarer changes: chains of renames, deletions, stops, expired records."""

from __future__ import annotations

from typing import Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dynamic_kafka.planning.advance import Limits
from tests.unit.planning.people import CLUSTERS, NAMED, People
from tests.unit.planning.simulation import (
    CrashPoint,
    Rule,
    SimulatedCluster,
    SimulatedTopic,
    Simulation,
    everything,
)

TOPICS = st.sampled_from(["t", "u"])
TIMES = st.sampled_from([0, 400, 700, 1100])
CRASHES: st.SearchStrategy[CrashPoint] = st.sampled_from(["planned", "logged", "amended", "reading", "delivered"])
STARTS: st.SearchStrategy[Rule] = st.sampled_from([None, "earliest", "latest", 1])
STOPS: st.SearchStrategy[Rule] = st.sampled_from([None, "latest", 3, 6])
LIMITS = st.sampled_from(
    [
        Limits(),
        Limits(),
        Limits(max_offsets=1),
        Limits(max_offsets=3),
        Limits(min_offsets=4, max_delay_ms=100, waited_ms=0),
        Limits(max_offsets=2, min_offsets=4, max_delay_ms=100, waited_ms=100),
    ]
)


class AQueryInAWildWorld(People, RuleBasedStateMachine):
    """Two physical clusters with two topics each; operators do rare things to them."""

    @initialize(
        starting=st.sampled_from(["earliest", "latest"]),
        policy=st.sampled_from(["fail", "stall"]),
        refuse=st.sampled_from([False, False, True]),
        flavour=st.sampled_from(["chains", "chains", "silent ids", "stops"]),
        starts=st.lists(STARTS, min_size=2, max_size=2),
        fail_on_loss=st.booleans(),
        integrity=st.booleans(),
    )
    def a_query(
        self,
        *,
        starting: Literal["earliest", "latest"],
        policy: Literal["fail", "stall"],
        refuse: bool,
        flavour: Literal["chains", "silent ids", "stops"],
        starts: list[Rule],
        fail_on_loss: bool,
        integrity: bool = False,
    ) -> None:
        self.world = Simulation(
            starting=starting,
            policy=policy,
            refuse=refuse,
            first_offsets=True,
            fail_on_loss=fail_on_loss,
            integrity=integrity,
        )
        self.flavour = flavour
        for kafka_id, start in zip("ab", starts, strict=True):
            topics = {name: SimulatedTopic(f"{kafka_id}/{name}/0", {0: 2}) for name in ("t", "u")}
            self.world.clusters[kafka_id] = SimulatedCluster(
                kafka_id,
                topics,
                f"{kafka_id}-0",
                named={"t"},
                start=start,
            )

    def topic(self, cluster: str, name: str) -> SimulatedTopic:
        return self.world.clusters[cluster].topics[name]

    # -- producers and brokers -----------------------------------------------------------------------------------

    @rule(cluster=CLUSTERS, counts=st.lists(st.integers(0, 3), min_size=6, max_size=6))
    def records_arrive(self, cluster: str, counts: list[int]) -> None:
        for name in ("t", "u"):
            topic = self.topic(cluster, name)
            for partition in () if topic.deleted else topic.ends:
                topic.ends[partition] += counts[partition + 3 * (name == "u")]

    @rule(cluster=CLUSTERS, topic=TOPICS)
    def a_partition_is_added(self, cluster: str, topic: str) -> None:
        physical = self.topic(cluster, topic)
        if 0 < len(physical.ends) < 3 and not physical.deleted:
            physical.ends[len(physical.ends)] = 2

    @rule(cluster=CLUSTERS, topic=TOPICS, by=st.integers(1, 3))
    def records_expire(self, cluster: str, topic: str, by: int) -> None:
        physical = self.topic(cluster, topic)
        physical.first = {p: min(end, physical.first.get(p, 0) + by) for p, end in physical.ends.items()}

    @rule(cluster=CLUSTERS, reachable=st.booleans())
    def a_cluster_fails_or_is_back(self, cluster: str, reachable: bool) -> None:
        self.world.clusters[cluster].reachable = reachable

    @precondition(lambda self: self.flavour == "silent ids")
    @rule(cluster=CLUSTERS, reports=st.booleans())
    def a_cluster_reports_its_id_or_not(self, cluster: str, reports: bool) -> None:
        self.world.clusters[cluster].reports_id = reports

    @rule(cluster=CLUSTERS, topic=TOPICS, described=st.booleans())
    def a_topic_is_not_described_for_a_moment(self, cluster: str, topic: str, described: bool) -> None:
        physical = self.topic(cluster, topic)
        physical.described = physical.readable = described

    @rule(cluster=CLUSTERS, topic=TOPICS, brokers=st.sampled_from(["none", "one", "all", "all"]))
    def brokers_do_not_list_a_topic_for_a_while(
        self, cluster: str, topic: str, brokers: Literal["none", "one", "all"]
    ) -> None:
        self.topic(cluster, topic).unlisted_by = brokers

    @precondition(lambda self: self.flavour != "stops")
    @rule(cluster=CLUSTERS, topic=TOPICS, lost=st.integers(0, 4), grown=st.integers(0, 6), crash=st.none() | CRASHES)
    def a_leader_is_elected(self, cluster: str, topic: str, lost: int, grown: int, crash: CrashPoint | None) -> None:
        physical = self.topic(cluster, topic)
        if physical.deleted or not physical.ends:
            return
        if crash is not None:
            physical.ends[0] += 2
            self.world.step(crash=crash)
        cut = max(physical.first.get(0, 0), physical.ends[0] - lost)
        self.world.elect(self.world.clusters[cluster], topic, 0, cut, grown)

    @precondition(lambda self: self.flavour != "stops")
    @rule(cluster=CLUSTERS, topic=TOPICS)
    def a_topic_is_deleted(self, cluster: str, topic: str) -> None:
        self.topic(cluster, topic).deleted = True
        self.world.process = None

    @precondition(lambda self: self.flavour != "stops")
    @rule(
        cluster=CLUSTERS,
        topic=TOPICS,
        crash=st.none() | CRASHES,
        ends=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    )
    def a_topic_is_recreated(self, cluster: str, topic: str, crash: CrashPoint | None, ends: list[int]) -> None:
        if crash is not None:
            self.world.step(crash=crash)
        self.world.create_anew(self.world.clusters[cluster], topic, dict(enumerate(ends)))

    @precondition(lambda self: self.flavour != "stops")
    @rule(
        cluster=CLUSTERS,
        topic=TOPICS,
        after=st.integers(0, 4),
        end=st.integers(0, 6),
        pieces=st.sampled_from([None, 4]),
        crash=st.sampled_from([None, "delivered"]),
    )
    def a_topic_is_recreated_while_its_batch_is_read(
        self, *, cluster: str, topic: str, after: int, end: int, pieces: int | None, crash: CrashPoint | None
    ) -> None:
        physical = self.world.clusters[cluster]
        self.world.step_and_recreate(physical, topic, {0: end}, after, pieces=pieces, crash=crash)

    # -- metadata ------------------------------------------------------------------------------------------------

    @rule(cluster=CLUSTERS, topics=NAMED)
    def metadata_names(self, cluster: str, topics: set[str]) -> None:
        self.world.clusters[cluster].named = set(topics)

    @rule(cluster=CLUSTERS, start=STARTS, stop=STOPS)
    def metadata_sets_starts_and_stops(self, cluster: str, start: Rule, stop: Rule) -> None:
        self.world.clusters[cluster].start = start
        if self.flavour == "stops":
            self.world.clusters[cluster].stop = stop

    @rule(cluster=CLUSTERS, to=st.lists(st.integers(0, 3), min_size=1, max_size=2), marked=st.booleans())
    def metadata_renames(self, cluster: str, to: list[int], marked: bool) -> None:
        physical = self.world.clusters[cluster]
        if self.flavour == "silent ids":
            saved = {split.cluster for split, _ in everything(self.world.last_document())}
            if any(name != physical.name for name in saved if self.world.physical(name) is physical):
                return
            to, marked = to[:1], True
        for number in to:
            name = f"{cluster}-{number}"
            if name != physical.name:
                physical.renamed_from, physical.name = physical.name if marked else None, name

    @rule(ms=TIMES)
    def time_passes(self, ms: int) -> None:
        self.world.now_ms += ms

    # -- Spark and people ----------------------------------------------------------------------------------------

    @rule(limits=LIMITS, pieces=st.sampled_from([None, 4]), skips=st.booleans(), crash=st.none() | CRASHES)
    def spark_takes_a_step(self, limits: Limits, pieces: int | None, skips: bool, crash: CrashPoint | None) -> None:
        self.world.step(crash=crash, limits=limits, pieces=pieces, skips=skips)

    @rule(
        crash=CRASHES,
        more=st.lists(
            st.tuples(
                CLUSTERS, NAMED, st.booleans(), st.none() | st.integers(0, 3), st.none() | CRASHES, st.booleans()
            ),
            min_size=1,
            max_size=5,
        ),
    )
    def a_batch_is_tried_again_and_again(
        self,
        crash: CrashPoint,
        more: list[tuple[str, set[str], bool, int | None, CrashPoint | None, bool]],
    ) -> None:
        self.records_arrive("a", [2] * 6)
        self.records_arrive("b", [2] * 6)
        self.world.step(crash=crash)
        for cluster, named, reachable, to, again, skips in more:
            physical = self.world.clusters[cluster]
            physical.named, physical.reachable = set(named), reachable
            if to is not None:
                self.metadata_renames(cluster, [to], skips)
            self.world.process = None
            self.world.step(crash=again, skips=skips)
            self.world.check_delivered()

    @rule(cluster=CLUSTERS)
    def somebody_abandons_a_cluster(self, cluster: str) -> None:
        self.world.abandon(cluster)

    @rule(what=st.sampled_from(["emptied", "dropped", "another"]))
    def the_state_is_lost_for_a_start(self, what: Literal["emptied", "dropped", "another"]) -> None:
        self.world.start_elsewhere(what)

    @rule()
    def spark_dies(self) -> None:
        self.world.process = None

    @invariant()
    def delivered_exactly_once(self) -> None:
        if hasattr(self, "world"):
            self.world.check_delivered()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain(abandon=True)


TestAQueryInAWildWorld = AQueryInAWildWorld.TestCase
TestAQueryInAWildWorld.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def test_delivered_records_may_lie_behind_a_later_stop() -> None:
    # Given a delivered batch whose ranges a replay leaves out
    state = AQueryInAWildWorld()
    start = {"starting": "earliest", "policy": "stall", "refuse": False, "flavour": "stops", "fail_on_loss": False}
    state.a_query(**start, starts=["latest", None])
    changes = [("b", {"t"}, False, 0), ("b", {"u"}, False, 3), ("a", {"t", "u"}, False, 1), ("b", set(), True, 3)]
    crashes = [None, "amended", "delivered", "reading"]
    more = [(*change, crash, False) for change, crash in zip(changes, crashes, strict=True)]
    state.a_batch_is_tried_again_and_again(crash="delivered", more=[*more, ("a", set(), False, None, None, False)])

    # When metadata sets a stop before their end
    state.metadata_sets_starts_and_stops(cluster="b", start="latest", stop=3)
    state.teardown()


def test_an_unmarked_rename_may_be_answered_after_expiry() -> None:
    state = AQueryInAWildWorld()
    start = {"starting": "latest", "policy": "stall", "refuse": False, "flavour": "chains", "fail_on_loss": True}
    state.a_query(**start, starts=[1, None])
    silent = ("a", {"t", "u"}, False, 3, "logged", False)
    state.a_batch_is_tried_again_and_again(crash="reading", more=[silent, ("b", {"u"}, False, 1, None, False)])
    state.time_passes(ms=1100)
    answer = ("a", {"t"}, True, None, "amended", False)
    state.a_batch_is_tried_again_and_again(crash="reading", more=[answer])
    state.a_topic_is_deleted(cluster="a", topic="t")
    state.teardown()


def test_a_checked_topic_ends_each_start_until_it_is_accepted() -> None:
    for fail_on_loss in (True, False):
        # Given a query with a batch that is planned, and a topic that is another one now
        state = AQueryInAWildWorld()
        start = {"starting": "earliest", "policy": "stall", "refuse": False, "flavour": "chains", "integrity": True}
        state.a_query(**start, starts=[None, None], fail_on_loss=fail_on_loss)
        state.world.step()
        state.records_arrive("a", [2] * 6)
        state.world.step(crash="logged")
        state.a_topic_is_recreated(cluster="a", topic="t", crash=None, ends=[5])

        # Then no start gets further, and none delivers anything
        state.losses_are_accepted_or_not(accepts=False, by="pin")
        delivered = state.world.delivered.total()
        for _ in range(3):
            state.world.step()
            assert state.world.standing()
        assert state.world.delivered.total() == delivered

        # Once the metadata name the new id, all of it comes, without any other acceptance
        state.losses_are_accepted_or_not(accepts=True, by="pin")
        state.teardown()
        assert not state.world.acceptances
