"""What one plan asks of its surroundings: the saved clusters or others, where new splits start, what is lost.

Driver only; answers `planning.batch.Edge` from the clusters' answers, the options and the query's state. Reads, never
writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from dynamic_kafka.driver.observer import Observed, RevisionRejectedError, is_bounded, starts_elsewhere
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.errors import ClusterError, DataLossError, IdentityError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.probe import EARLIEST, LATEST, resolve
from dynamic_kafka.metadata import OffsetSpec
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.dataloss import AcceptedLoss, DataLoss, describe, skip_losses
from dynamic_kafka.planning.identity import identity_problems, saved_identity
from dynamic_kafka.planning.observation import Note
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.reconcile import Reconciled, forget
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import (
    OffsetQuery,
    Resolution,
    check_positions,
    resolve_start,
    resolve_stop,
    starting_spec,
)


@dataclass(frozen=True)
class Decisions:
    """The answers for one plan.

    Attributes:
        logged: the document that the plan continues.
        observed: the look that it is made from.
        met: clusters that an earlier plan of this process has read.
        query: the id of a query that has none yet.
    """

    options: SourceOptions
    state: StateLocation | None
    status: PlanStatus
    logged: OffsetDocument
    observed: Observed
    met: frozenset[str]
    query: str

    def verify(self, progress: OffsetDocument) -> OffsetDocument:
        """Refuse clusters that are not the saved ones; forget the progress of those that a person accepted."""
        accepted: Mapping[str, str] = {}
        problems = identity_problems(progress, self.observed.answers, accepted, self.observed.subscription.clusters)
        if problems and self.state is not None:
            # Looked at only when it matters: a plan is made every trigger, and the state may be an object store.
            accepted = self.state.accepted_identities(progress.query or self.query)
            problems = identity_problems(progress, self.observed.answers, accepted, self.observed.subscription.clusters)
        if problems:
            text = "; ".join(problem.text for problem in problems)
            raise RevisionRejectedError(IdentityError(text), self.observed)
        for cluster, answer in self.observed.answers.items():
            # A slow answer may be to an earlier question: what metadata has named meanwhile is what counts.
            absent = sorted(
                topic
                for topic in answer.missing & self.observed.subscription.clusters[cluster].topics.keys()
                if progress.topic(cluster, topic) is None
                and topic not in (progress.parked[cluster].topics if cluster in progress.parked else {})
            )
            if absent and (cluster not in self.met or self.observed.new_revision):
                error = ClusterError(
                    cluster,
                    f"has no topic {', '.join(map(repr, absent))}: create it, or take it out of the stream",
                )
                raise RevisionRejectedError(error, self.observed)
            unclear = sorted(
                set(self.observed.subscription.clusters[cluster].topics) - answer.topics.keys() - answer.missing
            )
            if unclear and self.logged.is_initial:
                self._refuse_unclear(cluster, unclear[0])
            if answer.kafka_id is None:
                text = f"cluster {cluster!r} tells no cluster.id: that it is still the same one cannot be checked"
                self.status.once(logging.WARNING, "no-id", cluster, text=text)
        swapped = {
            cluster
            for cluster, answer in self.observed.answers.items()
            # A cluster that tells no id was accepted by nobody, and keeps its progress.
            if answer.kafka_id is not None
            and accepted.get(cluster) == answer.kafka_id
            and saved_identity(progress, cluster) not in (None, answer.kafka_id)
        }
        return forget(progress, swapped) if swapped else progress

    def _refuse_unclear(self, cluster: str, topic: str) -> None:
        """A first plan that may not miss a topic does not wait for it: whoever starts the query tries again."""
        if is_bounded(self.options, self.observed.subscription):
            why = "a bounded run finds all its topics in its first plan, so it would be left out"
        elif starts_elsewhere(self.options, self.observed.subscription, cluster):
            why = "found later, it would be read from its first record, not from where this query is to start"
        else:
            return
        told = f"lists the topic {topic!r} but does not describe it (it is being created or moved): {why}"
        raise ClusterError(cluster, f"{told}. Start again in a moment")

    def resolve(self, done: Reconciled) -> tuple[dict[Split, int], dict[Split, int]]:
        """Starts of new splits, and stops of splits that should have one: numbers that the document then keeps."""
        options, logged, observed = self.options, self.logged, self.observed
        clusters = observed.subscription.clusters
        if logged.is_initial:
            seen = {c: {name: t.latest for name, t in answer.topics.items()} for c, answer in observed.answers.items()}
            check_positions(options, {**dict.fromkeys(clusters), **seen})
        starts: dict[Split, Resolution] = {}
        for split, new_topic in done.new.items():
            own = clusters[split.cluster].starting_offsets
            spec = starting_spec(
                first_plan=logged.is_initial,
                new_topic=new_topic,
                configured=options.starting_for(split.cluster),
                own=own,
                anew=split in done.anew,
            )
            starts[split] = resolve_start(
                spec,
                split,
                lenient=not logged.is_initial or (own is not None and spec.kind == "timestamp"),
                strategy=options.starting_strategy,
                strict=logged.is_initial and own is None,
            )
        stops: dict[Split, Resolution] = {}
        candidates: dict[Split, bool] = {}
        if self._has_stops(observed.subscription):
            candidates = dict.fromkeys(done.document.splits(), True) | dict(done.new)
        for split in candidates:
            own = clusters[split.cluster].stopping_offsets if split.cluster in clusters else None
            ending = own or options.ending_for(split.cluster)
            topic = done.document.topic(split.cluster, split.topic)
            if ending is not None and _is_seen(observed, split) and not (topic and split.partition in topic.stops):
                stops[split] = resolve_stop(ending, split, strict=logged.is_initial and own is None)
        self._tell_of_kept_stops(done.document)
        return self._numbers(starts), self._numbers(stops)

    def _tell_of_kept_stops(self, document: OffsetDocument) -> None:
        """A stop is resolved once. Whoever takes it back, or moves it, in a query that goes on would wait in vain."""
        clusters = self.observed.subscription.clusters
        stopped = [
            (cluster, name, topic.stops)
            for cluster in clusters.keys() & document.clusters.keys()
            for name, topic in document.clusters[cluster].topics.items()
            if topic.stops
        ]
        for cluster, name, stops in sorted(stopped, key=lambda found: found[:2]):
            ending = clusters[cluster].stopping_offsets or self.options.ending_for(cluster)
            key = ("kept-stop", cluster, name)
            # What bounded a run may be gone while it goes on: it ends where it would have ended.
            if (document.bounded and ending is None) or not any(
                _differs(ending, Split(cluster, name, p), stop) for p, stop in stops.items()
            ):
                self.status.forget(*key)
                continue
            has = "other stopping offsets" if ending else "no stopping offsets any more"
            who = "metadata has" if clusters[cluster].stopping_offsets or not ending else "the options have"
            text = (
                f"{who} {has} for topic {name!r} of cluster {cluster!r}, but those that were resolved when it"
                " was first read stay: nothing behind them is read. To read on, start a query with a new checkpoint"
            )
            self.status.once(logging.WARNING, *key, text=text)

    def _has_stops(self, subscription: Subscription) -> bool:
        return self.options.ending is not None or any(c.stopping_offsets for c in subscription.clusters.values())

    def _numbers(self, wanted: Mapping[Split, Resolution]) -> dict[Split, int]:
        numbers = {split: offset for split, offset in wanted.items() if isinstance(offset, int)}
        queries: dict[Split, OffsetQuery] = {}
        ends: dict[Split, int] = {}
        for split, query in wanted.items():
            if isinstance(query, int):
                continue
            seen = self.observed.answers[split.cluster].topics[split.topic]
            if query.kind == "latest":
                numbers[split] = seen.latest[split.partition]
            elif query.kind == "earliest" and split.partition in seen.earliest:
                numbers[split] = seen.earliest[split.partition]
            else:
                queries[split] = query
                ends[split] = seen.latest[split.partition]
        if queries:
            numbers |= resolve(self.observed.probes, queries, self.options.group_id, ends)
        return numbers

    def accept(self, opened: OffsetDocument, losses: list[DataLoss]) -> tuple[OffsetDocument, list[Note]]:
        """Refuse losses that nobody accepted; otherwise go on behind them."""
        losses = self.really_lost(opened, losses)
        refused = self.not_accepted(opened, losses)
        if refused:
            anew = any(loss.recreated for loss in refused)
            raise DataLossError(
                f"data loss: {describe(refused)}. Restore the records, or accept the loss once with"
                " `python -m dynamic_kafka.app accept app.yaml --data-loss`, or for good with failOnDataLoss=false"
                f"{'; a topic that was re-created is then read from its first record' if anew else ''}"
            )
        # Where a re-created topic begins is asked now only: first offsets are known of clusters just opened.
        begins = {loss.split: EARLIEST for loss in losses if loss.recreated and loss.resume_at is not None}
        first = self._numbers(begins)
        losses = [
            replace(loss, resume_at=first.get(loss.split, loss.resume_at)) for loss in self.as_said(opened, losses)
        ]
        notes = [Note("data-loss", loss.split.cluster, f"data loss accepted: {describe([loss])}") for loss in losses]
        return skip_losses(opened, losses), notes

    def really_lost(self, opened: OffsetDocument, losses: list[DataLoss]) -> list[DataLoss]:
        """The losses without splits whose records are only not to be seen: read before their cluster was to be read by
        committed records, they are behind the beginning of a transaction that is still open. And without those that
        start at a commit, or at a record, that is newer than the look: they have no past that could be lost."""
        behind: dict[str, dict[Split, int]] = {}
        for loss in losses:
            following = opened.next_of(loss.split)
            past_end = following is not None and loss.resume_at is not None and following > loss.resume_at
            if following is not None and past_end and not loss.recreated:
                behind.setdefault(loss.split.cluster, {})[loss.split] = following
        asked = {
            cluster: self.observed.probes[cluster].ask(
                partial(
                    _ends_for_everyone,
                    splits=tuple(splits),
                    new=frozenset(split for split, start in splits.items() if self._is_new(split, start)),
                )
            )
            for cluster, splits in behind.items()
        }
        hidden = {
            split
            for cluster, future in asked.items()
            for split, end in future.result().items()
            if behind[cluster][split] <= end
        }
        return [loss for loss in losses if loss.split not in hidden]

    def _is_new(self, split: Split, start: int) -> bool:
        """Whether it has no past: it is not read, and does not go on where it was parked."""
        parked = self.logged.parked.get(split.cluster)
        kept = parked.topics.get(split.topic) if parked is not None else None
        was = kept.next.get(split.partition) if kept is not None else None
        return self.logged.next_of(split) is None and was != start

    def not_accepted(self, opened: OffsetDocument, losses: list[DataLoss]) -> list[DataLoss]:
        """Those of the losses that end the query."""
        accepted = self._accepted(opened, losses)
        return [loss for loss in losses if loss.split not in accepted] if self.options.fail_on_data_loss else []

    def as_said(self, opened: OffsetDocument, losses: list[DataLoss]) -> list[DataLoss]:
        """The losses with where a person has accepted that reading goes on, as far as they have."""
        said = self._accepted(opened, losses)
        return [
            replace(loss, resume_at=said[loss.split].goes_on_at(loss, self._first(loss.split)))
            if loss.split in said
            else loss
            for loss in losses
        ]

    def _first(self, split: Split) -> int:
        """The first offset that is there, 0 where it was not asked for."""
        answer = self.observed.answers.get(split.cluster)
        seen = answer.topics.get(split.topic) if answer is not None else None
        return seen.earliest.get(split.partition, 0) if seen is not None else 0

    def _accepted(self, opened: OffsetDocument, losses: list[DataLoss]) -> dict[Split, AcceptedLoss]:
        """What a person has said of these losses; looked up only where it matters, as in `verify`."""
        if not losses or self.state is None or not self.options.fail_on_data_loss:
            return {}
        said = self.state.accepted_losses(opened.query or self.query)
        active = set(self.logged.splits())
        return {
            loss.split: said[loss.split]
            for loss in losses
            if loss.split in said
            and said[loss.split].covers(
                loss,
                opened.next_of(loss.split),
                self.logged.number if loss.split in active else None,
                opened.epoch_of(loss.split),
            )
        }


def _ends_for_everyone(admin: ClusterAdmin, splits: tuple[Split, ...], new: frozenset[Split]) -> dict[Split, int]:
    """High watermarks, where planning goes by last stable offsets; those of new splits in any case."""
    asked = [split for split in splits if admin.read_committed or split in new]
    if not asked:
        return {}
    found = admin.offsets({(split.topic, split.partition): LATEST for split in asked}, uncommitted=True)
    return {split: found[split.topic, split.partition][0] for split in asked}


def _differs(ending: OffsetSpec | None, split: Split, stop: int) -> bool:
    """Whether a stop that is kept is certainly another one than the rule has now. Of "latest", or a time, nobody asks
    again."""
    now = resolve_stop(ending, split) if ending is not None else None
    return now is None or (isinstance(now, int) and now != stop)


def _is_seen(observed: Observed, split: Split) -> bool:
    answer = observed.answers.get(split.cluster)
    topic = answer.topics.get(split.topic) if answer else None
    return topic is not None and split.partition in topic.latest
