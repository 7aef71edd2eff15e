"""The part `internalTopics` of `app.yaml`: topics of the application's own, and the cluster that holds them. Pure.

`app/internal_topics` makes and checks these topics.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from dynamic_kafka.app.config.parts import Duration, Part, Text
from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.yaml.located import Findings, Problem
from dynamic_kafka.options.java_client_properties import check_no_literal_secrets
from dynamic_kafka.options.secrets import check_references

Kind = Literal["changelog", "repartition", "deadLetters"]
CleanupPolicy = Literal["compact", "delete", "compact,delete"]

_CONFIGURATION: dict[Kind, dict[str, str]] = {
    "changelog": {"cleanup.policy": "compact"},
    "repartition": {"cleanup.policy": "delete", "retention.ms": "-1"},
    "deadLetters": {"cleanup.policy": "compact"},
}
"""The topic configurations that each kind needs unless its declaration has others."""
_MADE_WITH: dict[Kind, dict[str, str]] = {"changelog": {"max.message.bytes": "16777216"}}
"""Further configurations with which a set-up makes a topic. They are not checked: a topic without them may do, too."""
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def _topic_name(value: Any) -> Any:
    if isinstance(value, str) and (not _TOPIC_NAME.match(value) or value in (".", "..")):
        raise ValueError("a topic's name has 1 to 249 letters, digits, `.`, `_` and `-`")
    return value


class InternalTopic(Part):
    """One internal topic.

    Attributes:
        partitions: its number of partitions; a repartition topic needs it, the others have one by default.
        replication_factor: None takes the cluster's default, and is not checked.
        config: further configurations of the topic, which are checked, too.
    """

    name: Annotated[str, BeforeValidator(_topic_name)]
    kind: Kind
    partitions: int = Field(default=1, ge=1, le=100_000)
    replication_factor: int | None = Field(default=None, ge=1, le=32_767)
    cleanup_policy: CleanupPolicy | None = None
    config: dict[str, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> InternalTopic:
        problems = []
        if self.kind == "repartition" and "partitions" not in self.model_fields_set:
            problems.append(Problem(("partitions",), "is missing: a repartition topic needs a number of partitions"))
        if "cleanup.policy" in self.config:
            problems.append(Problem(("config", "cleanup.policy"), "has a field of its own: set `cleanupPolicy`"))
        compacted = "compact" in (self.cleanup_policy or _CONFIGURATION[self.kind]["cleanup.policy"])
        if self.kind == "repartition" and compacted:
            text = "must be 'delete' for a repartition topic: compaction would drop records that were not read yet"
            problems.append(Problem(("cleanupPolicy",), text))
        if self.kind != "repartition" and not compacted:
            text = f"must be 'compact' or 'compact,delete' for the kind {self.kind!r}: its records replace others"
            problems.append(Problem(("cleanupPolicy",), text))
        if problems:
            raise Findings(problems)
        return self

    @property
    def configuration(self) -> dict[str, str]:
        """The topic configurations that the topic must have, the cleanup policy among them."""
        own = {"cleanup.policy": self.cleanup_policy} if self.cleanup_policy is not None else {}
        return {**_CONFIGURATION[self.kind], **own, **self.config}

    @property
    def made_with(self) -> dict[str, str]:
        """The topic configurations with which a set-up makes the topic."""
        return {**_MADE_WITH.get(self.kind, {}), **self.configuration}


class InternalTopics(Part):
    """The internal topics of the application, and their home cluster.

    Attributes:
        cluster: the home is this cluster of the metadata.
        bootstrap_servers: the home has servers of its own, with these client `properties`.
        kafka_id: the `cluster.id` that the home must have; None accepts the first that is found.
        timeout: the longest duration of a set-up.
        offset_changelog: the changelog that the application writes its offset documents to.
        dead_letters: the topic for refused records (`mode: deadletter`), and for late ones (`lateRows: deadletter`).
    """

    cluster: str | None = Field(default=None, min_length=1)
    bootstrap_servers: str | None = Field(default=None, min_length=1)
    properties: dict[str, Text] = Field(default_factory=dict)
    kafka_id: str | None = Field(default=None, min_length=1)
    timeout: Duration = 60_000
    topics: list[InternalTopic] = Field(min_length=1)
    offset_changelog: str | None = None
    dead_letters: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> InternalTopics:
        problems = [*self._home_problems(), *self._topic_problems()]
        if problems:
            raise Findings(problems)
        return self

    def _home_problems(self) -> list[Problem]:
        if (self.cluster is None) == (self.bootstrap_servers is None):
            return [Problem((), "set exactly one of `cluster` and `bootstrapServers`")]
        if self.cluster is not None and self.properties:
            return [Problem(("properties",), "go with `bootstrapServers`: the metadata has those of a `cluster`")]
        if "bootstrap.servers" in self.properties:
            return [Problem(("properties", "bootstrap.servers"), "has a field of its own: set `bootstrapServers`")]
        try:
            check_no_literal_secrets(self.properties)
            check_references({"bootstrap.servers": self.bootstrap_servers or "", **self.properties})
        except OptionError as error:
            return [Problem(("properties",), str(error))]
        return []

    def _topic_problems(self) -> list[Problem]:
        names = [topic.name for topic in self.topics]
        problems = [
            Problem(("topics", index, "name"), f"another topic is named {name!r} too")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        used = (
            ("offsetChangelog", self.offset_changelog, "changelog"),
            ("deadLetters", self.dead_letters, "deadLetters"),
        )
        for field, name, kind in used:
            known = [topic.name for topic in self.topics if topic.kind == kind]
            if name is not None and name not in known:
                text = f"must be a topic of the kind {kind} under `topics`; there are: {', '.join(known) or 'none'}"
                problems.append(Problem((field,), text))
        if self.timeout < 1000:
            problems.append(Problem(("timeout",), "must be at least 1s; a number without a unit means milliseconds"))
        return problems

    def source_options(self, home_id: str | None, *, writes_letters: bool) -> dict[str, str]:
        """Return the source's options about these topics, for a home with this `cluster.id`.

        Args:
            writes_letters: whether the source writes dead letters.
        """
        home: dict[str, Any] = {"cluster": self.cluster}
        if self.bootstrap_servers is not None:
            home = {"bootstrapServers": self.bootstrap_servers, "properties": self.properties}
        pinned = home_id or self.kafka_id
        home |= {"kafkaId": pinned} if pinned else {}
        letters = self.dead_letters if writes_letters else None
        written = [name for name in (self.offset_changelog, letters) if name is not None]
        own = {"topics": [topic.name for topic in self.topics], "written": written, **home}
        options = {"internalTopics": json.dumps(own)}
        return options if letters is None else {**options, "deadLetters": json.dumps({"topic": letters, **home})}
