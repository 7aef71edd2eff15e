"""The result of one observation of the metadata and its clusters. Driver; the observer makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynamic_kafka.kafka.probe import ClusterProbe
from dynamic_kafka.metadata.discovery_state import Discovered
from dynamic_kafka.planning.observation import Observation


@dataclass(frozen=True)
class LiveObservation(Observation):
    """An observation with the connections that it was made over.

    Attributes:
        discovered: the metadata, with their revision.
        probes: the connection of each cluster that has one, by cluster id.
        new_revision: whether the metadata differs from the last good metadata (`Observer.adopt`).
        required: the clusters whose failure ends the query.
        never_read: the clusters that the query has never read.
    """

    discovered: Discovered
    probes: Mapping[str, ClusterProbe]
    new_revision: bool
    required: frozenset[str] = frozenset()
    never_read: frozenset[str] = frozenset()

    def without(self, cluster: str) -> LiveObservation:
        """Return the same observation, as if `cluster` had not answered."""
        return replace(self, answers={name: answer for name, answer in self.answers.items() if name != cluster})
