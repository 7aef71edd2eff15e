"""Answers to the offset queries of new splits: commits, timestamps, earliest and latest offsets.

Runs on the driver; `driver.offset_resolution` calls it. Each cluster answers in the thread of its probe.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynamic_kafka.errors import OptionError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.probe import EARLIEST, ClusterProbe
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery
from dynamic_kafka.wording import first_few


def answer_queries(
    probes: Mapping[str, ClusterProbe],
    queries: Mapping[Split, OffsetQuery],
    group: str | None,
    ends: Mapping[Split, int],
) -> dict[Split, int]:
    """Return the offset of each split, with one bulk call per kind and cluster, for all clusters at once.

    Args:
        group: the consumer group whose commits count.
        ends: the end of each queried split, listed before this call. A split without a record as new as its
            timestamp starts there. A later end would skip records that were produced in between.

    Raises:
        OptionError: a strict query has no answer: no commit, or no record as new as the timestamp.
        ClusterError: a cluster did not answer.
    """
    by_cluster: dict[str, dict[Split, OffsetQuery]] = {}
    for split, query in queries.items():
        by_cluster.setdefault(split.cluster, {})[split] = query
    futures = [
        probes[cluster].ask(lambda admin, own=own: _answer(admin, own, group, ends))  # type: ignore[misc]
        for cluster, own in by_cluster.items()
    ]
    answers: dict[Split, int] = {}
    for future in futures:
        answers.update(future.result())
    return answers


def _answer(
    admin: ClusterAdmin, queries: Mapping[Split, OffsetQuery], group: str | None, ends: Mapping[Split, int]
) -> dict[Split, int]:
    committed = {split: query for split, query in queries.items() if query.kind == "committed"}
    answers = _commits(admin, committed, group) if committed else {}
    # A lenient query without a commit starts at the earliest offset.
    listed = {
        split: query if split not in committed else EARLIEST for split, query in queries.items() if split not in answers
    }
    return answers | _listed(admin, listed, ends) if listed else answers


def _commits(admin: ClusterAdmin, queries: Mapping[Split, OffsetQuery], group: str | None) -> dict[Split, int]:
    if group is None:
        raise OptionError("startingOffsets or stoppingOffsets `committed` needs `kafka.group.id`, whose commits count")
    commits = admin.committed(group, [(split.topic, split.partition) for split in queries])
    committed = {s: commits[s.topic, s.partition][0] for s in queries if (s.topic, s.partition) in commits}
    missing = [split for split, query in queries.items() if split not in committed and not query.lenient]
    if missing:
        raise OptionError(
            f"group {group!r} has no committed offset for {first_few(missing, 5)}: commit there first, or choose"
            " earliest, latest, a timestamp or offsets"
        )
    return committed


def _listed(admin: ClusterAdmin, queries: Mapping[Split, OffsetQuery], ends: Mapping[Split, int]) -> dict[Split, int]:
    offsets = admin.offsets({(split.topic, split.partition): query for split, query in queries.items()})
    listed = {split: offsets[split.topic, split.partition][0] for split in queries}
    without_record = [split for split, offset in listed.items() if offset < 0]
    missing = [split for split in without_record if not queries[split].lenient]
    if missing:
        splits = first_few(missing, 5)
        raise OptionError(
            f"no record of {splits} reaches the starting timestamp: set startingOffsetsByTimestampStrategy=latest"
        )
    return listed | {split: ends[split] for split in without_record}
