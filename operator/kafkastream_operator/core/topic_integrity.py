"""A driver that has ended for good because a topic was deleted or re-created, and what accepts that. Pure.

The bundled application ends with an exit code of its own, and writes its reason into the termination message of its
container. A topic's change stands until the streams pin the topic to another id than the one from before, or do not
have it any more. The operator cannot see what the tool `accept` records, nor topics for which the message had no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.contract.termination_message import ChangedTopic
from dynamic_kafka.wording import without_secrets
from kafkastream_operator.core.document import Streams, entries
from kafkastream_operator.core.failure import ended_containers, termination_messages


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
    def of(cls, pod: Mapping[str, Any], names: frozenset[str] = frozenset()) -> TopicVerdict | None:
        """Return the verdict in a pod's status; None if it has ended for another reason.

        Args:
            names: the containers that count; empty: all of them.
        """
        for _, message in termination_messages(ended_containers(pod, names)):
            if message.code == ExitCode.TOPIC_INTEGRITY:
                text = " ".join(without_secrets(message.reason).split())
                return cls(text, message.changed_topics, message.more_topics)
        return None

    def stands(self, streams: Streams) -> bool:
        """Return whether a driver that starts with these streams would end again, as far as they show."""
        return not self.changed or self.more > 0 or any(_stands(topic, streams) for topic in self.changed)


def ended_for_topic(verdict: TopicVerdict | None, streams: Streams) -> bool | None:
    """Return whether a verdict would end the next driver too; False if the streams accept it, None without one."""
    return verdict.stands(streams) if verdict is not None else None


def _stands(change: ChangedTopic, streams: Streams) -> bool:
    cluster_entries = [content for _, key, content in entries(streams) if key == (change.cluster, change.topic)]
    pins = {content.get("topicIds", {}).get(change.topic) for content in cluster_entries} - {None}
    return bool(cluster_entries) and pins <= {change.expected}
