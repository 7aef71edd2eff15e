"""The condition `TopicsReady`: topics that the application lacks, with the command that makes internal ones. Pure.

The operator makes no topic, and no Job that does: whoever may create pods can mount any Secret. The driver's exit code
and the driver report show what is missing.
"""

from __future__ import annotations

from dynamic_kafka.wording import first_few
from kafkastream_operator.core.application import FAILED
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.failure import exit_code_in
from kafkastream_operator.core.last_failure import is_steady, last_failure
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition

_INIT = "`python -m dynamic_kafka.app init app.yaml`"
_OF_EXIT_CODE = {
    10: (
        "SourceTopicMissing",
        "a topic of its streams does not exist; the driver's log names it. Create the topic, or take it out of its"
        " stream, and start the application again",
    ),
    11: (
        "InternalTopicMissing",
        "an internal topic is missing or was re-created; the driver's log names it. Its records are lost if it existed"
        f" before. To make it, run {_INIT} where the application's image and app.yaml are, or the Job that"
        " `manifest --init` prints; then start the application again. If others exist, `init` needs the flag that the"
        " log names",
    ),
    12: (
        "InternalTopicMisconfigured",
        "internal topics are not as app.yaml declares them; the driver's log lists all deviations. Correct the topics"
        " or the declarations, and start the application again",
    ),
}
"""The reason and the message for each exit code of the bundled application that is about topics."""


def topics_ready(view: View) -> tuple[Condition, ...]:
    """Return the condition if a topic is missing or wrong; nothing if none is known to be."""
    failure, application = last_failure(view), view.application
    failed = application is not None and application.life in FAILED
    if failure is not None and failure.count and (failed or not is_steady(view)):
        code = exit_code_in(failure.cause)
        if code not in _OF_EXIT_CODE:
            return ()
        reason, text = _OF_EXIT_CODE[code]
        text = f"SparkApplication {view.spec.application_ref.name} has ended because {text}"
        return (condition("TopicsReady", False, reason, text),)
    report = own_report(view.driver, view.uid)
    if report is None or not report.lost_topics:
        return ()
    text = (
        f"internal topics were deleted or re-created, and their records are lost: {first_few(report.lost_topics, 20)}."
        f" Reading goes on. The next start makes missing ones again, and so does {_INIT}"
    )
    return (condition("TopicsReady", False, "InternalTopicLost", text),)
