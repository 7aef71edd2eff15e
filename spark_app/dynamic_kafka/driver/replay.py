"""Replays: batches that were planned but not committed run again, with exactly the same ranges.

Driver; owned by the enumerator. Spark hands a batch back as its two documents, and the ranges come from those alone. An
amendment leaves out ranges that metadata no longer names. Under `clusterFailurePolicy=stall` it also leaves out those
of a cluster that does not answer.

An amendment is decided once and written before the batch runs. Every later replay of the batch obeys it, so two replays
never read different ranges. If the process dies before the write, nothing was read, and the next run decides anew. If
it dies after the write, the next run obeys.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar

from dynamic_kafka.driver.amendment_refusal import log_left_out, older_than_state, refusal_of
from dynamic_kafka.driver.changed_topics import Ask, ChangedTopics, trust_one_broker
from dynamic_kafka.driver.driver_log import log_restored
from dynamic_kafka.errors import (
    ClusterUnreachableError,
    DynamicKafkaError,
    IdentityError,
)
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.advance import check_chain, ranges_between
from dynamic_kafka.planning.document.amendments import Amendment, Amendments, Reason, check_reported
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import Observation
from dynamic_kafka.planning.questions import AbsentTopicsQuestion
from dynamic_kafka.planning.sameness.cluster_renames import carry_over, current_ids
from dynamic_kafka.planning.sameness.identity import identity_choices, saved_identity
from dynamic_kafka.planning.splits import SplitRange
from dynamic_kafka.state.folder import TOPIC_ID, Seen
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.store import Reported, StateLocation, apply_reports
from dynamic_kafka.wording import first_few

log = logging.getLogger(__name__)


class Replays:
    """The amendments of one query, and the decision to make one.

    `kept_reports` is the number of batches by value whose reports stay, for a checkpoint that is restored.

    Args:
        state: the store of amendments; None without a `stateLocation`.
        observe: observes metadata and clusters, given the progress; raises if a cluster that must answer does not.
        find_ends: reports where ranges of a batch by value end, given its document, as the tasks do that read them.

    Attributes:
        amendments: the amendments that were restored or made so far.
        is_restored: whether the amendments were loaded.
        observation: the metadata and the answers by which the last replay was decided. None before one, and once this
            process has planned a batch.
        incarnation: this process as a driver of the query.
    """

    kept_reports: ClassVar[int] = 100

    def __init__(
        self,
        options: SourceOptions,
        state: StateLocation | None,
        observe: Callable[[OffsetDocument], Observation],
        ask: Ask = trust_one_broker,
        find_ends: Callable[[OffsetDocument, list[SplitRange], Observation], None] = lambda *_: None,
    ) -> None:
        self._options, self._state, self._observe, self._ask = options, state, observe, ask
        self._find_ends = find_ends
        self._changed = ChangedTopics(options, state, ask)
        self.incarnation = Incarnation(state)
        self.amendments = Amendments()
        self.observation: Observation | None = None
        self._settled: set[tuple[str, str]] = set()
        self._unread: tuple[str, str] | None = None
        self._ended_batch = -1
        self._reported: deque[str] = deque()
        self._earlier_reports: dict[str, Reported] = {}
        self.is_restored = False
        self._later_amendments: list[Amendment] = []

    def begin(self, document: OffsetDocument) -> None:
        """Become the query's newest driver, and load its amendments, at the first saved document of this process.

        Raises:
            DriverReplacedError: another driver started at the same time.
            StateMismatchError, StaleCheckpointError: as `restore`.
        """
        if not self.is_restored:
            # First without the claim: a start with a wrong checkpoint must not replace the driver that runs.
            self.restore(document)
            self._take(document, self.incarnation.begin(document))
            if document.by_value is not None and self._state is not None:
                for batch, reported in self._earlier_reports.items():
                    if reported.has_ends and reported.number < document.number - self.kept_reports:
                        self._state.delete_reports(document.query, batch)
            self._earlier_reports = {}

    def restore(self, document: OffsetDocument) -> None:
        """Load the query's amendments. Writes nothing: the tools use it.

        Raises:
            StateMismatchError: the state location does not hold the query's state.
            StaleCheckpointError: an amendment or a report belongs to a later batch than the last of the checkpoint.
        """
        self.is_restored = True
        log_restored(document)
        if self._state is not None and document.query:
            last_two = (document.previous, fingerprint(document))
            self._earlier_reports = self._state.reported(document.query, but=last_two)
            newest = max((reported.number for reported in self._earlier_reports.values()), default=0)
            if newest > document.number and not self._options.allow_old_checkpoint:
                raise older_than_state(document, self._state.uri, "a report of an executor", newest)
        self._take(document, self.incarnation.load(document))

    def _take(self, document: OffsetDocument, amendments: list[Amendment]) -> None:
        later = [amendment for amendment in amendments if amendment.number > document.number]
        if later and self._state is not None and not self._options.allow_old_checkpoint:
            newest = max(amendment.number for amendment in later)
            raise older_than_state(document, self._state.uri, "an amendment", newest)
        self.amendments = Amendments(amendment for amendment in amendments if amendment.number <= document.number)
        self._later_amendments = later
        self._reports(document)

    def batch_ended(self, document: OffsetDocument) -> None:
        """Take over where executors have ended ranges of the batch before the next plan.

        Spark may commit a batch by value of which it has not read all: `limit()` in `foreachBatch`, or a join with
        nothing to match. No task reports the ends of its ranges then, so they are looked for here. If the process dies
        meanwhile, the next start does it. Ranges that cannot be read any more are left out, under the rules of a
        replay: their splits go back to the start of them.

        Raises:
            OffsetDocumentError: ranges have no report still; or as `ranges`.
        """
        ends_ranges = self._options.record_evaluator is not None or document.by_value is not None
        if not ends_ranges or document.number == self._ended_batch:
            return
        self._reports(document)
        if self._options.timestamp_assigner is not None and (unreported := self._unreported(document)):
            log.warning(
                "no task has read all of %s (limit() in foreachBatch?): their other records are skipped, as Spark"
                " skips them, and are read here to find where the batch ends",
                first_few([str(part) for part in unreported]),
            )
            self.incarnation.check(document.query)
            key = (document.previous, fingerprint(document))
            self._decide(unreported, document, key)
            assert self.observation is not None
            self._find_ends(document, self.amendments.remaining(unreported, key), self.observation)
            self.observation = None
            self._reports(document)
        if self._state is not None:
            check_reported(self.amendments.after(document), self._state.uri)
        self._ended_batch = document.number
        self._forget_reports(document)
        if ended := [
            f"{record.split} at offset {record.offset}"
            for record in self.amendments.stop_records_of(document)
            if record.ends == "split"
        ]:
            log.info("the record evaluator has ended splits: %s", first_few(ended))

    def _forget_reports(self, document: OffsetDocument) -> None:
        """Delete the reports about batches by value that are long past: else a stream has millions of them."""
        if not document.by_value or self._state is None:
            return
        self._reported.append(fingerprint(document))
        while len(self._reported) > self.kept_reports:
            self._state.delete_reports(document.query, self._reported.popleft())

    def _reports(self, end: OffsetDocument) -> list[Seen]:
        """Read executors' reports about a batch, and take over the stop records among them."""
        if self._state is None or not end.query:
            return []
        return apply_reports(self.amendments, self._state, end)

    def planned(self, start: OffsetDocument, end: OffsetDocument) -> None:
        """Record that this process has just planned the batch: its metadata is fresh, so no check is needed.

        If a user restored a checkpoint from before some amendments, the batch may be the very one that they amend.
        Planned anew it reads all of its ranges, so these amendments become void. That is written before Spark has the
        batch, but not earlier: until then the user may restore the checkpoint that the amendments belong to.

        Raises:
            DriverReplacedError: a newer driver may have left out ranges of the batch before.
        """
        self.incarnation.before_document(end)
        key = (fingerprint(start), fingerprint(end))
        undone = [amendment for amendment in self._later_amendments if (amendment.start, amendment.end) == key]
        if undone and self._state is not None:
            self._state.undo_amendments(end.query, undone)
            log.warning("%d amendments of the batch of document %d do not apply any more", len(undone), end.number)
        self._settled, self._unread, self.observation = {key}, key, None

    def ranges(self, start: OffsetDocument, end: OffsetDocument) -> list[SplitRange]:
        """Return the ranges to read for a batch, the same ones however often Spark asks.

        Raises:
            PendingRangesError: metadata no longer names a cluster of the batch, and nothing may be left out.
            IdentityError: another cluster answers for a saved one, whether the batch reads it or not.
            DriverReplacedError: ranges would have to be left out, but a newer driver decides about that.
            DataLossError, TopicIntegrityError: a topic of the batch was re-created since, or is missing.
        """
        key = (fingerprint(start), fingerprint(end))
        if key[0] == key[1]:
            return []  # no batch: the starts in the document belong to the batch that ended with it
        check_chain(start, end)
        ranges = ranges_between(start, end)
        # Executors look only for reports of their own driver. A restored checkpoint may bring back a batch with others.
        reports = self._reports(end) if key != self._unread or self._options.allow_old_checkpoint else []
        remaining = self.amendments.remaining(ranges, key)
        if key not in self._settled and remaining:
            log.info("replaying batch of document %d: %d ranges", end.number, len(remaining))
            # The amendments of earlier replays are obeyed; ranges that cannot be read since then need one more.
            self._decide(remaining, end, key)
            remaining = self.amendments.remaining(ranges, key)
        self._settled.add(key)
        self._unread = None
        return self._without_recreated(remaining, end, reports)

    def _unreported(self, document: OffsetDocument) -> list[SplitRange]:
        """Return the ranges of a batch by value without a report of where they ended."""
        if not document.by_value or len(known := self.amendments.known(document)) >= document.by_value:
            return []  # nearly all batches: no look at each split
        # The document of a batch by value shows the starts of all its ranges.
        return [part for part in ranges_between(document, document) if part.split not in known]

    def is_settled(self, start: OffsetDocument, end: OffsetDocument) -> bool:
        """Return whether this process has already planned the batch or decided its amendment."""
        return (fingerprint(start), fingerprint(end)) in self._settled

    def _decide(self, ranges: list[SplitRange], end: OffsetDocument, key: tuple[str, str]) -> None:
        """Make an amendment for the ranges that cannot be read any more, if there are any."""
        observation = self._observe(end)
        # Without the connections of a live observation.
        self.observation = Observation(observation.subscription, observation.answers)
        amendment = self.judge(ranges, end, key, observation)
        self._check_identities(end, observation)
        if amendment is None:
            return
        refusal = self.refusal(amendment)
        if refusal is not None:
            raise refusal
        self.incarnation.save(amendment)
        self.amendments.add(amendment)
        log_left_out(amendment)
        self.incarnation.check(end.query)

    def judge(
        self, ranges: list[SplitRange], end: OffsetDocument, key: tuple[str, str], observation: Observation
    ) -> Amendment | None:
        """Return the amendment that the observation asks for, None if all ranges can be read. Writes nothing.

        Raises:
            IdentityError: another cluster answers for a cluster of the batch.
            DataLossError, TopicIntegrityError: a topic of the batch was re-created, or is missing.
            ClusterError: a pattern's list lacks a topic that exists, or that the cluster refuses to describe.
        """
        reasons: dict[str, Reason] = {}
        left_out, removed, current = [], set(), current_ids(end, observation)
        unreadable = [self._unreadable(part, current.get(part.split.cluster), end, observation) for part in ranges]
        readable = [part for part, reason in zip(ranges, unreadable, strict=True) if reason is None]
        unsettled = self._changed.unsettled(readable, current, end, observation)
        for part, why in zip(ranges, unreadable, strict=True):
            cluster, reason = current.get(part.split.cluster), why
            if reason is None and cluster is not None and (cluster, part.split.topic) not in unsettled:
                reason = self._changed_topic(part, cluster, end, observation)
            if reason is None:
                continue
            left_out.append(part)
            if reason == "removed":
                removed.add((part.split.cluster, part.split.topic))
                # No user has taken a topic out that a pattern matches: `_check_unlisted` confirms that it is gone.
                is_matched = self._options.is_matched(part.split.topic)
                if is_matched and not self._options.fail_on_data_loss and self._state is not None:
                    reason = "recreated"
            # If a topic is removed from a cluster that does not answer, `pendingRemovedRanges` decides.
            if reasons.get(part.split.cluster) != "removed":
                reasons[part.split.cluster] = reason
        self._check_unlisted(removed, observation)
        if not left_out:
            return None
        return Amendment(end.query, end.number, *key, tuple(left_out), reasons, time.time_ns() // 1_000_000)

    def _check_unlisted(self, removed: set[tuple[str, str]], seen: Observation) -> None:
        """Raise ClusterError if a topic is removed only because one broker does not list it for `subscribePattern`."""
        unlisted = frozenset(removed_topic for removed_topic in removed if self._options.is_matched(removed_topic[1]))
        absent = self._ask(AbsentTopicsQuestion(unlisted), seen) if unlisted else frozenset()
        for cluster, topic in sorted(unlisted - absent):
            text = f"does not list the topic {topic!r} of the pending batch, but other brokers have it: start again"
            raise ClusterUnreachableError(cluster, text)

    def _unreadable(
        self, part: SplitRange, cluster: str | None, end: OffsetDocument, observation: Observation
    ) -> Reason | None:
        if cluster is None or part.split.topic not in observation.subscription.clusters[cluster].topics:
            return "removed"
        answer = observation.answers.get(cluster)
        if answer is None:
            return "unreachable"
        saved = saved_identity(end, part.split.cluster)
        if saved is not None and answer.kafka_id is not None and saved != answer.kafka_id:
            now = answer.kafka_id
            choices = identity_choices(cluster, now, pending_as=part.split.cluster)
            raise IdentityError(
                f"the pending batch holds {part} of Kafka cluster {saved}, but cluster {cluster!r} answers with {now}."
                f" {choices}"
            )
        return None

    def _changed_topic(self, part: SplitRange, cluster: str, end: OffsetDocument, seen: Observation) -> Reason | None:
        changed = self._changed.is_left_out(part, cluster, end, seen)
        # With an amendment, the next plan continues at the new topic's first offset. Without a place to record one,
        # executors compare the ids themselves.
        return "recreated" if changed and self._state is not None else None

    def _without_recreated(
        self, ranges: list[SplitRange], end: OffsetDocument, reports: Iterable[Seen]
    ) -> list[SplitRange]:
        """Leave out the ranges of which executors have read nothing in an earlier attempt, since the topic is another.

        A broker with old metadata must not let a replay read them. The next plan starts the new topic at its first
        offset, wherever the old one stands.

        Raises:
            DataLossError: there are some, and `failOnDataLoss` is set.
        """
        by_split = {report.split: report for report in reports if report.kind == TOPIC_ID}
        return [part for part in ranges if not self._changed.is_reported(part, end, by_split.get(part.split))]

    def _check_identities(self, end: OffsetDocument, observation: Observation) -> None:
        """Check the clusters that the batch does not read, too.

        Otherwise only the next plan would refuse them, after this batch was delivered.
        """
        accepted = self._state.accepted_identities(end) if self._state else {}
        # As a plan does. A renamed cluster may get an id under which another one is parked.
        progress, _ = carry_over(end, observation.subscription.clusters, observation.answers)
        for cluster, answer in sorted(observation.answers.items()):
            saved, actual, word = saved_identity(progress, cluster), answer.kafka_id, accepted.get(cluster)
            if saved and actual and actual != saved and not (word and word.covers(saved, actual)):
                choices = identity_choices(cluster, actual)
                raise IdentityError(
                    f"cluster {cluster!r} has the saved Kafka cluster.id {saved}, but its servers have {actual}."
                    f" {choices}"
                )

    def refusal(self, amendment: Amendment) -> DynamicKafkaError | None:
        """Return the error if the options do not allow an amendment, None if they do."""
        return refusal_of(amendment, self._options, is_recorded=self._state is not None)
