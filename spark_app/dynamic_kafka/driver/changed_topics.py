"""Topics of a pending batch that were deleted or re-created since it was planned; and the record of such verdicts.

Driver; `driver.replay` asks for each range, and `driver.enumerator` records what ends the query. `planning.integrity`
decides the same for a plan.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import DataLossError, DynamicKafkaError, TopicIntegrityError
from dynamic_kafka.executor.state_folder import Seen
from dynamic_kafka.executor.verdicts import save_change, saved_changes
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.dataloss import is_recreated, recreated_while_pending
from dynamic_kafka.planning.integrity import TopicChange, changes_of, found_id, integrity_error, standing
from dynamic_kafka.planning.observation import Observation
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.questions import Topics
from dynamic_kafka.planning.splits import SplitRange

log = logging.getLogger(__name__)

Absent = Callable[[Topics, Observation], Topics]
"""Returns those of (cluster id, topic) that no broker has."""


class ChangedTopics:
    """The judgement of the topics of a pending batch.

    Args:
        state: the store of acceptances; None without a `stateLocation`.
    """

    def __init__(self, options: SourceOptions, state: StateLocation | None, absent: Absent) -> None:
        self._options, self._state, self._absent = options, state, absent

    def is_left_out(self, part: SplitRange, cluster: str, end: OffsetDocument, seen: Observation) -> bool:
        """Return whether a range must not be read, since its topic was deleted or re-created, and that is accepted.

        Args:
            cluster: the present id of the range's cluster, which has answered.

        Raises:
            TopicIntegrityError: the topic is checked, and the change is not accepted.
            DataLossError: the topic was re-created, and `failOnDataLoss` is set.
            ClusterError: it is unknown whether the topic is missing.
        """
        planned, topic = end.topic(part.split.cluster, part.split.topic), part.split.topic
        if planned is None:
            return False
        want = seen.subscription.clusters[cluster]
        pin, found = saved_topic_id(want.topic_ids.get(topic)), found_id(seen.answers[cluster], topic)
        checked = pin is not None or self._options.topic_integrity_check
        if found == "" and not (checked and self._absent(frozenset({(cluster, topic)}), seen)):
            return False  # executors find out what is left of it
        if found is not None and pin not in (None, found):
            raise integrity_error([TopicChange(cluster, topic, str(pin), found, pinned=True)])
        if found is None or planned.topic_id is None or found == planned.topic_id:
            return False
        change = TopicChange(cluster, topic, planned.topic_id, found)
        if pin == found or self._is_accepted(end.query, change):
            return True
        if self._options.topic_integrity_check:
            raise integrity_error([change])
        return self.is_recreated(part, end, found)

    def is_recreated(self, part: SplitRange, end: OffsetDocument, found: str | None) -> bool:
        """Return whether another topic has the name of a range's topic: the range's offsets mean nothing there.

        Raises:
            DataLossError: it has, and `failOnDataLoss` is set.
        """
        planned = end.topic(part.split.cluster, part.split.topic)
        if planned is None or found is None or not is_recreated(planned.topic_id, found):
            return False
        if self._options.fail_on_data_loss:
            raise DataLossError(recreated_while_pending(part, planned.topic_id, found))
        return True

    def is_reported(self, part: SplitRange, end: OffsetDocument, report: Seen | None) -> bool:
        """Return whether executors have read nothing of a range, since they found another topic. Raises as above."""
        if report is None:
            return False
        return bool(report.content.get("accepted")) or self.is_recreated(part, end, str(report.content["topicId"]))

    def _is_accepted(self, query: str, change: TopicChange) -> bool:
        if self._state is None or not query:
            return False
        return change.key in {each.key for each in saved_changes(self._state, query, "accepted").values()}


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
                if state is not None and query:
                    save_change(state, query, "verdict", change)
        except DynamicKafkaError as failure:
            log.warning("the verdict about topic integrity is not recorded: %s", failure)
        raise


def refuse_standing(
    state: StateLocation | None,
    documents: list[OffsetDocument],
    options: SourceOptions,
    metadata: Callable[[], Subscription],
) -> None:
    """Refuse a start after a verdict that nobody has accepted, before any broker is asked.

    Args:
        documents: the last document of each source of the query.
        metadata: returns those in force; called only if there is a verdict.

    Raises:
        TopicIntegrityError: with the words of the run that found it.
    """
    for document in documents:
        if state is None or not document.query:
            continue
        verdicts = saved_changes(state, document.query, "verdict").values()
        if not verdicts:
            continue
        subscription = metadata()
        named = [each for each in verdicts if _is_named(each, options, subscription)]
        accepted = saved_changes(state, document.query, "accepted").values()
        if found := standing(named, accepted, subscription.clusters, document):
            raise integrity_error(found)


def _is_named(change: TopicChange, options: SourceOptions, subscription: Subscription) -> bool:
    """Return whether metadata still names the topic; a pattern does so even if the cluster does not list it."""
    want, single = subscription.clusters.get(change.cluster), options.single
    if want is not None and change.topic in want.topics:
        return True
    if single is None or single.pattern is None or single.cluster_id != change.cluster:
        return False
    return re.fullmatch(single.pattern, change.topic) is not None
