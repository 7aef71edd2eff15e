"""The input of one plan. Pure values; the enumerator fills them for the query, and for the tool `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.clock import Memory
from dynamic_kafka.planning.document.progress import Column, OffsetDocument
from dynamic_kafka.planning.observation import Observation


@dataclass(frozen=True)
class PlanInput:
    """Everything that one plan is made from, besides the answers to its questions.

    Attributes:
        logged: the last offset document, exactly as Spark has it.
        progress: `logged` settled, and back at the start of the ranges that an amendment left out (`Amendments.after`).
        observation: the metadata in force, and the clusters that answered.
        now_ms: wall-clock time, milliseconds since the epoch.
        new_query_id: the id for a query that has none yet.
        state: the id of the state folder that the query uses; empty without one.
        read_before: the clusters that an earlier plan of this process used.
        new_revision: whether the metadata differs from the last good metadata (`Observer.adopt`).
        incomplete_metadata: why the newest metadata may name more than those in force: these are older, or lack a
            subscribed stream. Empty if they are complete.
        topic_ends: {cluster id: {topic: ends}} as an earlier plan of this process saw them.
        alignment: what the last plan of this process left for this one (`Aligned.memory`).
        refuse_losses: whether a loss that no user accepted ends the plan. The tool `plan` sets False: it lists such
            losses, and plans as if they were accepted.
    """

    options: SourceOptions
    logged: OffsetDocument
    progress: OffsetDocument
    observation: Observation
    now_ms: int
    limits: Limits
    new_query_id: str
    state: str = ""
    read_before: frozenset[str] = frozenset()
    new_revision: bool = False
    incomplete_metadata: str = ""
    topic_ends: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    alignment: Memory = field(default_factory=Memory)
    refuse_losses: bool = True

    @property
    def query(self) -> str:
        """The id of the query, whose acceptances apply."""
        return self.logged.query or self.new_query_id
