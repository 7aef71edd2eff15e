"""The state of one discovery: the metadata in force, and the failures in a row. Driver; pure.

`MetadataDiscovery` calls it after each event, under its lock, with the time. No threads and no clock in here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dynamic_kafka.errors import MetadataUnavailableError
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.revision import AwaitedRevision, described
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.wording import counted

_CHECK = "check the metadata service"


@dataclass(frozen=True)
class Discovered:
    """Metadata in force.

    Attributes:
        sequence: grows by one whenever the subscription or the revision changes.
        missing: ids of subscribed streams that it does not name.
    """

    subscription: Subscription
    revision: Revision
    sequence: int
    missing: tuple[str, ...] = ()

    def agrees_with(self, other: Discovered) -> bool:
        """Return whether both name the same clusters and topics with the same properties."""
        return self.subscription.fingerprint == other.subscription.fingerprint


@dataclass(frozen=True)
class DiscoveryStatus:
    """A snapshot of a discovery.

    Attributes:
        revision: of the metadata in force; None before the first lookup.
        consecutive_failures: lookups without an answer since the last answer.
        last_error: text of the last failure; None once a lookup has an answer.
        rejected: why the last answer is not in force; None if it is.
        missing: ids of subscribed streams that the metadata in force does not name.
        rejected_token: the revision of that answer, `<lineage>/<counter>`; empty if unknown.
    """

    revision: Revision | None
    consecutive_failures: int
    last_error: str | None
    rejected: str | None
    missing: tuple[str, ...] = ()
    rejected_token: str = ""


@dataclass(frozen=True)
class Answer:
    """The effect of a valid answer.

    Attributes:
        changed: whether other metadata is in force now.
        warning: a text about its revision that was not logged before.
    """

    changed: bool
    warning: str | None = None


class DiscoveryState:
    """The state of one discovery.

    Args:
        deadline_s: a hanging lookup counts as one failure for each such period.
        awaited: the revision that the start waits for. Every answer that arrives here has reached it.
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
        self._warned_lineages: tuple[str, str | None] | None = None
        self.broken: MetadataUnavailableError | None = None

    def begin(self, now: float) -> None:
        """Note that a call to the service begins."""
        self._busy_since = now

    def end(self) -> None:
        """Note that the call returned; its result does not count here."""
        self._busy_since = None

    def break_off(self, cause: str) -> MetadataUnavailableError:
        """Note that an unexpected error has ended all lookups, and return the error for every later plan."""
        self._busy_since = None
        text = f"metadata is no longer looked up, because discovery has failed: {cause}; restart the query"
        self.broken = MetadataUnavailableError(text)
        return self.broken

    def answer(self, subscription: Subscription, revision: Revision, missing: tuple[str, ...] = ()) -> Answer:
        """Take a valid answer into force, unless it is rejected or older than the metadata in force.

        A cache or a backup may bring back an older revision; the metadata that this process has is newer.
        """
        self._count_answer()
        if self._last_rejection is not None and self._last_rejection[0] != subscription.fingerprint:
            self._last_rejection = None  # a later rejection is news again, also for the same reason
        if subscription.fingerprint == self._rejected_fingerprint:
            self._rejected_token = revision.token
            return Answer(False)
        in_force = self.current.revision if self.current else None
        if in_force is not None and revision.is_older_than(in_force):
            if revision.hash != in_force.hash:
                return self._reject_older(revision, in_force)
            revision = in_force  # the same content under an earlier number
        self._rejected = self._rejected_fingerprint = None
        self._rejected_token = ""
        warning = self._lineage_warning(revision, in_force)
        return Answer(self._enforce(subscription, revision, missing), warning)

    def invalid(self, text: str, token: str = "") -> bool:
        """Note an invalid answer, and return whether its text is news. It is no failure: the service did answer.

        Args:
            token: the revision that the answer claims to be, if known.
        """
        self._count_answer()
        is_news = text != self._rejected
        self._rejected, self._rejected_fingerprint, self._rejected_token = text, None, token
        return is_news

    def failure(self, now: float, text: str) -> bool:
        """Count a lookup without an answer, and return whether its text is news."""
        self._failures += max(1, self._periods_hung(now))
        self._busy_since = None
        is_news = text != self._last_error
        self._last_error = text
        return is_news

    def reject(self, rejected: Discovered, reason: str, keep: Discovered) -> bool:
        """Put `keep` in force again, keep the content of `rejected` out, and return whether that is news.

        If `rejected` is no longer in force, nothing happens: its successor is judged by itself.
        """
        if self.current is None or self.current.sequence != rejected.sequence:
            return False
        rejection = (rejected.subscription.fingerprint, reason)
        is_news = rejection != self._last_rejection
        self._rejected, self._rejected_fingerprint = reason, rejected.subscription.fingerprint
        self._rejected_token = rejected.revision.token
        self._last_rejection = rejection
        self._enforce(keep.subscription, keep.revision, keep.missing)
        return is_news

    def reconsider(self) -> None:
        """Let the next lookup bring rejected content back into force; the query judges it again."""
        self._rejected_fingerprint = None

    def failures(self, now: float) -> int:
        """Return the consecutive failures, with those of a hanging lookup."""
        return self._failures + self._periods_hung(now)

    def require_current(self, now: float) -> Discovered:
        """Return the metadata in force.

        Raises:
            MetadataUnavailableError: there is none yet, more failures in a row than are tolerated, or no more lookups.
        """
        if self.broken is not None:
            raise MetadataUnavailableError(str(self.broken))
        if self.current is None:
            raise MetadataUnavailableError(f"no metadata yet{self._cause(now)}")
        failures = self.failures(now)
        if failures > self._threshold:
            times, limit, cause = counted(failures, "time"), self._threshold, self._cause(now)
            raise MetadataUnavailableError(
                f"the metadata service gave no answer {times} in a row (metadataFailureThreshold={limit}){cause}"
            )
        return self.current

    def status(self, now: float) -> DiscoveryStatus:
        """Return a snapshot, without the missing streams."""
        return DiscoveryStatus(
            revision=self.current.revision if self.current else None,
            consecutive_failures=self.failures(now),
            last_error=self._error_text(now),
            rejected=self._rejected,
            rejected_token=self._rejected_token,
        )

    def _enforce(self, subscription: Subscription, revision: Revision, missing: tuple[str, ...]) -> bool:
        before = self.current
        if before and before.revision == revision and before.subscription.fingerprint == subscription.fingerprint:
            if before.missing != missing:
                self.current = replace(before, missing=missing)
            return False
        self.current = Discovered(subscription, revision, before.sequence + 1 if before else 1, missing)
        return True

    def _reject_older(self, revision: Revision, in_force: Revision) -> Answer:
        new, kept = described(revision), described(in_force)
        text = f"{new} is older than {kept}, which stays in force; to use it, raise its revision, or restart"
        is_news = text != self._rejected
        self._rejected, self._rejected_fingerprint, self._rejected_token = text, None, revision.token
        return Answer(False, f"metadata {text}" if is_news else None)

    def _lineage_warning(self, revision: Revision, in_force: Revision | None) -> str | None:
        """Return a warning if `revision` and its predecessor are of two lineages, so neither is known to be newer.

        The warning comes once, also if the query rejects the revision and later retries it.
        """
        awaited = self._awaited
        if in_force is not None:
            before = described(in_force) if revision.is_of_other_lineage(in_force) else None
        else:
            before = str(awaited) if awaited is not None and awaited.is_replaced_by(revision) else None
        lineages = None if before is None else (before, revision.lineage)
        if lineages is None or lineages == self._warned_lineages:
            return None
        self._warned_lineages = lineages
        new = described(revision)
        return f"metadata {new} is taken instead of {before}, of another lineage (new or restored): it may be older"

    def _count_answer(self) -> None:
        self._busy_since = None
        self._failures = 0
        self._last_error = None

    def _periods_hung(self, now: float) -> int:
        return 0 if self._busy_since is None else max(0, int((now - self._busy_since) / self._deadline_s))

    def _error_text(self, now: float) -> str | None:
        if self.broken is not None:
            return str(self.broken)
        if self._periods_hung(now):
            return f"a lookup has been hanging for more than {self._deadline_s:g} s"
        return self._last_error

    def _cause(self, now: float) -> str:
        error = self._error_text(now)
        last = f"; last: {error}" if error else ""
        # The error of a service that answered already has its remedy.
        return last if "check" in last else f"{last}; {_CHECK}"
