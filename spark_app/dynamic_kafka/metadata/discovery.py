"""The discovery of metadata: a thread that polls the metadata service. Driver; the observer of a query owns one.

The thread makes all calls to the service, so they never overlap. Plans take the metadata in force and never wait. The
bundled application has a discovery of its own. The outcomes of a lookup:

- A valid answer comes into force, and the count of failures starts at 0 again.
- An invalid answer leaves the last good metadata in force. It is logged once, and `status().rejected` reports it.
- An older answer, a lower revision of the lineage in force, is treated like an invalid one.
- No answer (an error of any kind, or a hanging call) is a failure. The last good metadata stays in force for
  `failure_threshold` failures in a row; after one more, `current()` raises.

If an error ends the thread itself, `current()` raises from then on: metadata never freezes silently.
Spark runs a data source's constructor twice, so no constructor may create a discovery.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from dynamic_kafka.errors import MetadataError, MetadataInvalidError, MetadataTooOldError, MetadataUnavailableError
from dynamic_kafka.metadata.discovery_state import Discovered, DiscoveryState, DiscoveryStatus
from dynamic_kafka.metadata.lookup import Found, Lookup
from dynamic_kafka.metadata.missing_streams import MissingStreams
from dynamic_kafka.metadata.revision import AwaitedRevision, described
from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber
from dynamic_kafka.user_code import error_text

WAS_READ = "metadata %s was read; clusters: %s"
"""The log line of new metadata. Spark's planner process leaves it out: the line about metadata in force follows."""

_log = logging.getLogger(__name__)

LOOKUP_DEADLINE_S = 30.0
"""A lookup without an answer is a failure after this long, or after the interval if that is longer. While it goes on
hanging, each further such period counts as one more failure, as if the call had been retried."""
WAITING_LOG_INTERVAL_S = 30.0
"""Seconds between two log lines about an awaited revision."""


