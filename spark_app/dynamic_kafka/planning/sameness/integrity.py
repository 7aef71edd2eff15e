"""Topic integrity: a topic that is read must have the id that metadata pins, or the saved id (`topicIntegrityCheck`).

Pure; `planning.plan` calls `check_integrity` in each plan, and replays and the application judge the same changes. A
pin is enforced always, the saved id if the option is set. A change that a user accepted is no failure: metadata pins
the topic to its new id, or the tool `accept` has recorded it. Decision 027 has the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dynamic_kafka.contract.termination_message import ChangedTopic
from dynamic_kafka.errors import TopicIntegrityError
from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.metadata.topic_ids import saved_topic_id, shown_topic_id
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.progress import OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import AcceptedTopicsQuestion, DisputedIdsQuestion, Steps
from dynamic_kafka.wording import counted, first_few, tool_command

_CODE = re.compile(r"\[TOPIC_CHANGED cluster=(\S+) topic=(\S+) id=([\w-]+)(?: now=[\w-]+)?\] ")
"""The code at the start of each change in the text of an error: the JVM passes an error on as a text only."""
_BETWEEN_CHANGES = re.compile(r"; (?=\[TOPIC_CHANGED )")


@dataclass(frozen=True, order=True)
class TopicChange:
    """A topic that is no longer the one that it should be. Its ids have the client's form.

    Attributes:
        expected: the id that metadata pins, or that the offsets belong to.
        found: the id that the topic has now; empty if the cluster does not have the topic.
        pinned: whether metadata pins the topic to `expected`: then only other metadata accept the change.
    """

    cluster: str
    topic: str
    expected: str
    found: str
    pinned: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The change itself, however it was noticed."""
        return self.cluster, self.topic, self.expected, self.found

    def __str__(self) -> str:
        now = f" now={shown_topic_id(self.found)}" if self.found else ""
        names = f"cluster={self.cluster} topic={self.topic} id={shown_topic_id(self.expected)}{now}"
        return f"[TOPIC_CHANGED {names}] the topic {'was re-created' if self.found else 'is missing'}"

    @property
    def remedy(self) -> str:
        """The ways to accept the change, as a sentence."""
        subject = f"{self.cluster}/{self.topic}"
        by_tool = "" if self.pinned else f", or accept that with {tool_command('accept', subject, flag='--topic')}"
        if not self.found:
            choices = f"take it out of the metadata, or create it again and name its new id there{by_tool}"
            return f"To go on, {choices}. If the cluster has it again with this id, start again"
        pin = f"topicIds: {{{self.topic}: {shown_topic_id(self.found)}}}"
        return f"To read the new topic from its first record, write `{pin}` into the metadata{by_tool}"

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> TopicChange:
        """Return the change that a file holds; LookupError if it is damaged."""
        cluster, topic, expected, actual = (str(wire[name]) for name in ("cluster", "topic", "expected", "found"))
        return cls(cluster, topic, expected, actual, pinned=bool(wire.get("pinned", False)))

    def to_wire(self) -> dict[str, Any]:
        """Return the content of the file for a verdict about this change, or for its acceptance."""
        more = {"pinned": True} if self.pinned else {}
        names = {"cluster": self.cluster, "topic": self.topic, "expected": self.expected, "found": self.found}
        return {"version": 1} | names | more


def integrity_error(changes: Iterable[TopicChange]) -> TopicIntegrityError:
    """Return the error for topics that changed. The same changes give the same words at each start."""
    sorted_changes = sorted(changes)
    error = TopicIntegrityError("; ".join(f"{change}. {change.remedy}" for change in sorted_changes))
    error.changes = tuple(sorted_changes)
    return error


def changed_topics(words: str) -> tuple[ChangedTopic, ...]:
    """Return the topics that the words of an `integrity_error` are about."""
    return tuple(ChangedTopic(cluster=match[1], topic=match[2], expected=match[3]) for match in _CODE.finditer(words))


def shortened(words: str, size: int) -> str:
    """Return the words of an `integrity_error` in so many bytes: whole changes, and the number of the others."""
    changes, text = _BETWEEN_CHANGES.split(words), words
    for kept in range(len(changes) - 1, 0, -1):
        if len(text.encode(errors="replace")) <= size:
            break
        more = counted(len(changes) - kept, "more topic")
        text = "; ".join([*changes[:kept], f"{more}: {tool_command('plan')} lists all, and so does the driver's log"])
    return text


