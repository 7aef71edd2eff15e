"""The decisions of a set-up: what is wanted, what is there and what is remembered become topics to make, or an error.

Pure. `topic_set_up.py` asks the home cluster and follows the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynamic_kafka.app.config.internal_topics import InternalTopic
from dynamic_kafka.app.internal_topics.parameters import InitParameters
from dynamic_kafka.errors import IdentityError, MisconfiguredInternalTopicError, MissingInternalTopicError
from dynamic_kafka.kafka.topic_admin import FoundTopic
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.wording import tool_command


@dataclass(frozen=True)
class Remembered:
    """The result of the last set-up, as kept in the state location.

    Attributes:
        kafka_id: the home's `cluster.id`; None before the first set-up, or if the brokers report none.
        ids: {topic: topic id} of the topics that were there, in the client's form; an id is None if the brokers report
            none.
        begun: the topics of a set-up that has not ended. They were missing when it began.
    """

    kafka_id: str | None = None
    ids: Mapping[str, str | None] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SetupPlan:
    """The outcome of a comparison.

    Attributes:
        create: the topics to make.
        deleted: those of them that existed at the last set-up; their records are gone.
        recreated: {topic: (remembered id, present id)}: deleted and made again by someone else.
    """

    create: tuple[InternalTopic, ...] = ()
    deleted: tuple[str, ...] = ()
    recreated: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def check_home(home: str, kafka_id: str | None, remembered: Remembered, pinned: str | None) -> None:
    """Refuse a home cluster that is not the one of the last set-up, or not the one that `kafkaId` names.

    Raises:
        IdentityError: another cluster answers.
    """
    if kafka_id is None:
        return  # the caller warns
    if pinned is not None and kafka_id != pinned:
        raise IdentityError(
            f"home {home} of internal topics has cluster.id {kafka_id}, not {pinned}: correct servers or `kafkaId`"
        )
    if pinned is None and remembered.kafka_id is not None and kafka_id != remembered.kafka_id:
        raise IdentityError(
            f"the home of the internal topics, {home}, answers with the cluster.id {kafka_id}; they were set up on"
            f" {remembered.kafka_id}, with their records: correct the servers. To begin anew here, set"
            f" `kafkaId: {kafka_id}` under `internalTopics` in app.yaml"
        )


def plan_setup(
    topics: Sequence[InternalTopic],
    existing: Mapping[str, FoundTopic],
    remembered: Remembered,
    parameters: InitParameters,
) -> SetupPlan:
    """Decide as KIP-698's `init` does: all topics are missing, none, or some.

    Topics of a set-up that was cut off are completed under any parameters, since they never held a record.

    Raises:
        MisconfiguredInternalTopicError: existing topics differ from their declarations; all deviations are listed.
        MissingInternalTopicError: some topics are missing, and the parameters do not allow to complete them.
    """
    refuse_deviations(topics, existing)
    missing = [topic for topic in topics if topic.name not in existing]
    refused = [
        topic for topic in missing if not parameters.completes(topic.kind) and topic.name not in remembered.begun
    ]
    if existing and refused:
        raise MissingInternalTopicError(missing_text(refused, topics, existing, remembered))
    deleted = tuple(topic.name for topic in missing if topic.name in remembered.ids)
    return SetupPlan(tuple(missing), deleted, recreated_topics(existing, remembered))


def check_setup(topics: Sequence[InternalTopic], existing: Mapping[str, FoundTopic], remembered: Remembered) -> None:
    """Check that nothing is left to set up, as `internalTopicsSetup=manual` asks.

    Raises:
        MisconfiguredInternalTopicError: as `plan_setup`.
        MissingInternalTopicError: a topic is missing, or was re-created.
    """
    refuse_deviations(topics, existing)
    missing = [topic for topic in topics if topic.name not in existing]
    if missing:
        raise MissingInternalTopicError(missing_text(missing, topics, existing, remembered))
    recreated = recreated_topics(existing, remembered)
    if recreated:
        raise MissingInternalTopicError(recreated_text(recreated))


def recreated_topics(existing: Mapping[str, FoundTopic], remembered: Remembered) -> dict[str, tuple[str, str]]:
    """Return {topic: (remembered id, present id)} of the topics that were made again since the last set-up."""
    return {
        name: (before, now)
        for name, topic in sorted(existing.items())
        if (before := remembered.ids.get(name)) is not None
        if (now := topic.topic_id) is not None and now != before
    }


def refuse_deviations(topics: Sequence[InternalTopic], existing: Mapping[str, FoundTopic]) -> None:
    """Raise MisconfiguredInternalTopicError if existing topics differ from their declarations; list each deviation."""
    deviations = [
        f"topic {topic.name!r}: {deviation}"
        for topic in topics
        if topic.name in existing
        for deviation in _deviations(topic, existing[topic.name])
    ]
    if deviations:
        listed = "; ".join(deviations)
        raise MisconfiguredInternalTopicError(
            f"internal topics are not as app.yaml declares them: {listed}. Correct app.yaml, or use kafka-configs"
        )


def missing_text(
    missing: Sequence[InternalTopic],
    topics: Sequence[InternalTopic],
    existing: Mapping[str, FoundTopic],
    remembered: Remembered,
) -> str:
    """Return the message for missing ones of the declared topics, with the command that makes them."""
    present = [topic for topic in topics if topic.name in existing]
    others = f"; others exist: {_names(present)}" if present else ""
    lost = [topic for topic in missing if topic.name in remembered.ids]
    gone = f". {_names(lost)} existed before: their records are lost" if lost else ""
    command = tool_command("init", flag=completing_flag(missing) if present else "")
    return f"internal topics are missing: {_names(missing)}{others}{gone}. To make them, empty: {command}"


def recreated_text(recreated: Mapping[str, tuple[str, str]]) -> str:
    """Return the message for topics that were deleted and made again outside of a set-up."""
    listed = ", ".join(
        f"{name!r} (id {shown_topic_id(before)}, now {shown_topic_id(now)})"
        for name, (before, now) in recreated.items()
    )
    init = tool_command("init")
    return f"internal topics were re-created since their set-up, with records lost: {listed}. To go on: {init}"


def completing_flag(missing: Sequence[InternalTopic]) -> str:
    """Return the flag of `init` that completes these topics and no other kind."""
    kinds = {topic.kind for topic in missing}
    if kinds == {"repartition"}:
        return "--setup-repartition-topics-if-incomplete"
    return "--setup-changelog-topics-if-incomplete" if kinds == {"changelog"} else "--setup-all-topics-if-incomplete"


def _names(topics: Sequence[InternalTopic]) -> str:
    return ", ".join(f"{topic.name!r} ({topic.kind})" for topic in topics)


def _deviations(wanted: InternalTopic, topic: FoundTopic) -> list[str]:
    deviations = []
    if topic.partitions != wanted.partitions:
        deviations.append(f"it has {topic.partitions} partitions, declared are {wanted.partitions}")
    if wanted.replication_factor is not None and topic.replication_factor != wanted.replication_factor:
        text = f"its replication factor is {topic.replication_factor}, declared is {wanted.replication_factor}"
        deviations.append(text)
    for key, value in wanted.configuration.items():
        present = topic.config.get(key)
        if present is None:
            deviations.append(f"the cluster has no topic configuration {key!r}")
        elif _plain(present) != _plain(value):
            deviations.append(f"{key} is {present!r}, declared is {value!r}")
    return deviations


def _plain(value: str) -> object:
    """Return a configuration's value in a form that is equal for equal lists and numbers."""
    parts = sorted(part.strip().lower() for part in value.split(","))
    try:
        return [float(part) for part in parts]
    except ValueError:
        return parts
