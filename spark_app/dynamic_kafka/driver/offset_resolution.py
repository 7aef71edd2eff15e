"""Answers to the questions of one plan, from the clusters and from the query's state location.

Driver; the enumerator and the tool `plan` call it while `planning.batch` plans. It writes nothing. It
decides only which splits `HighWatermarksQuestion` answers: those of clusters that are read with `read_committed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.offset_queries import answer_queries
from dynamic_kafka.kafka.probe import LATEST, ClusterProbe
from dynamic_kafka.planning.questions import (
    AcceptedIdentitiesQuestion,
    AcceptedLossesQuestion,
    HighWatermarksQuestion,
    OffsetsQuestion,
    Question,
)
from dynamic_kafka.planning.splits import Split


def answer_question(
    question: Question, *, probes: Mapping[str, ClusterProbe], state: StateLocation | None, group: str | None
) -> Any:
    """Return the answer that `question` describes. May wait for clusters, all at once.

    Args:
        probes: the connections, by cluster id.
        state: None without a `stateLocation`: a user cannot have accepted anything.
        group: `kafka.group.id`, whose commits count as `committed` offsets.

    Raises:
        ClusterError: a cluster did not answer.
        OptionError: an offset that the options demand does not exist.
    """
    match question:
        case AcceptedIdentitiesQuestion(query):
            return state.accepted_identities(query) if state is not None else {}
        case AcceptedLossesQuestion(query):
            return state.accepted_losses(query) if state is not None else {}
        case OffsetsQuestion(queries, ends):
            return answer_queries(probes, queries, group, ends)
        case HighWatermarksQuestion(splits, new):
            return _high_watermarks(probes, splits, new)


def _high_watermarks(
    probes: Mapping[str, ClusterProbe], splits: frozenset[Split], new: frozenset[Split]
) -> dict[Split, int]:
    by_cluster: dict[str, list[Split]] = {}
    for split in sorted(splits):
        by_cluster.setdefault(split.cluster, []).append(split)
    futures = [
        probes[cluster].ask(partial(_ends_of_all_records, splits=tuple(own), new=new))
        for cluster, own in by_cluster.items()
    ]
    return {split: end for future in futures for split, end in future.result().items()}


def _ends_of_all_records(admin: ClusterAdmin, splits: tuple[Split, ...], new: frozenset[Split]) -> dict[Split, int]:
    asked = [split for split in splits if admin.read_committed or split in new]
    if not asked:
        return {}
    found = admin.offsets({(split.topic, split.partition): LATEST for split in asked}, uncommitted=True)
    return {split: found[split.topic, split.partition][0] for split in asked}
