"""The options about internal topics, declared as those in `definitions`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.options.option import Option, combined_from, option
from dynamic_kafka.options.own_topics import DeadLetterTopic, OwnTopics


@dataclass(frozen=True, kw_only=True)
class InternalTopicOptions:
    """The topics of the application's own, and the records that the deserialiser refuses, which one of them gets."""

    internal_topics_setup: Literal["automatic", "manual"] = option(
        "internalTopicsSetup",
        "word",
        "How the bundled application sets up its [internal topics](../how-to/internal-topics.md): `automatic` makes"
        " missing ones"
        " at each start; `manual` refuses to start without them, and `init` makes them.",
        default="automatic",
        words=("automatic", "manual"),
        aliases=("internal.topics.setup",),
        streaming_only=True,
    )
    refused_records: Literal["failfast", "permissive", "dropmalformed", "deadletter"] = option(
        "mode",
        "word",
        "The treatment of a record for which `recordDeserializer` raises an exception, or whose value is malformed with"
        " `value.format`: `failfast` fails the batch; `deadletter` writes the record to the"
        " [dead-letter topic](../how-to/internal-topics.md#dead-letters) and reads on. With `value.format` also"
        " `permissive`,"
        " which keeps the row and the fields that can be read, and `dropmalformed`, which leaves the row out.",
        default="failfast",
        words=("failfast", "permissive", "dropmalformed", "deadletter"),
    )
    dead_letters: DeadLetterTopic | None = combined_from(
        Option(
            "deadLetters",
            "text",
            "The dead-letter topic, and its cluster: a cluster of the metadata, or servers of its own"
            " (`bootstrapServers`, `properties`). `kafkaId` is the `cluster.id` that its brokers have to report. The"
            " bundled application sets it from `internalTopics` in `app.yaml`.",
            'JSON such as `{"topic": "dead", "cluster": "east"}`',
        )
    )
    own_topics: OwnTopics | None = combined_from(
        Option(
            "internalTopics",
            "text",
            "The bundled application sets it: its internal topics, those of them that it writes itself, and their home,"
            " as in `deadLetters`. No pattern matches any of them on that cluster, and a stream that names one that the"
            " application writes is refused: each batch would make records for the next. Without this option, that"
            " holds for the topic of `deadLetters`.",
            'JSON such as `{"topics": ["log", "keys"], "written": ["log"], "cluster": "east"}`',
        )
    )
