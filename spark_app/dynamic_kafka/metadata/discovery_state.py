"""What look-ups came to: the metadata in force, and how many in a row had no answer. Driver; pure.

Told by `MetadataDiscovery` what happened and when; decides nothing about threads and time.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.errors import MetadataUnavailableError
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.revision import AwaitedRevision, described
from dynamic_kafka.metadata.subscription import Subscription

_CHECK = "check the metadata service"


@dataclass(frozen=True)
class Discovered:
    """Metadata in force. `sequence` grows by one whenever anything in it changed."""

    subscription: Subscription
    revision: Revision
    sequence: int


@dataclass(frozen=True)
class DiscoveryStatus:
    """How discovery is doing.

    Attributes:
        revision: of the metadata in force; None before the first look-up.
        consecutive_failures: look-ups without an answer since the last answer.
        last_error: text of the last failure, until a look-up has an answer.
        rejected: why what was found last is not in force; None if it is.
        missing: ids of subscribed streams that the metadata in force does not name.
        rejected_token: which revision that is, `<lineage>/<counter>`; empty if it is not known.
    """

    revision: Revision | None
    consecutive_failures: int
    last_error: str | None
    rejected: str | None
    missing: tuple[str, ...] = ()
    rejected_token: str = ""


@dataclass(frozen=True)
class Answer:
    """What a valid answer came to.

    Attributes:
        changed: whether other metadata is in force now.
        warning: what is to be said of its revision, and was not said before.
    """

    changed: bool
    warning: str | None = None


class DiscoveryState:
    """The account of one discovery.

    Args:
        failure_threshold: consecutive failures that are tolerated.
        deadline_s: a look-up that hangs counts as one failure for each such time that passes.
        awaited: the revision that the start waits for; the first answer that is told here has reached it.
    """

    def __init__(self, *, failure_threshold: int, deadline_s: float, awaited: AwaitedRevision | None = None) -> None:
        self.current: Discovered | None = None
        self._threshold = failure_threshold
        self._deadline_s = deadline_s
        self._awaited = awaited
        self._busy_since: float | None = None
        self._failures = 0
        self._last_error: str | None = None
        self._rejected: str | None = None
        self._rejected_token = ""
        self._rejected_fingerprint: str | None = None
        self._last_rejection: tuple[str, str] | None = None
        self._told: tuple[str, str | None] | None = None

    def begin(self, now: float) -> None:
        """A call to the service begins."""
        self._busy_since = now

    def end(self) -> None:
        """The call came back, and says nothing by itself."""
        self._busy_since = None

    def answer(self, subscription: Subscription, revision: Revision) -> Answer:
        """A valid answer. One that is older than what is in force is left aside: whatever has put it back, a cache or a
        backup, knows less than this process does."""
        self._answered()
        if self._last_rejection is not None and self._last_rejection[0] != subscription.fingerprint:
            self._last_rejection = None  # what is rejected after this is news, also for the same reason
        if subscription.fingerprint == self._rejected_fingerprint:
            self._rejected_token = revision.token
            return Answer(False)
        in_force = self.current.revision if self.current else None
        if in_force is not None and revision.is_older_than(in_force):
            if revision.hash != in_force.hash:
                return self._leave_aside(revision, in_force)
            revision = in_force  # the same content under an earlier number
        self._rejected = self._rejected_fingerprint = None
        self._rejected_token = ""
        warning = self._other_lineage(revision, in_force)
        return Answer(self._enforce(subscription, revision), warning)

    def invalid(self, text: str, token: str = "") -> bool:
        """An answer that cannot be used; whether that is news. Not a failure: the service did answer.

        `token` is the revision that it claims to be, if that is known.
        """
        self._answered()
        news = text != self._rejected
        self._rejected, self._rejected_fingerprint, self._rejected_token = text, None, token
        return news

    def failure(self, now: float, text: str) -> bool:
        """No answer; whether that is news."""
        self._failures += max(1, self._hung(now))
        self._busy_since = None
        news = text != self._last_error
        self._last_error = text
        return news

    def reject(self, rejected: Discovered, reason: str, keep: Discovered) -> bool:
        """Put `keep` in force again, and keep the content of `rejected` out; whether that is news.

        Nothing happens if `rejected` has been replaced already: what replaced it is judged for itself.
        """
        if self.current is None or self.current.sequence != rejected.sequence:
            return False
        said = (rejected.subscription.fingerprint, reason)
        news = said != self._last_rejection
        self._rejected, self._rejected_fingerprint = reason, rejected.subscription.fingerprint
        self._rejected_token = rejected.revision.token
        self._last_rejection = said
        self._enforce(keep.subscription, keep.revision)
        return news

    def reconsider(self) -> None:
        """Let the next look-up bring rejected content back into force, to be judged anew."""
        self._rejected_fingerprint = None

    def failures(self, now: float) -> int:
        """Consecutive failures, a hanging look-up included."""
        return self._failures + self._hung(now)

    def take(self, now: float) -> Discovered:
        """The metadata in force.

        Raises:
            MetadataUnavailableError: there is none yet, or more failures in a row than are tolerated.
        """
        if self.current is None:
            raise MetadataUnavailableError(f"no metadata yet{self._because(now)}")
        failures = self.failures(now)
        if failures > self._threshold:
            raise MetadataUnavailableError(
                f"the metadata service gave no answer {failures} times in a row, "
                f"{self._threshold} are tolerated (metadataFailureThreshold){self._because(now)}"
            )
        return self.current

    def status(self, now: float) -> DiscoveryStatus:
        """A snapshot for reports and metrics."""
        return DiscoveryStatus(
            revision=self.current.revision if self.current else None,
            consecutive_failures=self.failures(now),
            last_error=self._hang_text() if self._hung(now) else self._last_error,
            rejected=self._rejected,
            rejected_token=self._rejected_token,
        )

    def _enforce(self, subscription: Subscription, revision: Revision) -> bool:
        before = self.current
        if before and before.revision == revision and before.subscription.fingerprint == subscription.fingerprint:
            return False
        self.current = Discovered(subscription, revision, before.sequence + 1 if before else 1)
        return True

    def _leave_aside(self, revision: Revision, in_force: Revision) -> Answer:
        text = (
            f"{described(revision)} is older than {described(in_force)}, which stays in force: a cache is behind, or it"
            " was put back by hand or from a backup; what is to come into force needs a higher revision, or a restart"
        )
        news = text != self._rejected
        self._rejected, self._rejected_fingerprint, self._rejected_token = text, None, revision.token
        return Answer(False, f"metadata {text}" if news else None)

    def _other_lineage(self, revision: Revision, in_force: Revision | None) -> str | None:
        """A warning, if nobody can tell whether `revision` is newer than what it comes instead of. Once, also if the
        query rejects it, and it is tried again."""
        awaited = self._awaited
        if in_force is not None:
            before = described(in_force) if revision.is_of_other_lineage(in_force) else None
        else:
            before = str(awaited) if awaited is not None and awaited.is_replaced_by(revision) else None
        told = None if before is None else (before, revision.lineage)
        if told is None or told == self._told:
            return None
        self._told = told
        return (
            f"metadata {described(revision)} is taken instead of {before}, of another lineage: its subscription"
            " was made anew, or it comes from elsewhere, as from a backup; which of the two is newer nobody can tell"
        )

    def _answered(self) -> None:
        self._busy_since = None
        self._failures = 0
        self._last_error = None

    def _hung(self, now: float) -> int:
        return 0 if self._busy_since is None else max(0, int((now - self._busy_since) / self._deadline_s))

    def _hang_text(self) -> str:
        return f"a look-up has been hanging for more than {self._deadline_s:g} s"

    def _because(self, now: float) -> str:
        error = self._hang_text() if self._hung(now) else self._last_error
        # A service that answered with an error says itself what to check.
        last = f"; last: {error}" if error else ""
        return last if "check" in last else f"{last}; {_CHECK}"
