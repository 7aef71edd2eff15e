"""List the changes of a preview, one per topic and kind, with counts, for the tools `plan` and `accept`. Pure.

Records are counted by offsets. The counts are upper bounds, since compaction and transactions leave gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.app.tools.formatting import shown_time
from dynamic_kafka.app.tools.preview import Preview
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.losses.dataloss import DataLoss
from dynamic_kafka.planning.sameness.cluster_renames import carry_over
from dynamic_kafka.planning.sameness.identity import saved_identity
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import tool_command

Action = Literal["add", "resume", "read", "park", "expire", "rename", "forget", "skip", "wait", "refuse"]


@dataclass(frozen=True)
class Change:
    """One change, a line of the tool `plan`.

    Attributes:
        action: the kind of change; docs/how-to/tools.md explains each.
        topic: None if the whole cluster is concerned.
        records: the number of records to read, or that are gone with `skip` and `refuse`; None if unknown.
        text: the consequence in a few words.
    """

    action: Action
    cluster: str
    topic: str | None
    splits: int
    records: int | None
    text: str


def changes(preview: Preview) -> list[Change]:
    """Return the changes that the next start would make, the most important first."""
    clusters = preview.observed.subscription.clusters
    before, renamed = carry_over(preview.before, clusters, preview.observed.answers)
    planned = [Change("rename", note.cluster, None, 0, None, note.text) for note in renamed]
    planned += _refused_clusters(preview, before)
    if preview.reconciled is not None and preview.opened is not None:
        planned += _forgotten(preview, before)
        planned += _left(preview, before)
        planned += _losses(preview)
        planned += _opened(preview, preview.opened)
    return planned


def lost_records(loss: DataLoss, following: int | None) -> int | None:
    """Return the number of records that a loss costs.

    It is None if unknown: the split or its topic is gone or re-created, or its log became shorter.
    """
    if loss.recreated or loss.resume_at is None or following is None or loss.resume_at < following:
        return None
    return loss.resume_at - following


def _refused_clusters(preview: Preview, before: OffsetDocument) -> Iterator[Change]:
    for refusal in preview.refusals:
        if refusal.cluster is not None:
            yield Change("refuse", refusal.cluster, None, _count(before, refusal.cluster), None, str(refusal.error))
    for cluster, error in preview.silent.items():
        new = cluster in preview.observed.never_read and cluster not in preview.fatal
        text = f"the others are read, and this one from its start when it answers: {error}" if new else str(error)
        yield Change("wait", cluster, None, _count(before, cluster), None, text)


def _forgotten(preview: Preview, before: OffsetDocument) -> Iterator[Change]:
    for cluster, answer in sorted(preview.observed.answers.items()):
        saved = saved_identity(before, cluster)
        if saved is not None and answer.kafka_id not in (None, saved):
            text = f"another Kafka cluster ({answer.kafka_id}) was accepted: it starts as new"
            yield Change("forget", cluster, None, _count(before, cluster), None, text)


def _left(preview: Preview, before: OffsetDocument) -> Iterator[Change]:
    assert preview.reconciled is not None
    for note in preview.reconciled.notes:
        if note.topic is None or note.kind not in ("parked", "expired"):
            continue
        progress = before.any_topic(note.cluster, note.topic)
        splits = len(progress.next if progress else ())
        if note.kind == "expired":
            yield Change("expire", note.cluster, note.topic, splits, None, "its offsets are deleted")
            continue
        until = preview.reconciled.document.parked[note.cluster].topics[note.topic].until_ms
        text = f"its offsets are kept until {shown_time(until)}"
        yield Change("park", note.cluster, note.topic, splits, None, text)


def _losses(preview: Preview) -> Iterator[Change]:
    assert preview.opened is not None
    for loss in preview.losses:
        following = preview.opened.next_of(loss.split)
        refused = loss in preview.refused
        text = f"partition {loss.split.partition}: {loss.reason}"
        if refused:
            split = "/".join(map(str, loss.split))
            text += f"; to continue after it: {tool_command('accept', split, flag='--data-loss')}"
        else:
            text += f"; continues at {loss.resume_at}" if loss.resume_at is not None else "; is no longer read"
        action: Action = "refuse" if refused else "skip"
        yield Change(action, loss.split.cluster, loss.split.topic, 1, lost_records(loss, following), text)


def _opened(preview: Preview, opened: OffsetDocument) -> Iterator[Change]:
    assert preview.reconciled is not None
    lost = {loss.split for loss in preview.losses}
    new, resumed = set(preview.reconciled.new), set(preview.reconciled.resumed)
    kinds: tuple[tuple[Action, Callable[[Split], bool]], ...] = (
        ("add", lambda split: split in new),
        ("resume", lambda split: split in resumed),
        ("read", lambda split: split not in new and split not in resumed),
    )
    splits = [split for split in opened.splits() if split not in lost and split.cluster in preview.observed.answers]
    for action, belongs in kinds:
        for group in _by_topic(filter(belongs, splits)):
            yield _topic_change(preview, opened, action, group)


def _topic_change(preview: Preview, opened: OffsetDocument, action: Action, group: list[Split]) -> Change:
    cluster, topic, _ = group[0]
    seen = preview.observed.answers[cluster].topics.get(topic)
    if seen is None:
        return Change(action, cluster, topic, len(group), None, "the number of waiting records is unknown for now")
    starts = {split.partition: opened.next_of(split) or 0 for split in group}
    records = sum(max(0, seen.latest.get(p, start) - start) for p, start in starts.items())
    text = ""
    if action == "add":
        older = sum(max(0, start - seen.earliest.get(p, start)) for p, start in starts.items())
        text = f"starts after {older} older records" if older else "starts at earliest"
    elif action == "resume":
        text = "continues at its parked offsets"
    return Change(action, cluster, topic, len(group), records, text)


def _by_topic(splits: Iterable[Split]) -> list[list[Split]]:
    groups: dict[tuple[str, str], list[Split]] = {}
    for split in splits:
        groups.setdefault((split.cluster, split.topic), []).append(split)
    return list(groups.values())


def _count(document: OffsetDocument, cluster: str) -> int:
    return sum(split.cluster == cluster for split in document.splits())
