"""The condition `Finished`: whether the application's queries have ended by themselves. Pure."""

from __future__ import annotations

from dynamic_kafka.wording import first_few
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.finished import last_finish
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition


def finished(view: View) -> Condition:
    """Say whether the queries have ended for good, which splits keep them from it, and whether they are run again."""
    finish, application, report = last_finish(view), view.application, own_report(view.driver, view.uid)
    name = view.spec.application_ref.name
    policy = application.runs_again if application is not None else ""
    if finish is not None:
        text = (
            f"SparkApplication {name} has read everything, and has ended by itself at {finish.at[:19]}Z: it reads"
            " nothing more, also if it is started again. To read on, give it another checkpoint"
        )
        if policy:
            text += f". Its Spark operator runs it again and again, and each run ends at once: set {policy}"
            return condition("Finished", "RunsAgain", text)
        return condition("Finished", "Finished", text)
    if report is not None and report.open_splits and application is not None and application.life == "Running":
        text = (
            "the driver has ended some splits at their stop records, and goes on until it reads those of"
            f" {first_few(report.open_splits, 10)}: write a stop record to each, or take the topic out of its stream"
        )
        text += f". Its Spark operator would then run it again and again: set {policy}" if policy else ""
        return condition("Finished", "SplitsOpen", text)
    if application is not None and application.life == "Completed":
        gone = view.driver is None or not view.driver.owned
        text = (
            f"SparkApplication {name} is Completed, and nothing shows that it has read everything: its driver's pod"
            f" {'is gone' if gone else 'does not say so'}. Start it again: it reads on, or ends. See"
            " docs/reference/operator-behaviour.md#an-application-that-ends-by-itself"
        )
        return condition("Finished", "Stopped", text)
    return condition("Finished", "NotFinished")
