"""Replay a batch that was planned but not committed: the same ranges exactly, but for what is durably left out.

Driver only, part of the enumerator. Spark hands a batch back as its two documents; the ranges come from those alone.
What metadata names no longer, or what does not answer under `clusterFailurePolicy=stall`, is left out by an amendment:
decided once, written before the batch runs, and obeyed by every later replay of the same batch, so that two replays
never read different ranges. If the process dies before the write, the next run decides anew and nothing was read; if it
dies after it, the next run obeys.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import (
    ClusterUnreachableError,
    DataLossError,
    DynamicKafkaError,
    IdentityError,
    OffsetDocumentError,
    PendingRangesError,
    StaleCheckpointError,
)
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.amendments import Amendment, Amendments, Reason
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.dataloss import is_recreated
from dynamic_kafka.planning.identity import choices, saved_identity
from dynamic_kafka.planning.observation import Observation, TopicObservation
from dynamic_kafka.planning.plan import ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import SplitRange

CHOICES = (
    "Choices: name the cluster and topic again until the batch is done (state Draining is enough), set stateLocation"
    " with pendingRemovedRanges=filter, or leave the ranges out once with"
    " `python -m dynamic_kafka.app abandon app.yaml CLUSTER`"
)
"""What a user can do about a pending batch whose ranges metadata no longer names."""

_TOLD: Mapping[Reason, str] = {
    "removed": "cluster removed",
    "unreachable": "cluster unreachable",
    "recreated": "topic re-created",
    "abandoned": "cluster abandoned",
}

log = logging.getLogger(__name__)


class Replays:
    """The amendments of one query, and the decision to make one.

    Args:
        options: the source's options.
        state: where amendments are kept; None when there is no `stateLocation`.
        look: looks at the observation; raises under `clusterFailurePolicy=fail` when a cluster does not answer.

    Attributes:
        amendments: those that were restored or made so far.
    """

    def __init__(self, options: SourceOptions, state: StateLocation | None, observe: Callable[[], Observation]) -> None:
        self._options, self._state, self._observe = options, state, observe
        self.amendments = Amendments()
        self._settled: set[tuple[str, str]] = set()
        self._restored = False
        self._later: list[Amendment] = []

    def restore(self, document: OffsetDocument) -> None:
        """Load the query's amendments, with the first saved document that this process sees.

        Raises:
            StaleCheckpointError: an amendment belongs to a later batch than the checkpoint knows.
        """
        if self._restored:
            return
        self._restored = True
        self._log_restored(document)
        if self._state is None or not document.query:
            return
        found = self._state.amendments(document.query)
        later = [amendment for amendment in found if amendment.number > document.number]
        if later and not self._options.allow_old_checkpoint:
            newest = max(amendment.number for amendment in later)
            raise StaleCheckpointError(
                f"the checkpoint ends at document {document.number} of query {document.query}, but {self._state.uri}"
                f" holds an amendment of document {newest}: the checkpoint was restored from a backup and is older"
                " than what this query has done since. Restore the newer checkpoint, start with a new one, or set"
                " allowOldCheckpoint=true to go on and read again what came after it; not with a file sink, which skips"
                " the batches that it has by number, new records among them"
            )
        for amendment in found:
            if amendment.number <= document.number:
                self.amendments.add(amendment)
        self._later = later

    def planned(self, start: OffsetDocument, end: OffsetDocument) -> None:
        """This process planned the batch just now: its metadata is fresh, nothing has to be checked again.

        If a person has gone back to before amendments, the batch may be the very one that they speak of. Planned anew
        it reads all of its ranges, and they are obeyed no more; that is written down before Spark knows of the batch.
        Not earlier: the checkpoint that they belong to may be put back.
        """
        key = (fingerprint(start), fingerprint(end))
        undone = [amendment for amendment in self._later if (amendment.start, amendment.end) == key]
        if undone and self._state is not None:
            self._state.undo_amendments(end.query, undone)
            log.warning("%d amendments of the batch of document %d are obeyed no more", len(undone), end.number)
        self._settled = {key}

    def ranges(self, start: OffsetDocument, end: OffsetDocument) -> list[SplitRange]:
        """The ranges to read for a batch, however often Spark asks.

        Raises:
            PendingRangesError: metadata no longer names a cluster of the batch, and nothing may be left out.
            IdentityError: a saved cluster is answered by another one, whether the batch reads it or not.
            DataLossError: a topic of the batch was re-created since it was planned.
        """
        key = (fingerprint(start), fingerprint(end))
        if key[0] == key[1]:
            return []  # a document leads nowhere by itself; its starts are those of the batch that ended with it
        if end.previous not in ("", key[0]):
            raise OffsetDocumentError(
                f"the offset document {end.number} does not follow the one that Spark names before it ({start.number}):"
                " the checkpoint was edited or mixed up; restore it, or start with a new one"
            )
        ranges = ranges_between(start, end)
        remaining = self.amendments.remaining(ranges, key)
        if key not in self._settled and remaining:
            # An earlier replay's amendment is obeyed; what has gone since then needs one more.
            self._decide(remaining, end, key)
            remaining = self.amendments.remaining(ranges, key)
        self._settled.add(key)
        return remaining

    def is_settled(self, start: OffsetDocument, end: OffsetDocument) -> bool:
        """Whether this process has planned or decided the batch already."""
        return (fingerprint(start), fingerprint(end)) in self._settled

    def _decide(self, ranges: list[SplitRange], end: OffsetDocument, key: tuple[str, str]) -> None:
        """Make an amendment for the ranges that cannot be read any more, if there are any."""
        log.info("replaying batch of document %d: %d ranges", end.number, len(ranges))
        observation = self._observe()
        amendment = self.judge(ranges, end, key, observation)
        self._check_identities(end, observation)
        if amendment is None:
            return
        refusal = self.refusal(amendment)
        if refusal is not None:
            raise refusal
        assert self._state is not None
        self._state.save_amendment(amendment)
        self.amendments.add(amendment)
        for part in amendment.left_out:
            log.warning(
                "left out of the pending batch, possibly delivered by an earlier attempt: %s (%s)",
                part,
                _TOLD[amendment.reasons[part.split.cluster]],
            )

    def judge(
        self, ranges: list[SplitRange], end: OffsetDocument, key: tuple[str, str], observation: Observation
    ) -> Amendment | None:
        """The amendment that the observation asks for, None if all ranges can be read. Writes nothing.

        Raises:
            IdentityError: a cluster of the batch is answered by another one.
            DataLossError: a topic of the batch was re-created.
        """
        reasons: dict[str, Reason] = {}
        left_out = []
        for part in ranges:
            reason = self._reason(part, end, observation)
            if reason is None:
                continue
            left_out.append(part)
            # A topic may be removed from a cluster that does not answer either: `pendingRemovedRanges` decides then.
            if reasons.get(part.split.cluster) != "removed":
                reasons[part.split.cluster] = reason
        if not left_out:
            return None
        return Amendment(end.query, end.number, *key, tuple(left_out), reasons, time.time_ns() // 1_000_000)

    def _reason(self, part: SplitRange, end: OffsetDocument, observation: Observation) -> Reason | None:
        cluster = named_as(observation.subscription, part.split.cluster)
        if cluster is None or part.split.topic not in observation.subscription.clusters[cluster].topics:
            return "removed"
        answer = observation.answers.get(cluster)
        if answer is None:
            return "unreachable"
        saved = saved_identity(end, part.split.cluster)
        if saved is not None and answer.kafka_id is not None and saved != answer.kafka_id:
            raise IdentityError(
                f"the pending batch holds {part} of Kafka cluster {saved}, but the servers of cluster {cluster!r}"
                f" answer with {answer.kafka_id}. {choices(cluster, answer.kafka_id, pending_as=part.split.cluster)}"
            )
        return self._recreated(part, end, answer.topics.get(part.split.topic))

    def _recreated(self, part: SplitRange, end: OffsetDocument, seen: TopicObservation | None) -> Reason | None:
        """Offsets of a topic mean nothing in the one that has taken its name: other records stand there."""
        planned = end.topic(part.split.cluster, part.split.topic)
        if planned is None or seen is None or not is_recreated(planned.topic_id, seen.topic_id):
            return None
        if self._options.fail_on_data_loss:
            topic = "/".join(part.split[:2])
            raise DataLossError(
                f"data loss: the pending batch holds {part}, but the topic was re-created (id {planned.topic_id}, now"
                f" {seen.topic_id}): these offsets belong to the old one. Leave them out with"
                f" `python -m dynamic_kafka.app abandon app.yaml {topic}`, then accept the loss with"
                " `python -m dynamic_kafka.app accept app.yaml --data-loss`: the new topic is read from its first"
                " record. Or accept all losses, always, with failOnDataLoss=false"
            )
        # Left out, the next plan goes on at the new topic's first offset; where that cannot be recorded, what stands
        # at the old offsets is read, and once more by the next plan: not exact, but no record is lost.
        return "recreated" if self._state is not None and end.query else None

    def _check_identities(self, end: OffsetDocument, observation: Observation) -> None:
        """The clusters that the batch does not read: the next plan would refuse them, with this batch delivered."""
        accepted = self._state.accepted_identities(end.query) if self._state else {}
        for saved_as in sorted({*end.clusters, *end.parked}):
            cluster, saved = named_as(observation.subscription, saved_as), saved_identity(end, saved_as)
            answer = observation.answers.get(cluster) if cluster else None
            found = answer.kafka_id if answer else None
            if cluster and saved and found and found not in (saved, accepted.get(cluster)):
                raise IdentityError(
                    f"cluster {cluster!r} has the saved Kafka cluster.id {saved}, but its servers answer with {found}:"
                    f" the pending batch is not read. {choices(cluster, found)}"
                )

    def refusal(self, amendment: Amendment) -> DynamicKafkaError | None:
        """Why the options do not allow an amendment, None if they do."""
        left_out, reasons = amendment.left_out, amendment.reasons
        named = ", ".join(map(str, left_out[:10])) + (f" and {len(left_out) - 10} more" if len(left_out) > 10 else "")
        unreachable = sorted(cluster for cluster, reason in reasons.items() if reason == "unreachable")
        unrecorded = None
        if self._state is None:
            unrecorded = "there is no stateLocation to record it"
        elif not amendment.query:
            unrecorded = "version 1 has planned the batch, and names no query to record it for"
        if unreachable and unrecorded:
            return ClusterUnreachableError(
                unreachable[0],
                f"does not answer, and the pending batch needs it: {named}. Its ranges are not left out, since"
                f" {unrecorded}. Bring the cluster back, and start again",
            )
        removed = "removed" in reasons.values()
        if removed and (unrecorded or self._options.pending_removed_ranges == "refuse"):
            return PendingRangesError(
                f"the batch that was planned before the restart reads ranges that metadata no longer names: {named}."
                f" They are not left out, since {unrecorded or 'pendingRemovedRanges=refuse'}. {CHOICES}"
            )
        return None

    def _log_restored(self, document: OffsetDocument) -> None:
        if document.is_initial:
            return
        for cluster, progress in sorted(document.clusters.items()):
            for name, topic in sorted(progress.topics.items()):
                offsets = ", ".join(f"{p}: {topic.next[p]}" for p in sorted(topic.next)[:32])
                more = f" and {len(topic.next) - 32} more" if len(topic.next) > 32 else ""
                log.info("restored offsets of %s/%s: {%s}%s", cluster, name, offsets, more)
        for cluster, parked in sorted(document.parked.items()):
            log.info("restored parked topics of %s: %s", cluster, ", ".join(sorted(parked.topics)))


def named_as(subscription: Subscription, cluster: str) -> str | None:
    """The id under which metadata names a cluster of a saved document now: its own, or the one it was renamed to."""
    if cluster in subscription.clusters:
        return cluster
    return next((new for new, named in subscription.clusters.items() if named.renamed_from == cluster), None)
