"""The condition `TopicsReady`: topics that the application lacks, with the command that makes internal ones. Pure.

The operator makes no topic, and no Job that does: whoever may create pods can mount any Secret. The driver's exit code
and the driver report show what is missing.
"""

from __future__ import annotations

from dynamic_kafka.contract.exit_codes import INIT_COMMAND, MEANINGS
from dynamic_kafka.wording import first_few
from kafkastream_operator.core.application import ALIVE, FAILED
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.last_failure import is_steady, last_failure
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition


def topics_ready(view: View) -> tuple[Condition, ...]:
    """Return the condition if a topic is missing or wrong; nothing if none is known to be.

    An application that has completed since, or that a user has stopped, waits for no topic.
    """
    failure, life = last_failure(view), view.application.life if view.application is not None else "Absent"
    ended = life in FAILED or (life in ALIVE and not is_steady(view))
    if failure is not None and failure.count and ended:
        meaning = MEANINGS.get(failure.exit_code) if failure.exit_code is not None else None
        if meaning is None or not meaning.reason or meaning.cleared_by != "Report":
            return ()
        text = f"SparkApplication {view.spec.application_ref.name} has ended because {meaning.remedy}"
        return (condition("TopicsReady", meaning.reason, text),)
    report = own_report(view.driver, view.uid)
    if report is None or not report.lost_topics:
        return ()
    text = (
        f"internal topics were deleted or re-created, and their records are lost: {first_few(report.lost_topics, 20)}."
        f" Reading goes on. The next start makes missing ones again, and so does {INIT_COMMAND}:"
        " docs/how-to/runbooks.md#kafkastreaminternaltopiclost"
    )
    return (condition("TopicsReady", "InternalTopicLost", text),)
