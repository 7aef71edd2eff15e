"""What the next document says: what is desired, and what still drains. Pure.

What was rendered and is no longer desired, for whatever reason, stays as draining until there is evidence, or a person
releases it. It is kept in the document and in the subscription's status; either can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.document import Document, Key, Streams, draining_in, entries
from kafkastream_operator.core.resolve import Resolved
from kafkastream_operator.models.stream import Drain
from kafkastream_operator.models.subscription import DrainingTopic

WITHHELD = "withheldSecret"
"""In a cluster that drains: the Secret that it was rendered with, and that is no longer bound to it."""


@dataclass(frozen=True)
class Rendering:
    """The streams of the next document.

    Attributes:
        streams, drain: as `Document` has them.
        draining: what drains, with what it waits for.
        released: what is let go now, with the reason.
    """

    streams: Streams
    drain: Mapping[str, Mapping[str, str]]
    draining: tuple[DrainingTopic, ...]
    released: Mapping[Key, str]


@dataclass(frozen=True)
class Known:
    """What is known to have been rendered: from the document, from the status, or from a driver's report.

    Attributes:
        entries: {topic: {each stream that had it: the cluster as it was rendered there}}.
        draining: what drained already, by the status, and does so still.
        drains: all that drained already, by whatever knows it.
        drain: how the streams drain that are gone.
    """

    entries: Mapping[Key, Mapping[str, Mapping[str, Any]]]
    draining: Mapping[Key, DrainingTopic]
    drains: frozenset[Key]
    drain: Mapping[str, Mapping[str, str]]


def known(document: Document | None, draining: tuple[DrainingTopic, ...], *copies: Streams | None) -> Known:
    """Everything that may still be read somewhere.

    Args:
        document: the document as it is; None if it is lost, or somebody has edited it.
        draining: by the subscription's status. Beside a document it only counts for what drains there, too: an operator
            may have died between the two.
        copies: what else remembers the streams as rendered: the status, the driver. Asked only without a document.
    """
    found: dict[Key, dict[str, Mapping[str, Any]]] = {}
    marked = {Key(each.cluster, each.topic): each for each in draining}
    if document is not None:
        still = set(draining_in(document.streams))
        marked = {key: mark for key, mark in marked.items() if key in still}
    drains = set(marked)
    for streams in [document.streams] if document is not None else copies:
        here: dict[Key, dict[str, Mapping[str, Any]]] = {}
        for stream, key, content in entries(streams or {}):
            here.setdefault(key, {})[stream] = content
        found = {**here, **found}
        drains.update(draining_in(streams or {}))
    drain = {each.stream: {"quietPeriod": each.quiet_period, "timeout": each.timeout} for each in draining}
    return Known(found, marked, frozenset(drains), document.drain if document is not None else drain)


def render(
    resolved: Resolved,
    before: Known,
    *,
    next_counter: int,
    now: str,
    waits_for: Callable[[Key, int, float], str],
    released: Mapping[Key, str],
    may_have: Callable[[str, Mapping[str, Any]], str],
) -> Rendering:
    """The next document.

    Args:
        next_counter: the revision that a change would get.
        waits_for: why a topic is not drained, asked with the revision since when it drains and the quiet period
            in seconds; "" if it is drained.
        released: what a person lets go, with the reason.
        may_have: why a cluster must not have the Secret that it is rendered with; "" if it may. What drains is bound
            by that as well: whoever can write ConfigMaps could else have a Secret sent anywhere.
    """
    desired = {key for _, key, _ in entries(resolved.streams)}
    renamed = renames(resolved.streams)
    carried = {renamed_to(key, renamed): key for key in before.entries}
    carried |= {key: key for key in before.entries if key in carried}
    draining: list[DrainingTopic] = []
    owners: dict[Key, Mapping[str, Mapping[str, Any]]] = {}
    let_go: dict[Key, str] = {}
    for key, was in sorted(carried.items()):
        if key in desired:
            continue
        owners[key] = dict(sorted(before.entries[was].items()))
        stream, content = next(iter(owners[key].items()))
        how = _most_careful([_drain_of(each, resolved, before) for each in owners[key]])
        mark = before.draining.get(key) or before.draining.get(was)
        # Where only the document tells that it drains, it does so since that was written, at the latest.
        revision = mark.revision if mark is not None else next_counter - (key in before.drains)
        if key in released:
            let_go[key] = released[key]
            continue
        if how.policy == "Immediate":
            let_go[key] = "its stream says drain.policy: Immediate"
            continue
        why = waits_for(key, revision, _seconds(how.quiet_period))
        if not why:
            let_go[key] = "drained"
            continue
        draining.append(
            DrainingTopic(
                cluster=key.cluster,
                topic=key.topic,
                stream=stream,
                since=mark.since if mark is not None else now,
                revision=revision,
                quiet_period=how.quiet_period,
                timeout=how.timeout,
                message=(may_have(key.cluster, _asking(content)) or why)[:1024],
            )
        )
    streams = _merged(resolved.streams, draining, owners, may_have)
    return Rendering(streams, _drains(streams, resolved, before), tuple(draining), let_go)


def renames(streams: Streams) -> Mapping[str, str]:
    """{the id that a cluster had: the one that it has now}."""
    return {
        content["renamedFrom"]: name
        for found in streams.values()
        for name, content in found["clusters"].items()
        if "renamedFrom" in content
    }


def renamed_to(key: Key, renamed: Mapping[str, str]) -> Key:
    """The topic under the id that its cluster has now: its offsets go on there, and so does its drain."""
    return key._replace(cluster=renamed.get(key.cluster, key.cluster))


def _seconds(duration: str) -> float:
    return parse_duration_ms(duration, where="drain") / 1000


def _drain_of(stream: str, resolved: Resolved, before: Known) -> Drain:
    if stream in resolved.drain:
        return resolved.drain[stream]
    return Drain.model_validate(before.drain.get(stream, {}))


def _most_careful(wishes: Sequence[Drain]) -> Drain:
    """How a topic drains that several streams had: as all of them may rely on."""
    waiting = [each for each in wishes if each.policy == "WhenDrained"] or wishes
    return Drain(
        policy=waiting[0].policy,
        quiet_period=max((each.quiet_period for each in waiting), key=_seconds),
        timeout=max((each.timeout for each in waiting), key=_seconds),
    )


def _drains(streams: Streams, resolved: Resolved, before: Known) -> dict[str, Mapping[str, str]]:
    return {
        stream: _drain_of(stream, resolved, before).model_dump(by_alias=True, exclude_defaults=True)
        for stream in streams
        if _drain_of(stream, resolved, before) != Drain()
    }


def _merged(
    desired: Streams,
    draining: list[DrainingTopic],
    owners: Mapping[Key, Mapping[str, Mapping[str, Any]]],
    may_have: Callable[[str, Mapping[str, Any]], str],
) -> dict[str, Any]:
    """The desired streams with what drains added to all the streams that it came from."""
    current = {name: content for found in desired.values() for name, content in found["clusters"].items()}
    streams: dict[str, Any] = {name: {"clusters": dict(found["clusters"])} for name, found in desired.items()}
    for each in draining:
        came_from = owners[Key(each.cluster, each.topic)]
        first = next(iter(came_from.values()))
        for stream in came_from:
            clusters = streams.setdefault(stream, {"clusters": {}})["clusters"]
            content = clusters.get(each.cluster)
            if content is None:
                # Another stream may still have the cluster, perhaps on other servers by now: one cluster is one client.
                base = current.get(each.cluster) or first
                content = {key: base[key] for key in base if key not in ("topics", "drainingTopics", "state")}
                content |= {"topics": [], "state": "Draining"}
                content = _bound(each.cluster, content, may_have)
            content = {**content, "topics": [*content["topics"], each.topic]}
            if content.get("state") != "Draining":
                content["drainingTopics"] = [*content.get("drainingTopics", []), each.topic]
            clusters[each.cluster] = _without_foreign_offsets(content)
    return streams


def _asking(content: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster with the Secret that it had, withheld or not."""
    asked = content.get("secretFolder", content.get(WITHHELD))
    found = {key: value for key, value in content.items() if key not in ("secretFolder", WITHHELD)}
    return found if asked is None else {**found, "secretFolder": asked}


def _bound(
    cluster: str, content: Mapping[str, Any], may_have: Callable[[str, Mapping[str, Any]], str]
) -> dict[str, Any]:
    """The cluster with its Secret, if that is bound; else with a note of which one it lacks."""
    asking = _asking(content)
    if may_have(cluster, asking):
        asking[WITHHELD] = asking.pop("secretFolder")
    return asking


def _without_foreign_offsets(content: dict[str, Any]) -> dict[str, Any]:
    """Explicit offsets may only name topics that are there."""
    for name in ("startingOffsets", "stoppingOffsets"):
        value = content.get(name)
        if isinstance(value, Mapping) and "timestamp" not in value:
            kept = {topic: offsets for topic, offsets in value.items() if topic in content["topics"]}
            content = {key: each for key, each in content.items() if key != name} | ({name: kept} if kept else {})
    return content
