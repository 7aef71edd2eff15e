"""A driver that has ended for good because a topic was deleted or re-created, and what accepts that. Pure.

The bundled application ends with an exit code of its own, and writes its reason into the termination message of its
container. A topic's change stands until the streams pin the topic to another id than the one from before, or do not
have it any more. The operator cannot see what the tool `accept` records, nor topics for which the message had no room.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynamic_kafka.metadata.termination_message import TerminationMessage
from dynamic_kafka.wording import without_secrets
from kafkastream_operator.core.document import Streams, entries
from kafkastream_operator.core.exit_codes import TOPIC_INTEGRITY

_ERROR = "TopicIntegrityError: "
_NAME = r"(?:'([^']+)'|\"([^\"]+)\")"
_CHANGE = re.compile(rf"topic {_NAME} of cluster {_NAME} (?:was re-created|is missing) \(id ([\w-]+)[,)]")
_MORE = re.compile(r"; (\d+) more topics?: ")


@dataclass(frozen=True)
class ChangedTopic:
    """A topic that is another one now, or missing. `expected` is its id from before, as Kafka's tools print it."""

    cluster: str
    topic: str
    expected: str


@dataclass(frozen=True)
class TopicVerdict:
    """The reason why a driver has ended for good.

    Attributes:
        text: the application's own words, in one line and without secrets.
        more: the number of changed topics for which the message had no room.
    """

    text: str
    changed: tuple[ChangedTopic, ...]
    more: int = 0

    @classmethod
    def parse(cls, message: str) -> TopicVerdict | None:
        """Return the verdict in a container's termination message; None if it ended for another reason."""
        found = TerminationMessage.parse(message)
        if found is None or found.code != TOPIC_INTEGRITY or not found.reason.startswith(_ERROR):
            return None
        text = " ".join(without_secrets(found.reason.removeprefix(_ERROR)).split())
        changes = [ChangedTopic(c or d, a or b, was) for a, b, c, d, was in _CHANGE.findall(text)]
        more = _MORE.search(text)
        return cls(text, tuple(changes), int(more[1]) if more is not None else 0)

    def stands(self, streams: Streams) -> bool:
        """Return whether a driver that starts with these streams would end again, as far as they show."""
        return not self.changed or self.more > 0 or any(_stands(each, streams) for each in self.changed)


def ended_for_topic(verdict: TopicVerdict | None, streams: Streams) -> bool | None:
    """Return whether a verdict would end the next driver too; False if the streams accept it, None without one."""
    return verdict.stands(streams) if verdict is not None else None


def _stands(change: ChangedTopic, streams: Streams) -> bool:
    found = [content for _, key, content in entries(streams) if key == (change.cluster, change.topic)]
    pins = {content.get("topicIds", {}).get(change.topic) for content in found} - {None}
    return bool(found) and pins <= {change.expected}
