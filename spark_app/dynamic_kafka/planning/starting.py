"""The rules for where a split starts and stops, and the offsets that a rule needs from Kafka.

Pure; `planning.resolution` applies the rules to the splits of a plan. `startingOffsets` of the source applies to a
query's first plan. Splits that are found later start at earliest, so that no record is lost that producers wrote before
the discovery. The metadata of a cluster wins in both cases (`docs/contributing/decisions/007`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import PerCluster, SourceOptions
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few


@dataclass(frozen=True)
class OffsetQuery:
    """A query for the offset of one partition, by kind.

    Attributes:
        kind: earliest, latest, newest (record), committed or timestamp.
        timestamp_ms: for `timestamp`: the first offset whose record is not older.
        lenient: whether a missing offset is replaced (by earliest for committed, by latest for timestamp) instead of
            being an error.
    """

    kind: str
    timestamp_ms: int | None = None
    lenient: bool = False


Resolution = int | OffsetQuery
"""An offset that is already known, or the query for it."""

_MARKS: Mapping[int, Resolution] = {-2: OffsetQuery("earliest"), -1: OffsetQuery("latest")}
"""The meaning of negative numbers among explicit offsets, as in Spark."""


def starting_spec(
    *, first_plan: bool, new_topic: bool, configured: OffsetSpec | None, own: OffsetSpec | None, recreated: bool = False
) -> OffsetSpec:
    """Return the rule for one new split.

    Args:
        first_plan: whether the query has no progress at all yet.
        new_topic: whether the topic is new to the query; otherwise the split is a partition added to a topic in use.
        configured: the source's `startingOffsets` for this cluster.
        own: the starting offsets that metadata sets for this cluster, if any.
        recreated: whether the topic took the name of one that the query had.
    """
    if first_plan:
        return own or configured or LATEST
    # Explicit offsets apply to the topic that existed when they were written, not to one re-created under its name.
    if own is None or (recreated and own.kind == "explicit"):
        return EARLIEST
    # A partition added to a topic in use holds records that were produced since. "latest" and "committed" apply to a
    # topic as it was found; here they would skip the records that were written before the discovery.
    return EARLIEST if not new_topic and own.kind in ("latest", "committed") else own


def resolve_start(
    spec: OffsetSpec, split: Split, *, lenient: bool, strategy: str = "error", strict: bool = False
) -> Resolution:
    """Turn the starting rule of one split into an offset or a query.

    Args:
        lenient: whether the split starts at earliest without a committed offset, instead of failing the query. This is
            for splits that are found later.
        strategy: `startingOffsetsByTimestampStrategy`; `latest` starts at the end if no record is as new as the
            timestamp.
        strict: whether explicit offsets have to name every partition, as in Spark's own options.

    Raises:
        OptionError: explicit offsets leave out a partition.
    """
    lenient_time = lenient or strategy == "latest"
    return _resolve(spec, split, "starting", lenient=lenient, lenient_time=lenient_time, strict=strict)


def resolve_stop(spec: OffsetSpec, split: Split, *, strict: bool = False) -> Resolution:
    """Turn the stopping rule of one split into an offset or a query; latest if no record is as new as a timestamp.

    Args:
        strict: as for `resolve_start`.

    Raises:
        OptionError: explicit offsets leave out a partition.
    """
    return _resolve(spec, split, "ending", lenient=False, lenient_time=True, strict=strict)


def is_bounded(options: SourceOptions, subscription: Subscription) -> bool:
    """Return whether a query that starts now ends by itself: by its options, or because all its clusters stop."""
    stops = [cluster.stopping_offsets is not None for cluster in subscription.clusters.values()]
    return options.bounded or (bool(stops) and all(stops))


def starts_elsewhere(options: SourceOptions, subscription: Subscription, cluster: str) -> bool:
    """Return whether a query's first plan starts a cluster anywhere but at its first record.

    A later plan starts new splits at their first record. So a split that the first plan misses would start at the wrong
    place in such a cluster.
    """
    return (subscription.clusters[cluster].starting_offsets or options.starting_for(cluster)).kind != "earliest"


def must_find_all(options: SourceOptions, subscription: Subscription) -> bool:
    """Return whether a query's first plan needs an answer of every cluster, whatever `clusterFailurePolicy` says.

    Only the first plan applies `startingOffsets`, and in a bounded run it alone finds topics.
    """
    elsewhere = any(starts_elsewhere(options, subscription, cluster) for cluster in subscription.clusters)
    return elsewhere or is_bounded(options, subscription)


Known = Mapping[str, Mapping[str, Collection[int]] | None]
"""{cluster id: {topic: partitions}} of metadata and brokers; None for a cluster that has not answered yet."""


def check_positions(options: SourceOptions, known: Known) -> None:
    """Refuse options that name unknown clusters, topics or partitions.

    A mistyped name would have no effect, and the intended split would start at the default.

    Raises:
        OptionError: explicit positions or `assign` name an unknown cluster, topic or partition.
    """
    single = options.single
    for name, rule in (("starting offsets", options.starting), ("ending offsets", options.ending)):
        if isinstance(rule, PerCluster):
            _refuse_unknown(name, rule.clusters, known)
        elif rule is not None and single is not None and (rule.offsets or rule.timestamps):
            _refuse_unknown(name, {single.cluster_id: rule}, known)
    if single is not None and single.assign:
        assigned = {topic: dict.fromkeys(partitions, 0) for topic, partitions in single.assign.items()}
        _refuse_unknown("partitions to assign", {single.cluster_id: OffsetSpec("explicit", offsets=assigned)}, known)


def _refuse_unknown(name: str, named: Mapping[str, OffsetSpec], known: Known) -> None:
    unknown: list[str] = []
    for cluster, spec in sorted(named.items()):
        if cluster not in known:
            unknown.append(f"cluster {cluster!r}")
            continue
        topics = known[cluster]
        for topic, positions in {**spec.offsets, **spec.timestamps}.items() if topics is not None else ():
            there = (topics or {}).get(topic, ())
            unknown.extend(str(Split(cluster, topic, partition)) for partition in positions if partition not in there)
    if unknown:
        raise OptionError(
            f"the {name} name what does not exist: {first_few(unknown, 5)}. Correct the names, or remove them"
        )


def _resolve(
    spec: OffsetSpec, split: Split, side: str, *, lenient: bool, lenient_time: bool, strict: bool
) -> Resolution:
    if spec.kind == "timestamp" or spec.timestamps:
        what, number = "timestamp", spec.timestamps.get(split.topic, {}).get(split.partition, spec.timestamp_ms)
    elif spec.kind == "explicit":
        what, number = "offset", spec.offsets.get(split.topic, {}).get(split.partition)
    else:
        return OffsetQuery(spec.kind, lenient=lenient)
    if number is not None:
        return OffsetQuery("timestamp", number, lenient_time) if what == "timestamp" else _MARKS.get(number, number)
    if strict:
        marks = "-1 stands for latest" if side == "ending" else "-2 stands for earliest, -1 for latest"
        raise OptionError(f"{side}Offsets name no {what} for {split}: name every partition of a topic ({marks})")
    return OffsetQuery("latest" if side == "ending" else "earliest")
