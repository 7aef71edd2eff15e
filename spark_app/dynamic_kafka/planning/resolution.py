"""The offsets where new splits start, and where splits stop.

Pure; `planning.plan` calls it once a plan, and a second time if topics were re-created. `planning.starting` has the
rules. The offsets found here are kept in the offset document: nothing resolves them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import observed_topic
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import OffsetsQuestion, Steps
from dynamic_kafka.planning.reconcile import Reconciled
from dynamic_kafka.planning.sameness.identity import is_another
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import (
    OffsetQuery,
    Resolution,
    check_positions,
    resolve_start,
    resolve_stop,
    starting_spec,
)


class Positions(NamedTuple):
    """The starts of new splits, and the stops of splits that should have one and have none yet."""

    starts: Mapping[Split, int]
    stops: Mapping[Split, int]


def resolve_positions(given: PlanInput, reconciled: Reconciled) -> Steps[Positions]:
    """Return the starts of the new splits, and the stops of those that lack theirs.

    Raises:
        OptionError: the options name positions that do not exist, or leave out a partition.
    """
    observation = given.observation
    if given.logged.is_initial:
        described = {c: {name: t.latest for name, t in a.topics.items()} for c, a in observation.answers.items()}
        check_positions(given.options, {**dict.fromkeys(observation.subscription.clusters), **described})
    starts, stops = _starts(given, reconciled), _stops(given, reconciled)
    return Positions((yield from look_up(given, starts)), (yield from look_up(given, stops)))


def look_up(given: PlanInput, wanted: Mapping[Split, Resolution]) -> Steps[dict[Split, int]]:
    """Return an offset for each split, from the observation as far as it has them."""
    numbers: dict[Split, int] = {}
    queries: dict[Split, OffsetQuery] = {}
    ends: dict[Split, int] = {}
    for split, query in wanted.items():
        if isinstance(query, int):
            numbers[split] = query
            continue
        seen = given.observation.answers[split.cluster].topics[split.topic]
        if query.kind == "latest":
            numbers[split] = seen.latest[split.partition]
        elif query.kind == "earliest" and split.partition in seen.earliest:
            numbers[split] = seen.earliest[split.partition]
        else:
            queries[split] = query
            ends[split] = seen.latest[split.partition]
    if queries:
        numbers |= yield OffsetsQuestion(queries, ends)
    return numbers


def kept_stop_warnings(given: PlanInput, document: OffsetDocument) -> dict[tuple[str, ...], str | None]:
    """Return a warning for each topic whose stopping rule changed after its stops were resolved, None for the others.

    A stop is resolved once. A user who moves it in a query that goes on would wait in vain for more records.
    """
    clusters = given.observation.subscription.clusters
    warnings: dict[tuple[str, ...], str | None] = {}
    for cluster in sorted(clusters.keys() & document.clusters.keys()):
        rule = clusters[cluster].stopping_offsets
        ending = rule or given.options.ending_for(cluster)
        for name, topic in sorted(document.clusters[cluster].topics.items()):
            if not topic.stops:
                continue
            # A bounded run whose rule is gone ends where it would have ended.
            changed = (ending is not None or not document.bounded) and any(
                _differs(ending, Split(cluster, name, partition), stop) for partition, stop in topic.stops.items()
            )
            has = "other stopping offsets" if ending else "no stopping offsets any more"
            source = "metadata has" if rule or not ending else "the options have"
            warnings["kept-stop", cluster, name] = (
                f"{source} {has} for {cluster}/{name}, but the first ones stay; to read on, use a new checkpoint"
                if changed
                else None
            )
    return warnings


def with_explicit_ids(given: PlanInput, before: OffsetDocument, opened: OffsetDocument) -> OffsetDocument:
    """Record the topic ids that metadata's explicit starting offsets hold for, once they are first used.

    An id outlasts the topic and its parked offsets. It is dropped when metadata no longer has explicit offsets.

    Args:
        before: progress before it took over the observed topic ids.
        opened: progress with new splits opened.
    """
    clusters = given.observation.subscription.clusters
    ids = {cluster: dict(kept) for cluster, kept in opened.explicit_ids.items()}
    for cluster, want in clusters.items():
        own = want.starting_offsets
        named = own.offsets if own is not None and own.kind == "explicit" else {}
        ids[cluster] = {topic: kept for topic, kept in ids.get(cluster, {}).items() if topic in named}
        for name in named:
            topic, was = opened.topic(cluster, name), before.any_topic(cluster, name)
            if (
                topic is not None
                and topic.topic_id is not None
                and topic.next.keys() - (was.next.keys() if was else ())
            ):
                ids[cluster].setdefault(name, (was.topic_id if was else None) or topic.topic_id)
    return replace(opened, explicit_ids={cluster: kept for cluster, kept in ids.items() if kept})


def _starts(given: PlanInput, reconciled: Reconciled) -> dict[Split, Resolution]:
    options, initial = given.options, given.logged.is_initial
    starts: dict[Split, Resolution] = {}
    for split, new_topic in reconciled.new.items():
        own = given.observation.subscription.clusters[split.cluster].starting_offsets
        topic = reconciled.document.topic(split.cluster, split.topic)
        first_id = reconciled.document.explicit_ids.get(split.cluster, {}).get(split.topic)
        spec = starting_spec(
            first_plan=initial,
            new_topic=new_topic,
            configured=options.starting_for(split.cluster),
            own=own,
            recreated=split in reconciled.recreated or is_another(first_id, topic.topic_id if topic else None),
        )
        starts[split] = resolve_start(
            spec,
            split,
            lenient=not initial or (own is not None and spec.kind == "timestamp"),
            strategy=options.starting_strategy,
            strict=initial and own is None,
        )
    return starts


def _stops(given: PlanInput, reconciled: Reconciled) -> dict[Split, Resolution]:
    clusters, document = given.observation.subscription.clusters, reconciled.document
    if given.options.ending is None and not any(cluster.stopping_offsets for cluster in clusters.values()):
        return {}
    stops: dict[Split, Resolution] = {}
    for split in dict.fromkeys([*document.splits(), *reconciled.new]):
        own = clusters[split.cluster].stopping_offsets if split.cluster in clusters else None
        ending = own or given.options.ending_for(split.cluster)
        topic = document.topic(split.cluster, split.topic)
        has_stop = topic is not None and split.partition in topic.stops
        if ending is not None and not has_stop and _is_observed(given, split):
            stops[split] = resolve_stop(ending, split, strict=given.logged.is_initial and own is None)
    return stops


def _differs(ending: OffsetSpec | None, split: Split, stop: int) -> bool:
    """Return whether a kept stop certainly differs from its present rule; `latest` and times are not looked up."""
    now = resolve_stop(ending, split) if ending is not None else None
    return now is None or (isinstance(now, int) and now != stop)


def _is_observed(given: PlanInput, split: Split) -> bool:
    topic = observed_topic(given.observation.answers, split.cluster, split.topic)
    return topic is not None and split.partition in topic.latest
