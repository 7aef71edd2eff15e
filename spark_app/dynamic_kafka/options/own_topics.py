"""The options `deadLetters` and `internalTopics`: the application's own topics, and their home cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.strict_json import load_json
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options.java_client_properties import check_no_literal_secrets
from dynamic_kafka.options.secrets import check_references
from dynamic_kafka.wording import first_few

_HOME_TEXTS = frozenset(("cluster", "bootstrapServers", "kafkaId"))


@dataclass(frozen=True)
class TopicHome:
    """The cluster of topics that the application writes.

    Attributes:
        cluster: the cluster id that metadata gives it; None if it has servers of its own.
        properties: the client properties of its own servers, with `bootstrap.servers`; references are not resolved.
        kafka_id: the `cluster.id` that its brokers must report; None if any will do.
    """

    cluster: str | None
    properties: Mapping[str, str] = field(repr=False)
    kafka_id: str | None


@dataclass(frozen=True)
class DeadLetterTopic(TopicHome):
    """The dead-letter topic."""

    topic: str


@dataclass(frozen=True)
class OwnTopics(TopicHome):
    """The topics of the application's own.

    Attributes:
        topics: all of them. No pattern matches them.
        written: those that the application writes to itself. It must not read them, also if they are named.
    """

    topics: frozenset[str]
    written: frozenset[str]

    def at_home_in(self, subscription: Subscription) -> OwnTopics:
        """Return the same topics with the id that metadata give their home now; it may have been renamed."""
        return replace(self, cluster=self.cluster and subscription.present_id(self.cluster))

    def is_home(self, cluster: str, kafka_id: str | None, home_id: Callable[[], str | None]) -> bool:
        """Return whether a cluster is the home.

        Args:
            cluster, kafka_id: its id in the metadata, and its `cluster.id`.
            home_id: returns the `cluster.id` of the home; called only if that has servers of its own.
        """
        return cluster == self.cluster if self.cluster is not None else kafka_id is not None and kafka_id == home_id()

    def refuse(
        self, cluster: str, topics: Iterable[str], kafka_id: str | None, home_id: Callable[[], str | None]
    ) -> None:
        """Raise OptionError if some of the topics of a cluster are those that the application writes itself there."""
        named = sorted(self.written.intersection(topics))
        if named and self.is_home(cluster, kafka_id, home_id):
            raise OptionError(
                f"the streams name topics of cluster {cluster!r} to which this application itself writes its offset"
                f" changelog or its dead letters: {first_few(named)}. Take them out of the streams"
                " (docs/how-to/internal-topics.md#internal-topics-are-no-streams)"
            )


def parse_dead_letters(text: str, where: str) -> DeadLetterTopic:
    """Read the option `deadLetters`.

    Args:
        where: the option's name in messages.

    Raises:
        OptionError: it has another form, or a property holds a secret or a wrong reference.
    """
    wire = _load(text, where)
    topic: Any = wire.pop("topic", None)
    if not _is_name(topic) or not _is_home(wire):
        raise OptionError(_form(where, '{"topic": "dead", "cluster": "east"}'))
    return DeadLetterTopic(*_home(wire), topic)


def parse_own_topics(text: str, where: str) -> OwnTopics:
    """Read the option `internalTopics`. Arguments and errors are those of `parse_dead_letters`."""
    wire = _load(text, where)
    topics, written = (wire.pop(key, []) for key in ("topics", "written"))
    if not (topics and _are_names(topics) and _are_names(written) and set(written) <= set(topics) and _is_home(wire)):
        raise OptionError(_form(where, '{"topics": ["log", "keys"], "written": ["log"], "cluster": "east"}'))
    return OwnTopics(*_home(wire), frozenset(topics), frozenset(written))


def _load(text: str, where: str) -> dict[str, Any]:
    """Return the JSON mapping; something else becomes an empty one, which has another form than either option."""
    try:
        wire = load_json(text)
    except ValueError as error:
        raise OptionError(f"{where} is no JSON: {error}") from None
    return wire if isinstance(wire, dict) else {}


def _form(where: str, example: str) -> str:
    return (
        f"{where} must be JSON such as {example}; a home with servers of its own has `bootstrapServers` and"
        " `properties` instead of `cluster`, and both may have a `kafkaId`"
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_name, value))


def _is_home(wire: Mapping[str, Any]) -> bool:
    if not set(wire) <= {*_HOME_TEXTS, "properties"}:
        return False
    own = wire.get("properties", {})
    texts = [wire[key] for key in _HOME_TEXTS & wire.keys()]
    if not isinstance(own, dict) or not all(map(_is_name, (*texts, *own.values()))):
        return False
    return ("cluster" in wire) != ("bootstrapServers" in wire) and not (own and "cluster" in wire)


def _home(wire: Mapping[str, Any]) -> tuple[str | None, Mapping[str, str], str | None]:
    own = wire.get("bootstrapServers")
    properties = {**wire.get("properties", {}), "bootstrap.servers": own} if own is not None else {}
    check_no_literal_secrets(properties)
    check_references(properties)
    return wire.get("cluster"), properties, wire.get("kafkaId")
