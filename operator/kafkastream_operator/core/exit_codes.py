"""The exit codes of the bundled application, and what each means for the operator. Pure; conditions and causes use it.

This package may not import `dynamic_kafka.app.exit_codes`, so a test compares the codes. The operator sees a code in a
line of `core.failure.cause_of_failure`, or in the termination message of the driver's container.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TOPIC_INTEGRITY = 9
INIT_COMMAND = "`python -m dynamic_kafka.app init app.yaml`"


@dataclass(frozen=True)
class ExitMeaning:
    """The meaning of one exit code.

    Attributes:
        words: the meaning as in docs/application.md.
        reason: the reason of the condition that shows the code; "" if only `Failed` or `Failing` shows it.
        remedy: the cause and the remedy for that condition; "" if the driver's own words have both.
        cleared_by: what ends the reason. A driver that reports: the operator starts none for that. Or streams that
            accept the change: then the operator may start the application (`core.starter`).
    """

    words: str
    reason: str = ""
    remedy: str = ""
    cleared_by: Literal["Report", "Acceptance"] = "Report"


EXIT_CODES: Mapping[int, ExitMeaning] = {
    2: ExitMeaning("`app.yaml`, an option, a secret's reference or the command line is wrong."),
    3: ExitMeaning("No metadata, invalid metadata at the start, or metadata older than awaited."),
    4: ExitMeaning(
        "Refused: identity, data loss, pending ranges of removed clusters, old or damaged checkpoint, another driver on"
        " the same checkpoint, a `stateLocation` without the query's state; or a cluster refuses the login or a"
        " certificate."
    ),
    5: ExitMeaning("A Kafka cluster did not answer, or did not do as asked."),
    6: ExitMeaning("The query failed for another reason: transformation, sink, Spark."),
    7: ExitMeaning("Another query commits to the same consumer group."),
    8: ExitMeaning("Stopped as asked, but not within `gracePeriod`."),
    TOPIC_INTEGRITY: ExitMeaning(
        "A topic was deleted or re-created, and its id is checked. No later start reads before that is accepted.",
        reason="TopicIntegrity",
        cleared_by="Acceptance",
    ),
    10: ExitMeaning(
        "A topic that the metadata names does not exist.",
        reason="SourceTopicMissing",
        remedy="a topic of its streams does not exist; the driver's log names it. Create the topic, or take it out of"
        " its stream, and start the application again",
    ),
    11: ExitMeaning(
        "An internal topic is missing, or was re-created.",
        reason="InternalTopicMissing",
        remedy="an internal topic is missing or was re-created; the driver's log names it. Its records are lost if it"
        f" existed before. To make it, run {INIT_COMMAND} where the application's image and app.yaml are, or the Job"
        " that `manifest --init` prints; then start the application again. If others exist, `init` needs the flag that"
        " the log names",
    ),
    12: ExitMeaning(
        "Internal topics are not as `app.yaml` declares them; the message lists all deviations.",
        reason="InternalTopicMisconfigured",
        remedy="internal topics are not as app.yaml declares them; the driver's log lists all deviations. Correct the"
        " topics or the declarations, and start the application again",
    ),
}
"""The codes with which the application fails."""

_NAMED = re.compile(r"\bexit ?code:? (\d{1,3})\b", re.IGNORECASE)
_EXPLAINED = re.compile(r"\(exit code (\d{1,3}) of the bundled application: ")


def explained(cause: str) -> str:
    """Return a line about a failure with the meaning of the exit code that it names."""
    named = _NAMED.search(cause)
    meaning = EXIT_CODES.get(int(named[1])) if named is not None else None
    if named is None or meaning is None:
        return cause
    return f"{cause} (exit code {named[1]} of the bundled application: {meaning.words[:-1]})"


def meaning_in(cause: str) -> ExitMeaning | None:
    """Return the meaning of the exit code in a line that `explained` has returned; None if it names none."""
    found = _EXPLAINED.search(cause)
    return EXIT_CODES.get(int(found[1])) if found is not None else None
