"""Over any sequence of stop records, re-created topics that are checked, acceptances and crashes, all properties hold.

The properties are those of `test_stop_records_simulated`, of a query with `topicIntegrityCheck`. A process may die
before it records the verdict for which it ends, and a user accepts a change at once, later, or only at the end.
"""

from __future__ import annotations

from typing import Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.unit.planning.simulation import SimulatedCluster, SimulatedTopic, Simulation
from tests.unit.planning.test_exactly_once import CLUSTERS, CRASHES, TOPICS, CrashPoint
from tests.unit.planning.test_stop_records_simulated import AQueryWithAnEvaluator


class AQueryThatChecksItsTopics(AQueryWithAnEvaluator):
    """The same world, whose query ends for good when a topic is another one."""

    @initialize(starting=st.sampled_from(["earliest", "latest"]), fail=st.booleans())
    def a_query(self, starting: Literal["earliest", "latest"], fail: bool) -> None:
        self.marked: set[tuple[str, int, int]] = set()
        self.which = "marked"
        self.world = Simulation(starting=starting, fail_on_loss=fail, integrity=True, evaluator=self.is_end)
        for kafka_id in ("a", "b"):
            topics = {name: SimulatedTopic(f"{kafka_id}/{name}/0", {0: 1}) for name in ("t", "u")}
            self.world.clusters[kafka_id] = SimulatedCluster(kafka_id, topics, f"{kafka_id}-0", named={"t"})

    @rule(accepts=st.booleans(), by=st.sampled_from(["pin", "tool"]), lost=st.booleans())
    def changed_topics_are_accepted_or_not(self, accepts: bool, by: Literal["pin", "tool"], lost: bool) -> None:
        self.world.accepts_losses, self.world.accepts_by, self.world.verdicts_are_lost = accepts, by, lost

    @rule(cluster=CLUSTERS, topic=TOPICS, crash=st.none() | CRASHES, end=st.integers(0, 4))
    def a_topic_is_recreated(self, cluster: str, topic: str, crash: CrashPoint | None, end: int) -> None:
        if crash is not None:
            self.world.step(crash=crash)
        self.world.create_anew(self.world.clusters[cluster], topic, {0: end})

    the_evaluator_changes = None  # type: ignore[assignment]  # no rule: `test_stop_records_simulated` has it


TestAQueryThatChecksItsTopics = AQueryThatChecksItsTopics.TestCase
TestAQueryThatChecksItsTopics.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def test_a_query_that_is_over_reads_no_topic_created_since() -> None:
    story = AQueryThatChecksItsTopics()
    story.a_query(starting="earliest", fail=False)
    story.stop_records_arrive_everywhere(crash=None)
    story.plans_without_news_return_the_same_document()
    assert story.world.last_document().over
    story.a_topic_is_recreated(cluster="a", crash=None, end=2, topic="t")
    story.a_run_of_available_now(changes=[], limit=None)
