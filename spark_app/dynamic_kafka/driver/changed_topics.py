"""Topics of a pending batch that were deleted or re-created since it was planned; and the record of such verdicts.

Driver; `driver.replay` asks for each range, and `driver.enumerator` records what ends the query.
`planning.sameness.integrity` decides the same for a plan.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from dynamic_kafka.errors import DataLossError, DynamicKafkaError, TopicIntegrityError
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.losses.dataloss import recreated_while_pending
from dynamic_kafka.planning.observation import ClusterObservation, Observation
from dynamic_kafka.planning.questions import AbsentTopicsQuestion, DisputedIdsQuestion, Topics
from dynamic_kafka.planning.sameness.identity import is_another
from dynamic_kafka.planning.sameness.integrity import TopicChange, changes_of, found_id, integrity_error, standing
from dynamic_kafka.planning.splits import SplitRange
from dynamic_kafka.state.folder import Seen
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change, saved_changes, withdraw_verdict

log = logging.getLogger(__name__)

Ask = Callable[[AbsentTopicsQuestion | DisputedIdsQuestion, Observation], Topics]
"""Returns the answer to a question, from the clusters of an observation."""
HaveIds = Callable[[Mapping[tuple[str, str], str], Subscription], Topics]
"""Returns those of {(cluster id, topic): id} that have this id now, as several brokers confirm."""


def trust_one_broker(question: AbsentTopicsQuestion | DisputedIdsQuestion, _: Observation) -> Topics:
    """Answer without a cluster: the observation is right."""
    return question.topics if isinstance(question, AbsentTopicsQuestion) else frozenset()


class ChangedTopics:
    """The judgement of the topics of a pending batch.

    Args:
        state: the store of acceptances; None without a `stateLocation`.
    """

    def __init__(self, options: SourceOptions, state: StateLocation | None, ask: Ask) -> None:
        self._options, self._state, self._ask = options, state, ask

    def unsettled(
        self, ranges: Iterable[SplitRange], current: Mapping[str, str], end: OffsetDocument, seen: Observation
    ) -> Topics:
        """Return the (cluster, topic) about which the brokers agree neither that it is missing nor that it is another.

        All topics are asked about at once. Executors ask again, and find out what is left of a missing one.

        Args:
            current: the present id of each saved cluster.

        Raises:
            ClusterError: it is unknown whether a topic is missing, or another one.
        """
        missing, asked, doubtful = set[tuple[str, str]](), set[tuple[str, str]](), dict[tuple[str, str], str]()
        for saved, topic in sorted({(part.split.cluster, part.split.topic) for part in ranges}):
            cluster, planned = current.get(saved), end.topic(saved, topic)
            if cluster is None or planned is None or cluster not in seen.answers:
                continue
            pin, topic_id = self._ids(cluster, topic, seen)
            if topic_id == "":
                missing.add((cluster, topic))
                if pin is not None or self._options.topic_integrity_check or not self._options.fail_on_data_loss:
                    asked.add((cluster, topic))
            elif topic_id is not None and topic_id != (pin or planned.topic_id or topic_id):
                doubtful[cluster, topic] = topic_id
        absent = self._ask(AbsentTopicsQuestion(frozenset(asked)), seen) if asked else frozenset()
        disputed = self._ask(DisputedIdsQuestion(doubtful), seen) if doubtful else frozenset()
        return frozenset(missing - absent) | disputed

    def _ids(self, cluster: str, topic: str, seen: Observation) -> tuple[str | None, str | None]:
        """Return the id that metadata pin a topic to, and the one that it has, as `found_id`."""
        want = seen.subscription.clusters[cluster]
        return saved_topic_id(want.topic_ids.get(topic)), found_id(seen.answers[cluster], topic)

    def is_left_out(self, part: SplitRange, cluster: str, end: OffsetDocument, seen: Observation) -> bool:
        """Return whether a range must not be read, since its topic was deleted or re-created, and that is accepted.

        A partition never leaves a topic: if the same topic lacks it, the broker's metadata are old, and executors wait.

        Args:
            cluster: the present id of the range's cluster, which has answered; its topic is not `unsettled`.

        Raises:
            TopicIntegrityError: the topic is checked, and the change is not accepted.
            DataLossError: the topic was re-created, and `failOnDataLoss` is set.
        """
        planned, topic = end.topic(part.split.cluster, part.split.topic), part.split.topic
        if planned is None:
            return False
        pin, topic_id = self._ids(cluster, topic, seen)
        if topic_id is not None and pin not in (None, topic_id):
            raise integrity_error([TopicChange(cluster, topic, str(pin), topic_id, pinned=True)])
        if topic_id is None or planned.topic_id is None:
            is_assigned = self._options.single is not None and bool(self._options.single.assign)
            return not (self._options.fail_on_data_loss or is_assigned) and _is_gone(part, seen.answers[cluster])
        if topic_id == planned.topic_id:
            return False
        change = TopicChange(cluster, topic, planned.topic_id, topic_id)
        if pin == topic_id or self._is_accepted(end.query, change):
            return True
        if self._options.topic_integrity_check:
            raise integrity_error([change])
        return self.must_leave_out(part, end, topic_id)

    def must_leave_out(self, part: SplitRange, end: OffsetDocument, topic_id: str | None) -> bool:
        """Return whether another topic has the name of a range's topic: the range's offsets mean nothing there.

        Raises:
            DataLossError: it has, and `failOnDataLoss` is set.
        """
        planned = end.topic(part.split.cluster, part.split.topic)
        if planned is None or topic_id is None or not is_another(planned.topic_id, topic_id):
            return False
        if self._options.fail_on_data_loss:
            raise DataLossError(recreated_while_pending(part, planned.topic_id, topic_id))
        return True

    def is_reported(self, part: SplitRange, end: OffsetDocument, report: Seen | None) -> bool:
        """Return whether executors have read nothing of a range, since they found another topic. Raises as above."""
        if report is None:
            return False
        return bool(report.content.get("accepted")) or self.must_leave_out(part, end, str(report.content["topicId"]))

    def _is_accepted(self, query: str, change: TopicChange) -> bool:
        if self._state is None or not query:
            return False
        return change.key in {saved.key for saved in saved_changes(self._state, query, "accepted").values()}


def _is_gone(part: SplitRange, answer: ClusterObservation) -> bool:
    """Return whether a cluster lacks the topic or the partition of a range."""
    topic, partition = part.split.topic, part.split.partition
    return topic in answer.missing or (topic in answer.topics and partition not in answer.topics[topic].latest)


@contextmanager
def recorded_verdicts(state: StateLocation | None, query: str) -> Iterator[None]:
    """Make durable why the query ends for good, before the error is raised on. Every start ends with it then.

    A failure to write is logged: the next start finds the same by the brokers' answers.
    """
    try:
        yield
    except TopicIntegrityError as error:
        try:
            for change in changes_of(error):
                if state is not None:
                    save_change(state, query, "verdict", change)
        except DynamicKafkaError as failure:
            log.warning("the verdict about topic integrity is not recorded: %s", failure)
        raise


def refuse_standing(
    state: StateLocation | None,
    documents: list[OffsetDocument],
    options: SourceOptions,
    metadata: Callable[[], Subscription],
    have_ids: HaveIds,
) -> None:
    """Refuse a start after a verdict that no user has accepted. Wrong verdicts are withdrawn.

    Args:
        documents: the last document of each source of the query; an initial one before the first.
        metadata: returns those in force; called only if there is a verdict.

    Raises:
        TopicIntegrityError: with the words of the run that found it.
    """
    for document in documents:
        if state is None:
            return
        verdicts, wrong = standing_verdicts(state, document, options, metadata, have_ids)
        for change in wrong:
            withdraw_verdict(state, document.query, change)
            log.warning("the verdict is withdrawn, since the topic is there with its id: %s", change)
        if verdicts:
            raise integrity_error(verdicts)


def standing_verdicts(
    state: StateLocation | None,
    document: OffsetDocument,
    options: SourceOptions,
    metadata: Callable[[], Subscription],
    have_ids: HaveIds,
) -> tuple[list[TopicChange], list[TopicChange]]:
    """Return the verdicts that end a start, and those that would if they were not wrong. Arguments as above.

    A verdict is wrong if the topic is there with its id, since ids never come back.
    """
    verdicts = list(saved_changes(state, document.query, "verdict").values()) if state is not None else []
    if state is None or not verdicts:
        return [], []
    subscription = metadata()
    named = [verdict for verdict in verdicts if _is_named(verdict, options, subscription)]
    accepted = saved_changes(state, document.query, "accepted").values()
    unaccepted = standing(named, accepted, subscription.clusters, document)
    doubtful = {(change.cluster, change.topic): change.expected for change in unaccepted}
    there = _there(have_ids, doubtful, subscription) if doubtful else frozenset()
    wrong = {change.key for change in unaccepted if (change.cluster, change.topic) in there}
    return [change for change in unaccepted if change.key not in wrong], [
        change for change in verdicts if change.key in wrong
    ]


def _there(have_ids: HaveIds, ids: Mapping[tuple[str, str], str], subscription: Subscription) -> Topics:
    try:
        return have_ids(ids, subscription)
    except DynamicKafkaError as error:
        log.warning("it is unknown whether the verdicts about topic integrity are still right: %s", error)
        return frozenset()


def _is_named(change: TopicChange, options: SourceOptions, subscription: Subscription) -> bool:
    """Return whether metadata still names the topic; a pattern does so even if the cluster does not list it."""
    want, single = subscription.clusters.get(change.cluster), options.single
    if want is not None and change.topic in want.topics:
        return True
    if single is None or single.pattern is None or single.cluster_id != change.cluster:
        return False
    return re.fullmatch(single.pattern, change.topic) is not None
