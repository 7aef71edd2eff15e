"""The streams of the next document: desired ones, and topics that still drain. Pure; `core.next_document` calls it.

A topic that was rendered and is no longer desired drains: it stays in the document until a driver report has evidence,
or a user releases it. Both the document and the subscription's status remember it, because either can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.document import (
    Document,
    Key,
    Streams,
    draining_in,
    entries,
    with_pins,
    without_foreign_topics,
)
from kafkastream_operator.core.resolve import Resolved
from kafkastream_operator.models.stream import Drain
from kafkastream_operator.models.subscription import DrainingTopic

WITHHELD = "withheldSecret"
"""The key, in a cluster that drains, of the Secret that it was rendered with and that is no longer bound to it."""

_TOGETHER = "it is drained, and leaves with the other topics of its cluster: one restart is enough for all"
_HOME = "it holds internal topics of the application: move them (docs/how-to/internal-topics.md#move-the-home)"


@dataclass(frozen=True)
class Rendering:
    """The streams of the next document.

    Attributes:
        streams, drain: as `Document` has them.
        draining: the topics that drain, each with what it waits for.
        released: {topic that leaves the document now: why}.
    """

    streams: Streams
    drain: Mapping[str, Mapping[str, str]]
    draining: tuple[DrainingTopic, ...]
    released: Mapping[Key, str]


@dataclass(frozen=True)
class PreviousStreams:
    """The streams as they were rendered before, according to the document, the status or a driver's report.

    Attributes:
        entries: {topic: {stream that had it: the cluster's entry in that stream}}.
        status_entries: {topic: its entry in the status}, for topics that still drain.
        draining: all topics that drained already, according to any of the sources.
        drain_rules: {stream: its `drain` settings}, for streams that are gone.
    """

    entries: Mapping[Key, Mapping[str, Mapping[str, Any]]]
    status_entries: Mapping[Key, DrainingTopic]
    draining: frozenset[Key]
    drain_rules: Mapping[str, Mapping[str, str]]


def previous_streams(
    document: Document | None, draining: tuple[DrainingTopic, ...], *copies: Streams | None
) -> PreviousStreams:
    """Return everything that a driver may still read.

    Args:
        document: the document as it is; None if it is lost, or somebody has edited it.
        draining: from the subscription's status. If there is a document, only the topics count that drain there as
            well, because an operator may have died after it wrote the document and before the status.
        copies: copies of the rendered streams, from the status and the driver. They count only without a document.
    """
    owners: dict[Key, dict[str, Mapping[str, Any]]] = {}
    marked = {Key(topic.cluster, topic.topic): topic for topic in draining}
    if document is not None:
        still = set(draining_in(document.streams))
        marked = {key: mark for key, mark in marked.items() if key in still}
    drains = set(marked)
    for streams in [document.streams] if document is not None else copies:
        here: dict[Key, dict[str, Mapping[str, Any]]] = {}
        for stream, key, content in entries(streams or {}):
            here.setdefault(key, {})[stream] = content
        owners = {**here, **owners}
        drains.update(draining_in(streams or {}))
    rules = document.drain if document is not None else _rules_in_status(draining)
    return PreviousStreams(owners, marked, frozenset(drains), rules)


def render(
    resolved: Resolved,
    before: PreviousStreams,
    *,
    next_counter: int,
    now: str,
    waits_for: Callable[[Key, int, float], str],
    homes: Collection[str],
    together: bool,
    released: Mapping[Key, str],
    secret_problem: Callable[[str, Mapping[str, Any]], str],
) -> Rendering:
    """Return the streams of the next document.

    Args:
        next_counter: the counter of the revision that a change would get.
        waits_for: (topic, counter of the first revision in which it drains, quiet period in seconds) to the reason why
            it is not drained; "" if it is drained.
        homes: the clusters that hold internal topics of the application. They stay, since it cannot go on without them.
        together: whether a drained topic stays while others of its cluster drain, since each change costs a restart.
        released: {topic that a user lets go of: the reason for the Event}.
        secret_problem: (cluster id, cluster) to the reason why the cluster must not have its Secret; "" if it may. This
            also binds what drains. Otherwise a user who may only write ConfigMaps could send a Secret to any server.
    """
    desired = {key for _, key, _ in entries(resolved.streams)}
    renamed, staying = renames(resolved.streams), {key.cluster for key in desired}
    carried = {renamed_to(key, renamed): key for key in before.entries}
    carried |= {key: key for key in before.entries if key in carried}
    drains: dict[Key, tuple[DrainingTopic, str]] = {}
    owners: dict[Key, Mapping[str, Mapping[str, Any]]] = {}
    leaving: dict[Key, str] = {}
    for key, was in sorted(carried.items()):
        if key in desired:
            continue
        owners[key] = dict(sorted(before.entries[was].items()))
        stream, content = next(iter(owners[key].items()))
        drain = _most_careful([_rules_of(owner, resolved, before) for owner in owners[key]])
        mark = before.status_entries.get(key) or before.status_entries.get(was)
        # If only the document shows that the topic drains, it has drained since the last revision at the latest.
        revision = mark.revision if mark is not None else next_counter - (key in before.draining)
        if key in released:
            leaving[key] = released[key]
            continue
        leaves = key.cluster not in staying
        home = _HOME if leaves and {key.cluster, was.cluster, content.get("renamedFrom")} & {*homes} else ""
        if drain.policy == "Immediate" and not home:
            leaving[key] = "its stream has drain.policy: Immediate"
            continue
        why = waits_for(key, revision, _seconds(drain.quiet_period)) or home
        topic = DrainingTopic(
            cluster=key.cluster,
            topic=key.topic,
            stream=stream,
            since=mark.since if mark is not None else now,
            revision=revision,
            quiet_period=drain.quiet_period,
            timeout=drain.timeout,
            message=(secret_problem(key.cluster, _with_secret(content)) or why or _TOGETHER)[:1024],
        )
        drains[key] = topic, why
    held = {key.cluster for key, (_, why) in drains.items() if why} if together else set()
    leaving |= {key: "drained" for key, (_, why) in drains.items() if not why and key.cluster not in held}
    draining = [topic for key, (topic, _) in drains.items() if key not in leaving]
    streams = _merged(resolved.streams, draining, owners, secret_problem)
    return Rendering(streams, drain_rules(streams, resolved, before), tuple(draining), leaving)


def renames(streams: Streams) -> Mapping[str, str]:
    """Return {old cluster id: new cluster id}."""
    return {
        content["renamedFrom"]: name
        for stream_content in streams.values()
        for name, content in stream_content["clusters"].items()
        if "renamedFrom" in content
    }


def renamed_to(key: Key, renamed: Mapping[str, str]) -> Key:
    """Return the topic under its cluster's new id, under which its offsets and its drain continue."""
    return key._replace(cluster=renamed.get(key.cluster, key.cluster))


def _seconds(duration: str) -> float:
    return parse_duration_ms(duration, where="drain") / 1000


def _rules_of(stream: str, resolved: Resolved, before: PreviousStreams) -> Drain:
    if stream in resolved.drain:
        return resolved.drain[stream]
    return Drain.model_validate(before.drain_rules.get(stream, {}))


def _rules_in_status(draining: Sequence[DrainingTopic]) -> dict[str, Mapping[str, str]]:
    """Return {stream: its `drain` settings}, as far as a status shows them.

    An entry names one stream and the longest times of all that had the topic. So the longest of a stream's entries
    count: they are careful enough for each.
    """
    drains: dict[str, list[Drain]] = {}
    for topic in draining:
        drains.setdefault(topic.stream, []).append(Drain(quiet_period=topic.quiet_period, timeout=topic.timeout))
    return {stream: _most_careful(settings).model_dump(by_alias=True) for stream, settings in drains.items()}


def _most_careful(settings: Sequence[Drain]) -> Drain:
    """Return how a topic of several streams drains: carefully enough for each of them."""
    waiting = [setting for setting in settings if setting.policy == "WhenDrained"] or settings
    return Drain(
        policy=waiting[0].policy,
        quiet_period=max((drain.quiet_period for drain in waiting), key=_seconds),
        timeout=max((drain.timeout for drain in waiting), key=_seconds),
    )


def drain_rules(streams: Streams, resolved: Resolved, before: PreviousStreams) -> dict[str, Mapping[str, str]]:
    """Return the `drain` settings that a document with these streams has to remember, as `Document` has them."""
    return {
        stream: _rules_of(stream, resolved, before).model_dump(by_alias=True, exclude_defaults=True)
        for stream in streams
        if _rules_of(stream, resolved, before) != Drain()
    }


def _merged(
    desired: Streams,
    draining: list[DrainingTopic],
    owners: Mapping[Key, Mapping[str, Mapping[str, Any]]],
    secret_problem: Callable[[str, Mapping[str, Any]], str],
) -> dict[str, Any]:
    """Return the desired streams, with each draining topic added to all the streams that had it."""
    current = {name: content for definition in desired.values() for name, content in definition["clusters"].items()}
    streams: dict[str, Any] = {name: {"clusters": dict(definition["clusters"])} for name, definition in desired.items()}
    for topic in draining:
        owning = owners[Key(topic.cluster, topic.topic)]
        first = next(iter(owning.values()))
        for stream in owning:
            clusters = streams.setdefault(stream, {"clusters": {}})["clusters"]
            content = clusters.get(topic.cluster)
            if content is None:
                # If another stream still has the cluster, perhaps with other servers, its settings count: a driver has
                # one client for each cluster.
                base = current.get(topic.cluster) or first
                content = {key: base[key] for key in base if key not in ("topics", "drainingTopics", "state")}
                content |= {"topics": [], "state": "Draining"}
                content = _bound(topic.cluster, content, secret_problem)
            content = {**content, "topics": [*content["topics"], topic.topic]}
            # A topic that drains is read, so it keeps the id that it must have.
            pin = owning[stream].get("topicIds", {}).get(topic.topic)
            content = with_pins(content, {**content.get("topicIds", {})} | ({topic.topic: pin} if pin else {}))
            if content.get("state") != "Draining":
                content["drainingTopics"] = [*content.get("drainingTopics", []), topic.topic]
            clusters[topic.cluster] = without_foreign_topics(content)
    return streams


def _with_secret(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster with the Secret that it was rendered with, even if that was withheld."""
    secret = content.get("secretFolder", content.get(WITHHELD))
    cluster_entry = {key: value for key, value in content.items() if key not in ("secretFolder", WITHHELD)}
    return cluster_entry if secret is None else {**cluster_entry, "secretFolder": secret}


def _bound(
    cluster: str, content: Mapping[str, Any], secret_problem: Callable[[str, Mapping[str, Any]], str]
) -> dict[str, Any]:
    """Return the cluster with its Secret if that is bound, and else with a note of the Secret that it lacks."""
    cluster_entry = _with_secret(content)
    if secret_problem(cluster, cluster_entry):
        cluster_entry[WITHHELD] = cluster_entry.pop("secretFolder")
    return cluster_entry