def changes_of(error: BaseException) -> tuple[TopicChange, ...]:
    """Return the changes that an error of `integrity_error` is about; none for one that came as a text."""
    changes = error.changes if isinstance(error, TopicIntegrityError) else ()
    return tuple(change for change in changes if isinstance(change, TopicChange))


class _ReadTopic(NamedTuple):
    """A topic that is read: the id that metadata pin, that of the saved offsets, and the present one."""

    cluster: str
    topic: str
    pin: str | None
    saved: str | None
    found: str


@dataclass(frozen=True)
class Integrity:
    """The outcome for one plan.

    Attributes:
        answers: the clusters' answers without the topics about whose ids the brokers do not agree. Those count as not
            described: a later plan asks again.
        accepted: (cluster, topic) of the changed topics that the plan may go on with: their losses are accepted.
        refused: the other changes. There are some only if the plan does not refuse losses (`PlanInput`).
        warnings: {key: text} for clusters whose topics cannot be checked; None where that is over.
    """

    answers: Mapping[str, ClusterObservation]
    accepted: frozenset[tuple[str, str]]
    refused: tuple[TopicChange, ...]
    warnings: Mapping[tuple[str, ...], str | None]


def check_integrity(
    given: PlanInput,
    progress: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    answers: Mapping[str, ClusterObservation],
) -> Steps[Integrity]:
    """Compare the ids of all topics that answered with the pinned and the saved ones.

    Args:
        progress: saved progress, renames applied, without that of clusters whose new identity a user accepted.
        wanted, answers: with absences confirmed: a missing topic is one that several brokers do not have.

    Raises:
        TopicIntegrityError: a topic that is checked was deleted or re-created, and no user accepted that.
        RevisionRejectedError: only pins of new metadata do not fit.
    """
    topics = list(_read_topics(progress, wanted, answers))
    disputed = yield from _disputed(progress, topics)
    pinned, others, fits = [], [], set()
    for cluster, topic, pin, saved, current_id in topics:
        if (cluster, topic) in disputed:
            continue
        if pin not in (None, current_id):
            pinned.append(TopicChange(cluster, topic, str(pin), current_id, pinned=True))
        elif saved is not None and saved != current_id:
            fits |= {(cluster, topic)} if pin is not None else set()
            others.append(TopicChange(cluster, topic, saved, current_id))
    accepted = yield from _accepted(given, [change for change in others if (change.cluster, change.topic) not in fits])
    refused = [change for change in others if (change.cluster, change.topic) not in fits | accepted]
    refused = refused if given.options.topic_integrity_check else []
    if given.refuse_losses and pinned and given.new_revision and not refused:
        raise RevisionRejectedError(integrity_error(pinned))
    if given.refuse_losses and (pinned or refused):
        raise integrity_error([*pinned, *refused])
    # A preview goes on as if the refused changes were accepted, and lists them.
    listed = (*pinned, *refused)
    going_on = fits | accepted | {(change.cluster, change.topic) for change in listed}
    warnings = _warnings(given, wanted, answers, disputed)
    return Integrity(_without(answers, disputed), frozenset(going_on), listed, warnings)


def _read_topics(
    progress: OffsetDocument, wanted: Mapping[str, SubscribedCluster], answers: Mapping[str, ClusterObservation]
) -> Iterator[_ReadTopic]:
    for cluster, answer in sorted(answers.items()):
        want = wanted.get(cluster, SubscribedCluster({}, {}))
        for topic in sorted(want.topics):
            current_id, reading = found_id(answer, topic), progress.topic(cluster, topic)
            if current_id is None or (reading is not None and is_read(reading, answer.topics.get(topic))):
                continue
            saved = reading.topic_id if reading is not None else None
            yield _ReadTopic(cluster, topic, saved_topic_id(want.topic_ids.get(topic)), saved, current_id)


