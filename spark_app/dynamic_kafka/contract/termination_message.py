"""The termination message: the JSON in which a driver's container leaves its exit code and reason to Kubernetes.

This module owns the form of the message and nothing else. The application writes it (`dynamic_kafka.app.outcome`), the
kubelet keeps it in the pod's status, and the operator reads it there. Pure.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, ValidationError
from pydantic.alias_generators import to_camel

from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.wording import counted

MAX_BYTES = 3000
"""Kubernetes keeps only the last 4096 bytes. The condition that quotes the reason has 4096 characters, too."""


class _MessagePart(BaseModel):
    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class ChangedTopic(_MessagePart):
    """A topic that is another one now, or missing. `expected` is its id from before, as Kafka's tools print it."""

    cluster: str
    topic: str
    expected: str


class TerminationMessage(_MessagePart):
    """The end of a driver.

    Attributes:
        code: the exit code.
        reason: the reason in words, without secrets.
        finished: whether a further start of the application reads nothing.
        changed_topics: the topics because of which the driver has ended for good.
        more_topics: the number of further ones, for which there was no room.
    """

    code: StrictInt
    reason: str
    finished: StrictBool = False
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
            return cls.model_validate_json(text)
        except ValidationError:
            return None

    def text(self) -> str:
        """Return the text for the container's termination log. Topics without room are counted; the reason is cut."""
        message = self.model_copy(update={"reason": self.reason.encode(errors="replace").decode()})
        while len((text := message._json()).encode()) > MAX_BYTES:
            if message.changed_topics:
                fewer = {"changed_topics": message.changed_topics[:-1], "more_topics": message.more_topics + 1}
                message = message.model_copy(update=fewer)
            else:
                excess = len(text.encode()) - MAX_BYTES
                message = message.model_copy(update={"reason": message.reason[: -max(1, excess // 6)]})
        return text

    def _json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_defaults=True)
