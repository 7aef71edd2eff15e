"""The option about topic integrity, declared as those in `definitions`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.options.option import option


@dataclass(frozen=True, kw_only=True)
class IntegrityOptions:
    """The check that topics stay the ones that the query has read."""

    topic_integrity_check: bool = option(
        "topicIntegrityCheck",
        "boolean",
        "End the query for good when a topic that it reads was deleted or re-created, also with `failOnDataLoss=false`"
        " ([integrity](topic-integrity.md)). A topic's id in the metadata (`topicIds`) is enforced with and"
        " without this option.",
        default="false",
        aliases=("scan.topic-integrity-check.enabled",),
    )