class MetadataDiscovery:
    """The poller of one metadata service for one subscriber. Any thread may call its methods.

    Args:
        service: only this object calls it from now on; `stop` closes it.
        interval_s: seconds from one lookup to the next; 0 looks up at start only.
        failure_threshold: consecutive failures that are tolerated.
        probe_interval_s: seconds between two calls of `service.changed()`; a change is looked up at once.
        awaited_revision: `start` waits for metadata at least as new; see `AwaitedRevision`.
        awaited_timeout_s: how long it waits.
        lookup_deadline_s: replaces `LOOKUP_DEADLINE_S`.

    Raises:
        OptionError: `awaited_revision` is no revision.
    """

    def __init__(
        self,
        service: KafkaMetadataService,
        subscriber: KafkaStreamSubscriber,
        *,
        interval_s: float,
        failure_threshold: int,
        probe_interval_s: float = 1.0,
        awaited_revision: str | AwaitedRevision | None = None,
        awaited_timeout_s: float = 120.0,
        lookup_deadline_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_s = interval_s
        self._probe_interval_s = probe_interval_s
        awaited = awaited_revision
        self._awaited = AwaitedRevision.parse(awaited) if isinstance(awaited, str) else awaited
        self._awaited_timeout_s = awaited_timeout_s
        self._deadline_s = max(interval_s, LOOKUP_DEADLINE_S) if lookup_deadline_s is None else lookup_deadline_s
        self._clock = clock
        self._missing = MissingStreams(subscriber, service)
        self._lookup = Lookup(service, subscriber, self._missing, self._awaited, awaited_timeout_s)
        self.closed = threading.Event()
        # Guards everything below, and is notified of every change.
        self._condition = threading.Condition()
        self._state = DiscoveryState(
            failure_threshold=failure_threshold, deadline_s=self._deadline_s, awaited=self._awaited
        )
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._start_done = False
        self._start_problem: MetadataError | None = None
        self._asked = self._inactive = frozenset[str]()
        self._requested = self._served = 0

    @property
    def deferred_refusal(self) -> MetadataInvalidError | None:
        """The error with which a first start must end, where `start` was called without `refuse_missing`."""
        return self._lookup.deferred_refusal

    def start(self, *, refuse_missing: bool = True) -> None:
        """Make the first lookup, wait for it (and for the awaited revision), then poll in the background.

        Args:
            refuse_missing: raise when the subscriber's `check_at_start` does. Without, the error becomes
                `deferred_refusal`: a query with a checkpoint goes on without the streams that metadata no longer names.

        Raises:
            MetadataUnavailableError: there was no answer, or none within the deadline, or `stop` was called.
            MetadataInvalidError: the document is invalid, or a subscribed stream does not exist.
            MetadataTooOldError: the awaited revision did not arrive in time.
        """
        patience = self._deadline_s if self._awaited is None else max(self._awaited_timeout_s, self._deadline_s)
        with self._condition:
            if self._thread is not None:
                raise RuntimeError("discovery was started before")
            self._lookup.refuse_missing = refuse_missing
            self._thread = threading.Thread(target=self._run, name="metadata-discovery", daemon=True)
            self._thread.start()
            # 5 % more, since the thread may have the same deadline: its error names the cause, this one cannot.
            self._condition.wait_for(lambda: self._start_done or self._stopped, patience * 1.05)
            problem, done, stopped = self._start_problem, self._start_done, self._stopped
        if done and problem is None:
            return
        self.stop()
        if problem is not None:
            raise problem
        if stopped:
            raise MetadataUnavailableError("discovery was stopped before its first lookup had an answer")
        text = f"the first lookup had no answer within {patience:g} s; check the metadata service"
        raise MetadataUnavailableError(text)

    def current(self) -> Discovered:
        """Return the metadata in force; never waits.

        Raises:
            MetadataUnavailableError: more lookups in a row than tolerated had no answer, or `start` did not succeed.
        """
        with self._condition:
            return self._state.require_current(self._clock())

    def status(self) -> DiscoveryStatus:
        """Return a snapshot for reports and metrics; never waits, never raises."""
        with self._condition:
            return replace(self._state.status(self._clock()), missing=self._missing.ids)

    def refresh(self, ask: Collection[str] = ()) -> frozenset[str]:
        """Make one lookup that begins now, and wait until it ends or its deadline passes. Works with interval 0.

        Returns:
            The clusters of `ask` that are not active any more (`Lookup.inactive`): none without an answer.
        """
        with self._condition:
            if self._thread is None or self._is_over():
                return frozenset()
            self._asked, self._inactive = frozenset(ask), frozenset()
            self._requested += 1
            mine = self._requested
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._served >= mine or self._is_over(), self._deadline_s)
            return self._inactive

    def reject(self, rejected: Discovered, reason: str, *, keep: Discovered) -> None:
        """Take `rejected` out of force and put `keep` back, the last metadata that the caller found good.

        Made for problems that only brokers show, such as another physical identity. The rejected content stays out of
        force, with its reason in `status().rejected`, until the metadata changes or `reconsider` is called.
        """
        with self._condition:
            is_news = self._state.reject(rejected, reason, keep)
            self._condition.notify_all()
        if is_news:
            _log.error("metadata %s is rejected: %s", described(rejected.revision), reason)

    def reconsider(self) -> None:
        """Let the next lookup bring rejected content into force again: the brokers may have been corrected."""
        with self._condition:
            self._state.reconsider()

    def stop(self) -> None:
        """End discovery at once, even if a lookup hangs; its answer is ignored.

        `current` keeps returning the metadata in force. May be called more than once.
        """
        with self._condition:
            if self._stopped:
                return
            self._stopped = True
            self._state.end()
            self._condition.notify_all()
        # In a thread of its own, and before the lookup ends: closing is what unblocks a service that hangs.
        threading.Thread(target=self._close, name="metadata-close", daemon=True).start()

    def _close(self) -> None:
        self._lookup.close()
        self.closed.set()

    def _is_over(self) -> bool:
        return self._stopped or self._state.broken is not None

    def _run(self) -> None:
        try:
            self._poll()
        except BaseException as error:  # an end of this thread that no plan notices would freeze the metadata
            with self._condition:
                self._start_problem, self._start_done = self._state.break_off(error_text(error)), True
                _log.error("%s", self._start_problem)
                self._condition.notify_all()

    def _poll(self) -> None:
        problem = self._first_lookup()
        with self._condition:
            self._start_problem, self._start_done = problem, True
            self._condition.notify_all()
        while problem is None and self._wait_until_due():
            self._look_up(first=False)

    def _first_lookup(self) -> MetadataError | None:
        """Look up until the answer is valid and new enough, and return the last problem otherwise."""
        give_up = self._clock() + self._awaited_timeout_s
        logged_at: float | None = None
        while True:
            problem = self._look_up(first=True)
            now = self._clock()
            if problem is None or self._awaited is None or now >= give_up:
                return problem
            if logged_at is None or now - logged_at >= WAITING_LOG_INTERVAL_S:
                logged_at = now
                available = f"there is {self._lookup.older_revision or 'none yet'}"
                _log.info("waiting for revision %s, at most %.0f s; %s", self._awaited, give_up - now, available)
            with self._condition:
                if self._condition.wait_for(lambda: self._stopped, self._probe_interval_s):
                    return problem

    def _wait_until_due(self) -> bool:
        """Sleep until the next lookup; False when stopped."""
        last = self._clock()
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._stopped or self._requested > self._served, self._pause_s(last))
                if self._stopped:
                    return False
                if self._requested > self._served:
                    return True
                now = self._clock()
                if now - last >= self._interval_s:
                    return True
                self._state.begin(now)
            changed = self._lookup.has_changed()
            with self._condition:
                self._state.end()
            if changed:
                return True

    def _pause_s(self, last: float) -> float | None:
        if self._interval_s <= 0:
            return None
        return max(0.0, min(self._probe_interval_s, last + self._interval_s - self._clock()))

    def _look_up(self, *, first: bool) -> MetadataError | None:
        with self._condition:
            serving = self._requested
            self._state.begin(self._clock())
            asked, self._asked = self._asked, frozenset()
            in_force = self._state.current.revision if self._state.current else None
        lookup, problem = None, None
        try:
            lookup = self._lookup.run(first=first, in_force=in_force)
        except MetadataError as error:
            problem = error
        inactive = self._lookup.inactive(asked, lookup.subscription.clusters) if lookup else frozenset[str]()
        with self._condition:
            self._inactive = inactive
            if not self._stopped:
                self._conclude(lookup, problem, first=first)
                if self._state.current is not None:
                    self._missing.update(self._state.current.missing, lookup.warnings if lookup else ())
            self._served = serving
            self._condition.notify_all()
        return problem

    def _conclude(self, lookup: Found | None, problem: MetadataError | None, *, first: bool) -> None:
        raised = first and self._awaited is None  # `start` raises it, so the log does not need it
        if lookup is not None:
            answer = self._state.answer(lookup.subscription, lookup.revision, lookup.missing)
            if answer.warning is not None:
                _log.warning("%s", answer.warning)
            if answer.changed:
                clusters = ", ".join(lookup.subscription.clusters) or "none"
                # Not "in force": the query may still reject it, when it has asked those clusters.
                _log.info(WAS_READ, described(lookup.revision), clusters)
        elif isinstance(problem, MetadataTooOldError):
            # A valid answer, and no failure: it is only not the awaited one yet.
            self._state.end()
        elif isinstance(problem, MetadataInvalidError):
            if self._state.invalid(str(problem), problem.token) and not raised:
                kept = "the last good one stays in force" if self._state.current else "there is no good one yet"
                _log.error("invalid metadata, %s: %s", kept, problem)
        elif self._state.failure(self._clock(), str(problem)) and not raised:
            _log.warning("a metadata lookup had no answer: %s", problem)
