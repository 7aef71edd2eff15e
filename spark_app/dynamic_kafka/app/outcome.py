"""The end of a run: its exit code and reason, for the log and for Kubernetes. Driver; `run` calls it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dynamic_kafka.app.failures import code_of, describe_error, reason_in, text_of
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.contract.termination_message import MAX_BYTES, TerminationMessage
from dynamic_kafka.driver.report.sink_status import SinkStatus
from dynamic_kafka.errors import DynamicKafkaError, TopicIntegrityError
from dynamic_kafka.installed import explained
from dynamic_kafka.planning.sameness.integrity import changed_topics, shortened
from dynamic_kafka.wording import without_secrets

TERMINATION_LOG = Path("/dev/termination-log")
"""Kubernetes makes this file for each container, and shows its text as the reason why the container ended."""

_WORDS_BYTES = MAX_BYTES // 2
"""The room for words about changed topics. As much is left for the list of them, which the operator compares."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        reason: the failure, or the signal that asked to stop; None when everything was read.
        trace: the traceback of an unexpected error, without secrets; "" for any other end.
        finished: the message of an end after which a further start reads nothing; None for any other end.
    """

    code: ExitCode
    reason: str | None
    trace: str = ""
    finished: TerminationMessage | None = None

    @classmethod
    def of_queries(cls, code: ExitCode, reason: str | None, sinks: Collection[SinkStatus]) -> Outcome:
        """Return the end of a run whose queries have ended or were stopped."""
        finished = None
        if code == ExitCode.DONE and all(sink.has_ended_for_good for sink in sinks):
            splits = sum(len(sink.finished_splits) for sink in sinks)
            finished = TerminationMessage.of_finished(len(sinks), splits)
        return cls(code, reason, finished=finished)

    @classmethod
    def of(cls, error: BaseException) -> Outcome:
        """Return the end of a run by an error. Python itself would end with 1, and show the message unmasked."""
        if isinstance(error, DynamicKafkaError):
            return cls(code_of(error), describe_error(error))
        if isinstance(error, ImportError) and (missing := explained(error)) is not error:
            return cls(ExitCode.CONFIGURATION, str(missing))
        trace = without_secrets("".join(traceback.format_exception(error)))
        return cls(code_of(error), reason_in(text_of(error)), trace)

    def report(self, termination_log: Path = TERMINATION_LOG) -> None:
        """Log the last event, and write Kubernetes' termination log where there is one."""
        fields = {"event": "ended", "code": int(self.code), "reason": self.reason}
        failed = self.code not in (ExitCode.DONE, ExitCode.GRACE_EXCEEDED)
        log.log(logging.ERROR if failed else logging.INFO, "ended with exit code %d", self.code, extra=fields)
        try:
            if termination_log.exists():
                message = self.finished or self._message()
                termination_log.write_text(message.text(), encoding="utf-8", errors="replace")
        except OSError as error:
            log.debug("%s cannot be written: %s", termination_log, error)

    def _message(self) -> TerminationMessage:
        reason = self.reason or "finished"
        if self.code != ExitCode.TOPIC_INTEGRITY:
            return TerminationMessage(code=self.code, reason=reason)
        words = reason.removeprefix(f"{TopicIntegrityError.__name__}: ")
        changed = changed_topics(words)
        return TerminationMessage(code=self.code, reason=shortened(words, _WORDS_BYTES), changed_topics=changed)
