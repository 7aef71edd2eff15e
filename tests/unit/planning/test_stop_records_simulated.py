"""Over any sequence of stop records, re-created topics, metadata changes and crashes, splits end once and for ever.

The query may check the ids of its topics, fail on data loss, and run as `Trigger.AvailableNow`.
No record at or behind a stop record is delivered, each one before it exactly once, and the query is over only once all
of its splits have ended. The evaluator may change at any time: nothing that was decided changes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.unit.planning.people import People
from tests.unit.planning.simulation import Record, SimulatedCluster, SimulatedTopic, Simulation
from tests.unit.planning.test_exactly_once import CLUSTERS, CRASHES, TOPICS, AQueryAndItsWorld, CrashPoint

Which = Literal["marked", "none", "every fifth"]
WHICH: st.SearchStrategy[Which] = st.sampled_from(["marked", "marked", "none", "every fifth"])


class AQueryWithAnEvaluator(People, AQueryAndItsWorld):
    """The same world, whose query has a record evaluator."""

    @initialize(
        starting=st.sampled_from(["earliest", "latest"]),
        policy=st.sampled_from(["fail", "stall"]),
        refuse=st.booleans(),
        ids=st.sampled_from([True, True, False]),
        fail_on_loss=st.booleans(),
        integrity=st.booleans(),
        values=st.booleans(),
    )
    def a_query(
        self,
        *,
        starting: Literal["earliest", "latest"],
        policy: Literal["fail", "stall"],
        refuse: bool,
        ids: bool,
        fail_on_loss: bool,
        integrity: bool,
        values: bool,
    ) -> None:
        self.marked: set[tuple[str, int, int]] = set()
        self.which: Which = "marked"
        self.world = Simulation(
            starting=starting,
            policy=policy,
            refuse=refuse,
            topic_ids=ids,
            fail_on_loss=fail_on_loss,
            integrity=integrity,
            evaluator=self.is_end,
            values=values,
        )
        for kafka_id in ("a", "b"):
            topics = {name: SimulatedTopic(f"{kafka_id}/{name}/0", {0: 1}) for name in ("t", "u")}
            self.world.clusters[kafka_id] = SimulatedCluster(kafka_id, topics, f"{kafka_id}-0", named={"t"})

    def is_end(self, record: Record) -> bool:
        answers: dict[Which, Callable[[], bool]] = {
            "marked": lambda: (record.topic_id, record.partition, record.offset) in self.marked,
            "none": lambda: False,
            "every fifth": lambda: record.offset % 5 == 4,
        }
        return answers[self.which]()

    @rule(cluster=CLUSTERS, topic=TOPICS, behind=st.integers(0, 3))
    def stop_records_arrive(self, cluster: str, topic: str, behind: int) -> None:
        physical = self.world.clusters[cluster].topics[topic]
        for partition, end in physical.ends.items():
            self.marked.add((physical.topic_id, partition, end))
        physical.ends = {partition: end + 1 + behind for partition, end in physical.ends.items()}

    @rule(crash=st.none() | CRASHES)
    def stop_records_arrive_everywhere(self, crash: CrashPoint | None) -> None:
        for cluster in ("a", "b"):
            for topic in ("t", "u"):
                self.stop_records_arrive(cluster=cluster, topic=topic, behind=1)
        self.world.step(crash=crash)

    @rule(which=WHICH)
    def the_evaluator_changes(self, which: Which) -> None:
        self.which = which


TestAQueryWithAnEvaluator = AQueryWithAnEvaluator.TestCase
TestAQueryWithAnEvaluator.settings = settings(
    max_examples=3 * settings().max_examples,
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
