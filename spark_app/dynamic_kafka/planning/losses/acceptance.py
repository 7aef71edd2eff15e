"""The judgement of data losses that a plan found: refuse them, or continue behind them.

Pure. `planning.plan` calls `judge_losses` in each plan in which `planning.losses.dataloss` found losses. It has three
steps:

1. Drop the losses whose records still exist (`_without_hidden`).
2. Look up which of the others a user accepted with the tool `accept` (`_accepted`, `AcceptedLoss.covers`).
3. Refuse those that nobody accepted, if `failOnDataLoss` is set; continue behind the others (`AcceptedLoss.resume_at`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.losses.dataloss import DataLoss, describe, skip_losses
from dynamic_kafka.planning.observation import Note, observed_topic
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import AcceptedLossesQuestion, HighWatermarksQuestion, Steps
from dynamic_kafka.planning.resolution import look_up
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery
from dynamic_kafka.wording import tool_command


@dataclass(frozen=True)
class LossOutcome:
    """The outcome of one plan's data losses.

    Attributes:
        document: progress behind the losses.
        losses: the real losses, without those that turned out to be none.
        refused: those of them that no user accepted.
    """

    document: OffsetDocument
    losses: tuple[DataLoss, ...] = ()
    refused: tuple[DataLoss, ...] = ()
    notes: tuple[Note, ...] = ()


def judge_losses(
    given: PlanInput,
    opened: OffsetDocument,
    all_losses: Sequence[DataLoss],
    changed: Collection[tuple[str, str]] = (),
) -> Steps[LossOutcome]:
    """Refuse losses that no user accepted; otherwise continue behind them.

    Args:
        opened: progress with new splits opened.
        changed: (cluster, topic) of the topics whose deletion or re-creation a user accepted.

    Raises:
        DataLossError: a loss is refused, and `given.refuse_losses` is set.
    """
    losses = yield from _without_hidden(given, opened, all_losses)
    open_losses = [loss for loss in losses if not (_is_change(loss) and loss.split[:2] in changed)]
    accepted = yield from _accepted(given, opened, open_losses)
    refused = [loss for loss in open_losses if loss.split not in accepted] if given.options.fail_on_data_loss else []
    if refused and given.refuse_losses:
        recreated = any(loss.recreated for loss in refused)
        lost, accept = describe(refused), tool_command("accept", flag="--data-loss")
        then = "; a re-created topic is then read from its first record" if recreated else ""
        raise DataLossError(f"data loss: {lost}. Restore the records, or accept the loss once with {accept}{then}")
    # The observation has first offsets only of clusters that were just opened. A re-created topic needs its own now.
    anew = {loss.split: OffsetQuery("earliest") for loss in losses if loss.recreated and loss.resume_at is not None}
    firsts = yield from look_up(given, anew)
    skipped = [
        replace(loss, resume_at=firsts.get(loss.split, _resume_at(given, accepted.get(loss.split), loss)))
        for loss in losses
    ]
    notes = [Note("data-loss", loss.split.cluster, f"data loss accepted: {describe([loss])}") for loss in skipped]
    until_ms = given.now_ms + given.options.removed_cluster_retention_ms
    return LossOutcome(skip_losses(opened, skipped, until_ms), tuple(losses), tuple(refused), tuple(notes))


def _is_change(loss: DataLoss) -> bool:
    return loss.recreated or loss.missing


@dataclass(frozen=True)
class AcceptedLoss:
    """A user's acceptance of one data loss: the records of one split behind one offset of one topic.

    Attributes:
        offset: the split's next offset when the user accepted the loss.
        topic_id: None where the cluster reports no ids.
        to: where reading continues, as shown to the user; None if that was unknown.
        document: number of the offset document at that time; None in an acceptance from an early version.
        epoch: leader epoch of `offset` in that document, None if it had none.
        kind: the kind of the loss, None if no broker was asked or an early version wrote the acceptance.
    """

    offset: int
    topic_id: str | None = None
    to: int | None = None
    document: int | None = None
    epoch: int | None = None
    kind: str | None = None

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> AcceptedLoss:
        """Return the acceptance that a file holds; LookupError, TypeError or ValueError if it is damaged."""
        # Early versions wrote null for offset 0, and for no other one.
        offset = int(wire["from"] or 0)
        return cls(
            offset, wire.get("topicId"), wire.get("to"), wire.get("document"), wire.get("epoch"), wire.get("loss")
        )

    def to_wire(self, split: Split) -> dict[str, Any]:
        """Return the content of the file that accepts this loss of `split`."""
        return {
            "kind": "data-loss",
            "cluster": split.cluster,
            "topic": split.topic,
            "partition": split.partition,
            "topicId": self.topic_id,
            "from": self.offset,
            "to": self.to,
            "document": self.document,
            "epoch": self.epoch,
            "loss": self.kind,
        }

    def covers(self, loss: DataLoss, following: int | None, document: int, epoch: int | None) -> bool:
        """Return whether `loss` is the accepted one, not another one of the same offset.

        A later loss may happen there: behind the end of a log that was cut off, reading may reach the offset again,
        under another leader epoch, and the topic may be re-created then.

        Args:
            following: the split's next offset.
            document: number of the last document.
            epoch: leader epoch of the split's next offset.
        """
        same_topic = self.topic_id == loss.topic_id or (self.topic_id is None and not loss.recreated)
        if self.offset != following or not same_topic or self.kind not in (None, loss.kind(self.offset)):
            return False
        # One offset of one topic expires once, and one topic is re-created once; only a cut-off may come again. Without
        # an id the topic may be another one, which has reached the same offset.
        if self.topic_id is not None and self.kind not in (None, "truncated"):
            return True
        # Documents may have followed the acceptance while the split's own cluster did not answer.
        if self.epoch is not None and epoch is not None:
            return self.epoch == epoch
        return self.document == document

    def resume_at(self, loss: DataLoss, first: int = 0) -> int | None:
        """Return where reading continues behind a loss that this acceptance covers; None if the split is gone.

        Records that arrived in a log that was cut off, after the user saw its end, were not given up: reading
        continues at the accepted end. It does not go back before `first`, the first available offset: records before
        it have expired since.
        """
        if self.to is None or loss.resume_at is None or loss.kind(self.offset) != "truncated":
            return loss.resume_at
        return max(first, min(self.to, loss.resume_at))


def _without_hidden(given: PlanInput, opened: OffsetDocument, losses: Sequence[DataLoss]) -> Steps[list[DataLoss]]:
    """Drop losses whose records still exist, which the high watermark shows.

    Two kinds of splits are past the observed end, although no record is lost:

    - An open transaction hides records from readers with `read_committed`, and the cluster was read with
      `read_uncommitted` before.
    - A new split starts at a commit or a record that is newer than the observation.
    """
    past_end: dict[Split, int] = {}
    for loss in losses:
        following = opened.next_of(loss.split)
        # Leader epochs show a truncation for certain.
        if loss.recreated or loss.truncated or following is None or loss.resume_at is None:
            continue
        if following > loss.resume_at:
            past_end[loss.split] = following
    if not past_end:
        return list(losses)
    new = frozenset(split for split, start in past_end.items() if _was_never_read(given.logged, split, start))
    ends = yield HighWatermarksQuestion(frozenset(past_end), new)
    return [loss for loss in losses if loss.split not in ends or past_end[loss.split] > ends[loss.split]]


def _was_never_read(logged: OffsetDocument, split: Split, start: int) -> bool:
    """Return whether a split is neither active in `logged` nor resumes where it is parked there."""
    kept = logged.parked_topic(split.cluster, split.topic)
    parked_at = kept.progress.next.get(split.partition) if kept is not None else None
    return logged.next_of(split) is None and parked_at != start


def _accepted(
    given: PlanInput, opened: OffsetDocument, losses: Collection[DataLoss]
) -> Steps[dict[Split, AcceptedLoss]]:
    """Return the acceptances that cover these losses, by split."""
    if not losses or not given.options.fail_on_data_loss:
        return {}
    by_split = yield AcceptedLossesQuestion(given.query)
    return {
        loss.split: by_split[loss.split]
        for loss in losses
        if loss.split in by_split
        and by_split[loss.split].covers(
            loss,
            opened.next_of(loss.split),
            given.logged.number,
            opened.epoch_of(loss.split),
        )
    }


def _resume_at(given: PlanInput, accepted: AcceptedLoss | None, loss: DataLoss) -> int | None:
    if accepted is None:
        return loss.resume_at
    seen = observed_topic(given.observation.answers, loss.split.cluster, loss.split.topic)
    return accepted.resume_at(loss, seen.earliest.get(loss.split.partition, 0) if seen is not None else 0)
