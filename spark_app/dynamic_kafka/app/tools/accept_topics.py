"""The part of `accept` about checked topics that were deleted or re-created (`planning.sameness.integrity`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynamic_kafka.app.tools.preview import Preview
from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.sameness.integrity import TopicChange
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import saved_changes


def changed_topics(
    texts: Sequence[str] | None, seen: Preview | None, state: StateLocation, document: OffsetDocument
) -> list[TopicChange]:
    """Return the changes to accept.

    Args:
        texts: the values of `--topic`; None for all changes that the current plan refuses.
        seen: the preview of the next start; None if only the checkpoint is known: then recorded verdicts count.
        document: the progress of the query.

    Raises:
        OptionError: a text names no change, or one that only metadata can accept.
    """
    known = _newest(seen.changed if seen is not None else _recorded(state, document))
    if texts is None:
        return [change for change in known if not change.pinned]
    return sorted({change for text in texts for change in _changes(text, known, offline=seen is None)})


def meaning(change: TopicChange) -> str:
    """Return the consequences of an acceptance, for the user."""
    if not change.found:
        return f"The {change}. That is accepted: its offsets are parked, and its unread records are given up"
    return f"The {change}. That is accepted: the new topic is read from its first record, in all its partitions"


def _recorded(state: StateLocation, document: OffsetDocument) -> list[TopicChange]:
    found = []
    for verdict in saved_changes(state, document.query, "verdict").values():
        reading = document.topic(verdict.cluster, verdict.topic)
        if verdict.pinned or (reading is not None and reading.topic_id == verdict.expected):
            found.append(verdict)
    return found


def _newest(changes: Sequence[TopicChange]) -> list[TopicChange]:
    """Leave out that a topic is missing if it was found to be another one, too: it is there again."""
    there = {replace(change, found="") for change in changes if change.found}
    return [change for change in changes if change not in there]


def _changes(text: str, known: Sequence[TopicChange], *, offline: bool) -> list[TopicChange]:
    name, _, given = text.partition("=")
    of_topic = [change for change in known if f"{change.cluster}/{change.topic}" == name]
    fits = [change for change in of_topic if given == "" or saved_topic_id(given) == change.found]
    if not fits:
        where = "it did not change to this id" if of_topic else "it has not changed"
        if offline:  # the topic may have been re-created since
            where = "no run has recorded such a change; give app.yaml, to ask the brokers"
        now = "; ".join(str(change) for change in known) or "no topic has changed"
        raise OptionError(
            f"--topic {text!r}: {where} ({now}); write CLUSTER/TOPIC or CLUSTER/TOPIC=ID. Nothing was done"
        )
    if pinned := next((change for change in fits if change.pinned), None):
        raise OptionError(
            f"--topic {text!r}: metadata pin the id, and only metadata accept another one. {pinned.remedy}"
        )
    # Re-created twice: a verdict about the id between would end the next start, although that id never comes back.
    return [*fits, *(change for change in of_topic if not change.pinned and change not in fits)]
