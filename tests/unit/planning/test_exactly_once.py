"""Over any sequence of metadata changes, crashes and restarts, no record is skipped and none delivered twice."""

from __future__ import annotations

from typing import Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dynamic_kafka.planning.advance import Limits
from tests.unit.planning.simulation import CrashPoint, SimulatedCluster, SimulatedTopic, Simulation, everything

CLUSTERS = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(["t", "u"])
TIMES = st.sampled_from([0, 400, 700, 1100])
LIMITS = st.sampled_from([None, None, 1, 3])
CRASHES: st.SearchStrategy[CrashPoint] = st.sampled_from(
    ["planned", "logged", "amended", "reading", "read", "delivered"]
)

Change = tuple[set[str], bool]
"""The topics that metadata names of a cluster, and whether it answers."""
CHANGES: st.SearchStrategy[Change] = st.tuples(st.sets(TOPICS), st.sampled_from([True, True, False]))


class AQueryAndItsWorld(RuleBasedStateMachine):
    """Two physical clusters with two topics each; metadata, brokers and Spark change in any order."""

    @initialize(
        starting=st.sampled_from(["earliest", "latest"]),
        policy=st.sampled_from(["fail", "stall"]),
        refuse=st.booleans(),
        ids=st.booleans(),
        clock=st.sampled_from(["none", "kafka", "values"]),
    )
    def a_query(
        self,
        *,
        starting: Literal["earliest", "latest"],
        policy: Literal["fail", "stall"],
        refuse: bool,
        ids: bool,
        clock: Literal["none", "kafka", "values"],
    ) -> None:
        aligned, values = clock == "kafka", clock == "values"
        self.world = Simulation(
            starting=starting, policy=policy, refuse=refuse, topic_ids=ids, aligned=aligned, values=values
        )
        for kafka_id in ("a", "b"):
            topics = {name: SimulatedTopic(f"{kafka_id}/{name}/0", {0: 1}) for name in ("t", "u")}
            self.world.clusters[kafka_id] = SimulatedCluster(kafka_id, topics, f"{kafka_id}-0", named={"t"})

    # -- producers and brokers -----------------------------------------------------------------------------------

    @rule(cluster=CLUSTERS, topic=TOPICS, count=st.integers(1, 4), data=st.data())
    def records_arrive(self, cluster: str, topic: str, count: int, data: st.DataObject) -> None:
        ends = self.world.clusters[cluster].topics[topic].ends
        ends[data.draw(st.sampled_from(sorted(ends)))] += count

    @rule(cluster=CLUSTERS, topic=TOPICS)
    def a_partition_is_added(self, cluster: str, topic: str) -> None:
        ends = self.world.clusters[cluster].topics[topic].ends
        if len(ends) < 3:
            ends[len(ends)] = 1

    @rule(cluster=CLUSTERS, reachable=st.booleans())
    def a_cluster_fails_or_is_back(self, cluster: str, reachable: bool) -> None:
        self.world.clusters[cluster].reachable = reachable

    @rule(cluster=CLUSTERS, announced=st.booleans())
    def a_cluster_is_announced(self, cluster: str, announced: bool) -> None:
        self.world.clusters[cluster].announced = announced

    @rule(cluster=CLUSTERS, topic=TOPICS, described=st.booleans())
    def a_topic_is_not_described_for_a_moment(self, cluster: str, topic: str, described: bool) -> None:
        self.world.clusters[cluster].topics[topic].described = described

    @rule(cluster=CLUSTERS, topic=TOPICS)
    def a_topic_is_recreated_while_it_is_not_read(self, cluster: str, topic: str) -> None:
        physical = self.world.clusters[cluster]
        active = {split.topic for split in self.world.last_document().splits() if self.is_of(split.cluster, physical)}
        if self.world.reports_topic_ids and topic not in physical.named and topic not in active:
            self.world.create_anew(physical, topic, {0: 1})

    @rule(cluster=CLUSTERS, topic=TOPICS, crash=CRASHES, end=st.integers(0, 6))
    def a_topic_is_recreated_while_it_is_read(self, cluster: str, topic: str, crash: CrashPoint, end: int) -> None:
        if self.world.reports_topic_ids:
            self.world.step(crash=crash)
            self.world.create_anew(self.world.clusters[cluster], topic, {0: end})

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
        if self.world.reports_topic_ids:
            physical = self.world.clusters[cluster]
            self.world.step_and_recreate(physical, topic, {0: end}, after, pieces=pieces, crash=crash)

    def is_of(self, name: str, physical: SimulatedCluster) -> bool:
        return self.world.physical(name) is physical

    # -- metadata ------------------------------------------------------------------------------------------------

    @rule(cluster=CLUSTERS, topics=st.sets(TOPICS))
    def metadata_names(self, cluster: str, topics: set[str]) -> None:
        self.world.clusters[cluster].named = topics

    @rule(cluster=CLUSTERS)
    def metadata_renames(self, cluster: str) -> None:
        physical = self.world.clusters[cluster]
        saved = {split.cluster for split, _ in everything(self.world.last_document())}
        # `renamedFrom` says one step: the next rename comes after the first was seen.
        if all(name == physical.name for name in saved if self.is_of(name, physical)):
            prefix, _, number = physical.name.partition("-")
            physical.renamed_from, physical.name = physical.name, f"{prefix}-{(int(number) + 1) % 3}"

    @rule(ms=TIMES)
    def time_passes(self, ms: int) -> None:
        self.world.now_ms += ms

    # -- Spark ---------------------------------------------------------------------------------------------------

    @rule(limit=LIMITS, pieces=st.sampled_from([None, 4]), skips=st.booleans(), crash=st.none() | CRASHES)
    def spark_takes_a_step(self, limit: int | None, pieces: int | None, skips: bool, crash: CrashPoint | None) -> None:
        self.world.step(crash=crash, limits=Limits(max_offsets=limit), pieces=pieces, skips=skips)

    @rule(
        cluster=CLUSTERS,
        limit=LIMITS,
        crash=CRASHES,
        more=st.lists(st.tuples(CHANGES, st.none() | CRASHES, st.booleans()), min_size=1, max_size=4),
    )
    def spark_dies_and_a_cluster_changes_meanwhile(
        self,
        cluster: str,
        limit: int | None,
        crash: CrashPoint,
        more: list[tuple[Change, CrashPoint | None, bool]],
    ) -> None:
        for physical in self.world.clusters.values():
            for topic in physical.topics.values():
                topic.ends = {partition: end + 1 for partition, end in topic.ends.items()}
        self.world.step(crash=crash, limits=Limits(max_offsets=limit))
        for change, again, skips in more:
            self.world.clusters[cluster].named, self.world.clusters[cluster].reachable = change
            self.world.step(crash=again, skips=skips)
            self.world.check_delivered()

    @rule(cluster=CLUSTERS, removed=st.booleans(), first=CRASHES, second=st.none() | CRASHES, skips=st.booleans())
    def a_cluster_is_away_for_one_attempt(
        self, cluster: str, removed: bool, first: CrashPoint, second: CrashPoint | None, skips: bool
    ) -> None:
        physical = self.world.clusters[cluster]
        named = physical.named
        self.world.step()
        for topic in physical.topics.values():
            topic.ends[0] += 2
        self.world.step(crash=first)
        physical.named, physical.reachable = (set(), True) if removed else (named, False)
        self.world.step(crash=second, skips=skips)
        physical.named, physical.reachable = named, True
        self.world.step()
        self.world.step()

    @rule(cluster=CLUSTERS, first=CRASHES, second=CRASHES, skips=st.booleans())
    def topics_go_one_after_the_other_while_a_batch_is_pending(
        self, cluster: str, first: CrashPoint, second: CrashPoint, skips: bool
    ) -> None:
        physical = self.world.clusters[cluster]
        physical.named, physical.reachable = {"t", "u"}, True
        self.world.step()
        for topic in physical.topics.values():
            topic.ends[0] += 2
        self.world.step(crash=first)
        physical.named = {"u"}
        self.world.step(crash=second, skips=skips)
        physical.named = set()
        self.world.step(crash="amended", skips=skips)

    @rule(cluster=CLUSTERS, first=TIMES, second=TIMES, third=TIMES, crash=st.none() | CRASHES)
    def a_cluster_goes_and_comes_back_but_answers_later(
        self, cluster: str, first: int, second: int, third: int, crash: CrashPoint | None
    ) -> None:
        physical = self.world.clusters[cluster]
        physical.named = set()
        self.world.step()
        self.world.now_ms += first
        physical.named, physical.reachable = {"t"}, False
        self.world.step(crash=crash)
        self.world.now_ms += second
        self.world.step()
        self.world.now_ms += third
        physical.reachable = True
        self.world.step()

    @rule()
    def spark_dies(self) -> None:
        self.world.process = None

    @precondition(lambda self: not self.world.pending)
    @rule()
    def plans_without_news_return_the_same_document(self) -> None:
        # Two batches at most settle everything: one rewinds, the next reads what there is. By values, each one reads
        # up to the clock and the drift.
        for _ in range(100 if self.world.values else 3):
            if not self.world.step():
                return
            if self.world.process is None:  # refused
                return
        raise AssertionError("the world stands still, and plans go on")

    @invariant()
    def delivered_exactly_once(self) -> None:
        if hasattr(self, "world"):
            self.world.check_delivered()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


TestAQueryAndItsWorld = AQueryAndItsWorld.TestCase
TestAQueryAndItsWorld.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
