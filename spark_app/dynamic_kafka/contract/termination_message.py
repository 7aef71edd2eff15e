"""The termination message: the JSON in which a driver's container leaves its exit code and reason to Kubernetes.

This module owns the form of the message and nothing else. The application writes it (`dynamic_kafka.app.outcome`), the
kubelet keeps it in the pod's status, and the operator reads it there. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.wording import counted

MAX_BYTES = 2000
"""A kubelet keeps at most 4096 bytes of a message, and 12 KiB of those of all containers of a pod."""


class ChangedTopic(NamedTuple):
    """A topic that is another one now, or missing. `expected` is its id from before, as Kafka's tools print it."""

    cluster: str
    topic: str
    expected: str


@dataclass(frozen=True)
class TerminationMessage:
    """The end of a driver.

    Attributes:
        code: the exit code.
        reason: the reason in words, without secrets.
        finished: whether a further start of the application reads nothing.
        changed_topics: the topics because of which the driver has ended for good.
        more_topics: the number of further ones, for which there was no room.
    """

    code: int
    reason: str
    finished: bool = False
    changed_topics: tuple[ChangedTopic, ...] = ()
    more_topics: int = 0

    @classmethod
    def of_finished(cls, sinks: int, splits: int) -> TerminationMessage:
        """Return the message of a driver that has read everything, so that a further start reads nothing."""
        reason = f"finished for good: {counted(sinks, 'sink')}, {counted(splits, 'split')} read to the end"
        return cls(code=ExitCode.DONE, reason=reason, finished=True)

    @classmethod
    def parse(cls, text: str) -> TerminationMessage | None:
        """Return the message in a text; None if the text is of another program."""
        try:
            wire = json.loads(text)
            return cls(
                code=_number(wire["code"], most=255),
                reason=_text(wire["reason"]),
                finished=wire.get("finished") is True,
                changed_topics=tuple(_changed(topic) for topic in wire.get("changedTopics", ())),
                more_topics=_number(wire.get("moreTopics", 0), most=1_000_000),
            )
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None

    def text(self) -> str:
        """Return the text for the container's termination log. Topics without room are counted; the reason is cut."""
        message = replace(self, reason=_text(self.reason))
        while len((text := message._json()).encode()) > MAX_BYTES:
            if message.changed_topics:
                topics = message.changed_topics[:-1]
                message = replace(message, changed_topics=topics, more_topics=message.more_topics + 1)
            else:
                excess = len(text.encode()) - MAX_BYTES
                message = replace(message, reason=message.reason[: -max(1, excess // 6)])
        return text

    def _json(self) -> str:
        wire: dict[str, Any] = {"code": int(self.code), "reason": self.reason}
        wire |= {"finished": True} if self.finished else {}
        wire |= {"changedTopics": [topic._asdict() for topic in self.changed_topics]} if self.changed_topics else {}
        wire |= {"moreTopics": self.more_topics} if self.more_topics else {}
        return json.dumps(wire, ensure_ascii=False, separators=(",", ":"))


def _changed(wire: Mapping[str, Any]) -> ChangedTopic:
    return ChangedTopic(*(_text(wire[name]) for name in ChangedTopic._fields))


def _number(value: object, *, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError
    return value


def _text(value: object) -> str:
    """Return a text without lone surrogates, which no other JSON may hold."""
    return str(value).encode(errors="replace").decode()