def _disputed(progress: OffsetDocument, topics: Iterable[_ReadTopic]) -> Steps[frozenset[tuple[str, str]]]:
    """Return the topics that only one broker, perhaps, takes for other ones. An id that metadata pin is no doubt."""
    doubtful = {}
    for topic in topics:
        parked = progress.parked_topic(topic.cluster, topic.topic)
        known = topic.pin or topic.saved or (parked.progress.topic_id if parked is not None else None)
        if topic.found and known not in (None, topic.found):
            doubtful[topic.cluster, topic.topic] = topic.found
    return frozenset((yield DisputedIdsQuestion(doubtful)) if doubtful else ())


def _without(
    answers: Mapping[str, ClusterObservation], disputed: frozenset[tuple[str, str]]
) -> Mapping[str, ClusterObservation]:
    changed = {
        cluster: replace(answers[cluster], topics={t: s for t, s in topics.items() if (cluster, t) not in disputed})
        for cluster, topics in ((cluster, answers[cluster].topics) for cluster, _ in disputed)
    }
    return {**answers, **changed} if changed else answers


def _accepted(given: PlanInput, changes: Sequence[TopicChange]) -> Steps[set[tuple[str, str]]]:
    if not changes:
        return set()
    keys = {change.key for change in (yield AcceptedTopicsQuestion(given.query))}
    return {(change.cluster, change.topic) for change in changes if change.key in keys}


def found_id(answer: ClusterObservation, topic: str) -> str | None:
    """Return the id that a topic has now; empty if the cluster lacks it, None if the answer does not show."""
    seen = answer.topics.get(topic)
    return seen.topic_id if seen is not None else "" if topic in answer.missing else None


def is_read(reading: TopicProgress, seen: TopicObservation | None) -> bool:
    """Return whether nothing of a topic is read any more, so that another topic of its name changes nothing.

    Every split has reached its end, and no split of the other topic would be opened: a further partition, or one whose
    split had ended at a stop record (`planning.reconcile`).
    """
    opened = set(seen.latest) - (set(reading.next) - set(reading.ended)) if seen is not None else ()
    return bool(reading.next) and not opened and all(reading.finished(partition) for partition in reading.next)


def standing(
    verdicts: Iterable[TopicChange],
    accepted: Iterable[TopicChange],
    clusters: Mapping[str, SubscribedCluster],
    document: OffsetDocument,
) -> list[TopicChange]:
    """Return the recorded verdicts that end a start, unless the brokers show that they were wrong.

    One is void once it was accepted, once metadata pins the topic to another id, and once the query reads the topic
    under another id. The next plan then decides by what the brokers answer.

    Args:
        verdicts: those about topics that metadata still names.
        clusters: the clusters that metadata names, by id.
        document: the last document of the checkpoint.
    """
    # A user who accepts a re-created topic accepts that the old one is gone, which may have been noticed first.
    keys = {key for change in accepted for key in (change.key, replace(change, found="").key)}
    verdict_by_key = {}
    for verdict in sorted(verdicts):
        want = clusters.get(verdict.cluster)
        pin = saved_topic_id(want.topic_ids.get(verdict.topic)) if want is not None else None
        reading = document.topic(verdict.cluster, verdict.topic)
        refuses = reading is not None and reading.topic_id == verdict.expected and verdict.key not in keys
        if pin == verdict.expected if verdict.pinned else refuses and pin in (None, verdict.expected):
            verdict_by_key[verdict.key] = verdict
    return list(verdict_by_key.values())


def _warnings(
    given: PlanInput,
    wanted: Mapping[str, SubscribedCluster],
    answers: Mapping[str, ClusterObservation],
    disputed: frozenset[tuple[str, str]],
) -> dict[tuple[str, ...], str | None]:
    warnings: dict[tuple[str, ...], str | None] = {}
    for cluster in answers:
        names = first_few(sorted(topic for name, topic in disputed if name == cluster), 5)
        text = f"the brokers of cluster {cluster!r} do not agree on the ids of {names}: a later plan asks again"
        warnings["disputed-id", cluster] = text if names else None
    for cluster, answer in answers.items():
        pins = wanted[cluster].topic_ids if cluster in wanted else {}
        silent = [name for name, seen in sorted(answer.topics.items()) if seen.topic_id is None]
        unchecked = [name for name in silent if given.options.topic_integrity_check or name in pins]
        text = f"cluster {cluster!r} reports no topic ids: nothing shows whether its topics are still the same ones"
        warnings["no-topic-id", cluster] = text if unchecked else None
    return warnings
