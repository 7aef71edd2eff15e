"""The exit codes of the bundled application, and the meaning of each. Pure.

The application ends with them, and leaves its code in the termination message. The operator shows the meaning in
conditions. `make docs` generates the tables of exit codes in docs/ from `MEANINGS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from dynamic_kafka.wording import tool_command

INIT_COMMAND = tool_command("init")


class ExitCode(IntEnum):
    """The exit codes. After 3, 5 and 6 a later start may succeed; 2, 4, 7 and 9 to 12 need a person."""

    DONE = 0
    CONFIGURATION = 2
    METADATA = 3
    REFUSED = 4
    CLUSTER = 5
    QUERY = 6
    GROUP_IN_USE = 7
    GRACE_EXCEEDED = 8
    TOPIC_INTEGRITY = 9
    MISSING_SOURCE_TOPIC = 10
    MISSING_INTERNAL_TOPIC = 11
    MISCONFIGURED_INTERNAL_TOPIC = 12
    INTERRUPTED = 130
    """Interrupted from the keyboard while a tool ran."""
    PIPE_CLOSED = 141
    """The reader of a tool's output has closed the pipe, as `| head` does. Shells report this number then."""


@dataclass(frozen=True)
class ExitMeaning:
    """The meaning of one exit code.

    Attributes:
        words: the meaning.
        again: whether the application can be started again, in Markdown.
        data: what the failure means for the records, in Markdown.
        do: the steps of the runbook, in Markdown.
        reason: the reason of the condition that shows the code; "" if only `Failed` or `Failing` shows it.
        remedy: the cause and the remedy for that condition; "" if the driver's own words have both.
        cleared_by: what ends the reason. A driver that reports: the operator starts none for that. Or streams that
            accept the change: then the operator may start the application (`core.starter`).
    """

    words: str
    again: str
    data: str
    do: str
    reason: str = ""
    remedy: str = ""
    cleared_by: Literal["Report", "Acceptance"] = "Report"


MEANINGS: Mapping[int, ExitMeaning] = {
    ExitCode.CONFIGURATION: ExitMeaning(
        "`app.yaml`, an option, a secret's reference or the command line is wrong.",
        again="after it was put right",
        data="safe",
        do="correct what the cause names; `validate app.yaml` shows the same",
    ),
    ExitCode.METADATA: ExitMeaning(
        "No metadata, invalid metadata at the start, or metadata older than awaited.",
        again="yes, with a pause",
        data="safe",
        do=(
            "revert the commit that changed the stream, or see `StreamsResolved`. The next driver takes the new "
            "revision when it starts. [A Kubeflow application that has failed for "
            "good](docs/reference/operator-behaviour.md#a-start-by-the-operator) is started then"
        ),
    ),
    ExitCode.REFUSED: ExitMeaning(
        "Refused: identity, data loss, pending ranges of removed clusters, old or damaged checkpoint, another driver "
        "on the same checkpoint, a `stateLocation` without the query's state; or a cluster refuses the login or a "
        "certificate.",
        again="a person must decide",
        data="**at risk**: the application refuses to lose or to repeat records",
        do=(
            "`plan app.yaml` shows the refusal and what helps. `accept` shows what it gives up before it asks. A "
            "refused login is no risk: correct the Secret"
        ),
    ),
    ExitCode.CLUSTER: ExitMeaning(
        "A Kafka cluster did not answer, or did not do as asked.",
        again="yes, with a pause",
        data="safe until the topics' retention",
        do=(
            "see that the brokers run, and that driver and executors reach them. Or take the cluster out of the "
            "stream: a driver that starts anew still drains it, so "
            "[release](docs/how-to/operator.md#release-what-drains) it, too, which gives up its unread records"
        ),
    ),
    ExitCode.QUERY: ExitMeaning(
        "The query failed for another reason: transformation, sink, Spark.",
        again="perhaps",
        data="safe",
        do="it is a defect of the job, of its sink or of its image: go back to the image before",
    ),
    ExitCode.GROUP_IN_USE: ExitMeaning(
        "Another query commits to the same consumer group.",
        again="after it was put right",
        data="safe",
        do="stop the other query, or set another `groupId`",
    ),
    ExitCode.GRACE_EXCEEDED: ExitMeaning(
        "Stopped as asked, but not within `gracePeriod`.",
        again="yes",
        data="safe",
        do="set a longer `gracePeriod`, if it comes back",
    ),
    ExitCode.TOPIC_INTEGRITY: ExitMeaning(
        "A topic with a checked id was deleted or re-created. No later start reads before that is accepted.",
        again="after it was [accepted](docs/reference/topic-integrity.md): each start ends at once until then",
        data="the unread records of the old topic are gone",
        do="[accept the new topic](docs/how-to/runbooks.md#kafkastreamneedsaperson)",
        reason="TopicIntegrity",
        cleared_by="Acceptance",
    ),
    ExitCode.MISSING_SOURCE_TOPIC: ExitMeaning(
        "A topic that the metadata names does not exist.",
        again="after it was made, or taken out of the metadata",
        data="lost, if the topic was deleted",
        do="create the topic, or take it out of its stream",
        reason="SourceTopicMissing",
        remedy="a topic of its streams does not exist: create it, as the driver's log names it, and start again",
    ),
    ExitCode.MISSING_INTERNAL_TOPIC: ExitMeaning(
        "An internal topic is missing, or was re-created.",
        again="after [`init`](docs/how-to/internal-topics.md)",
        data="lost, if the topic existed before",
        do=(
            "`init --dry-run app.yaml` shows what is missing, and `init app.yaml` makes it, empty. The driver's log "
            "has the flag that it needs. [Its kind](docs/how-to/internal-topics.md) says what the loss means"
        ),
        reason="InternalTopicMissing",
        remedy="an internal topic is missing or was re-created; the driver's log names it. Its records are lost if it"
        f" existed before. Make it with {INIT_COMMAND}, or the Job examples/kubernetes/init-job.yaml, and the flag that"
        " the log names; then start again",
    ),
    ExitCode.MISCONFIGURED_INTERNAL_TOPIC: ExitMeaning(
        "Internal topics are not as `app.yaml` declares them; the message lists all deviations.",
        again="after they were put right",
        data="safe",
        do="the log lists all deviations: correct the declarations or the topics. Deleting a topic loses its records",
        reason="InternalTopicMisconfigured",
        remedy="internal topics are not as app.yaml declares them: correct what the driver's log lists; start again",
    ),
}
"""The codes with which the application fails."""
METADATA_MAY_CAUSE = frozenset({ExitCode.METADATA, ExitCode.CLUSTER, ExitCode.MISSING_SOURCE_TOPIC})
"""The codes whose cause may lie in the metadata. The operator starts an application that has failed for good with one
of them once its document has changed (`core.starter`). After `REFUSED`, data is at risk: a person decides."""
