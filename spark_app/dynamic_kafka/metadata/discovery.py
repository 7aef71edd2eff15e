"""Keeps the metadata in force up to date beside the query. Driver: one per query, asked by its planning calls.

One daemon thread makes all calls to the service, so they are serialised; the planning calls only take what is in force.
What a look-up may come to:

    a valid answer    in force from now on; the count of failures starts anew
    an invalid one    the last good one, if any, stays in force; logged once, and told by `status().rejected`
    an older one      likewise: a lower revision of the lineage in force
    none (an error,   a failure: the last good one stays for `failure_threshold` of them in a row, and with the
    or it hangs)      next one `current()` raises

Never created in a data source's constructor, which Spark runs twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from dynamic_kafka.errors import MetadataInvalidError, MetadataTooOldError, MetadataUnavailableError
from dynamic_kafka.metadata.discovery_state import Discovered, DiscoveryState, DiscoveryStatus
from dynamic_kafka.metadata.missing_streams import MissingStreams
from dynamic_kafka.metadata.model import KafkaStream, Revision
from dynamic_kafka.metadata.revision import AwaitedRevision, described
from dynamic_kafka.metadata.services.returned_streams import check_returned_streams
from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber
from dynamic_kafka.metadata.subscription import Subscription, unite

_log = logging.getLogger(__name__)

LOOKUP_DEADLINE_S = 30.0
"""A look-up without an answer for this long, or for the interval if that is longer, is a failure; so is each further
such time that it hangs, as if it had been tried again."""


WAITING_S = 30.0
"""How often it is said that a revision is still waited for."""


class MetadataDiscovery:
    """Polls a metadata service for the streams that a subscriber wants. Its methods may be called from any thread.

    Args:
        service: from now on asked by this object only, and closed by `stop`.
        subscriber: chooses the streams.
        interval_s: seconds from one look-up to the next; 0 looks up at start only.
        failure_threshold: consecutive failures that are tolerated.
        probe_interval_s: how often `service.changed()` is asked between look-ups; a change is looked up at once.
        awaited_revision: `start` waits for metadata at least as new; see `AwaitedRevision`.
        awaited_timeout_s: how long it waits.
        lookup_deadline_s: instead of `LOOKUP_DEADLINE_S`.
        clock: seconds that never go back.

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
        self._service = service
        self._subscriber = subscriber
        self._interval_s = interval_s
        self._probe_interval_s = probe_interval_s
        awaited = awaited_revision
        self._awaited = AwaitedRevision.parse(awaited) if isinstance(awaited, str) else awaited
        self._awaited_timeout_s = awaited_timeout_s
        self._deadline_s = max(interval_s, LOOKUP_DEADLINE_S) if lookup_deadline_s is None else lookup_deadline_s
        self._clock = clock
        # Guards everything below; notified whenever any of it changes.
        self._condition = threading.Condition()
        self.closed = threading.Event()
        self._state = DiscoveryState(
            failure_threshold=failure_threshold, deadline_s=self._deadline_s, awaited=self._awaited
        )
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._start_problem: Exception | None = None
        self._start_over = False
        self._refuse_missing = True
        self.doubt: MetadataInvalidError | None = None
        """Why a query that starts for the first time must be refused, if `start` was told not to refuse it."""
        self._too_old: str | None = None
        self._requested = 0
        self._served = 0
        self._vanished = MissingStreams(subscriber, service)

    def start(self, *, refuse_missing: bool = True) -> None:
        """Make the first look-up, wait for it (and for the awaited revision), then poll in the background.

        Args:
            refuse_missing: whether the subscriber's `check_at_start` refuses. Without, what it says is put into
                `doubt`: a query that goes on from a checkpoint goes on without what metadata names no more.

        Raises:
            MetadataUnavailableError: there was no answer, or none within the deadline, or `stop` was called.
            MetadataInvalidError: the document is invalid, or a subscribed stream does not exist.
            MetadataTooOldError: the awaited revision did not arrive in time.
        """
        patience = self._deadline_s if self._awaited is None else max(self._awaited_timeout_s, self._deadline_s)
        with self._condition:
            if self._thread is not None:
                raise RuntimeError("discovery was started before")
            self._refuse_missing = refuse_missing
            self._thread = threading.Thread(target=self._run, name="metadata-discovery", daemon=True)
            self._thread.start()
            # A little more, so that of two deadlines that fall together the thread's, which knows more, is heard.
            self._condition.wait_for(lambda: self._start_over or self._stopped, patience * 1.05)
            problem = self._start_problem
            done = self._start_over
            stopped = self._stopped
        if done and problem is None:
            return
        self.stop()
        if problem is None and stopped:
            problem = MetadataUnavailableError("discovery was stopped before its first look-up had an answer")
        if problem is None:
            problem = MetadataUnavailableError(
                f"the first look-up had no answer within {patience:g} s; check the metadata service"
            )
        raise problem

    def current(self) -> Discovered:
        """The metadata in force; never waits.

        Raises:
            MetadataUnavailableError: more look-ups in a row than tolerated had no answer, or `start` did not succeed.
        """
        with self._condition:
            return self._state.take(self._clock())

    def status(self) -> DiscoveryStatus:
        """How discovery is doing; never waits, never raises."""
        with self._condition:
            return replace(self._state.status(self._clock()), missing=self._vanished.ids)

    def refresh(self) -> None:
        """Make one look-up that begins now, and wait until it is over or its deadline passes. Works with interval 0."""
        with self._condition:
            if self._thread is None or self._stopped:
                return
            self._requested += 1
            mine = self._requested
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._served >= mine or self._stopped, self._deadline_s)

    def wait_changed(self, sequence: int, timeout_s: float) -> bool:
        """Wait until other metadata than that of `sequence` is in force; False after `timeout_s` or `stop`."""

        def is_other() -> bool:
            current = self._state.current
            return current is not None and current.sequence != sequence

        with self._condition:
            self._condition.wait_for(lambda: is_other() or self._stopped, timeout_s)
            return is_other() and not self._stopped

    def reject(self, rejected: Discovered, reason: str, *, keep: Discovered) -> None:
        """Take `rejected` out of force and put `keep` back, the last one that the caller found good.

        For what only brokers can tell, such as servers that answer with another physical identity. The rejected content
        stays out, and in `status().rejected`, until the metadata says something else, or `reconsider` is called.
        """
        with self._condition:
            news = self._state.reject(rejected, reason, keep)
            self._condition.notify_all()
        if news:
            _log.error("metadata %s is rejected: %s", described(rejected.revision), reason)

    def reconsider(self) -> None:
        """Let the next look-up bring what was rejected into force again: the brokers may have been put right."""
        with self._condition:
            self._state.reconsider()

    def stop(self) -> None:
        """End discovery, at once even if a look-up hangs: what that still comes to is ignored.

        `current` keeps telling what was in force. May be called more than once.
        """
        with self._condition:
            if self._stopped:
                return
            self._stopped = True
            self._state.end()
            self._condition.notify_all()
        # Aside and not after the look-up: closing is what unblocks a service that hangs.
        threading.Thread(target=self._close_service, name="metadata-close", daemon=True).start()

    def _close_service(self) -> None:
        try:
            self._service.close()
        except Exception as error:
            _log.info("closing the metadata service failed: %s", error)
        finally:
            self.closed.set()

    def _run(self) -> None:
        problem = self._first_lookup()
        with self._condition:
            self._start_problem, self._start_over = problem, True
            self._condition.notify_all()
        while problem is None and self._wait_until_due():
            self._look_up(first=False)

    def _first_lookup(self) -> Exception | None:
        """Look up until the answer is good and new enough; what stood against it at the end."""
        give_up = self._clock() + self._awaited_timeout_s
        said_at: float | None = None
        while True:
            problem = self._look_up(first=True)
            now = self._clock()
            if problem is None or self._awaited is None or now >= give_up:
                return problem
            if said_at is None or now - said_at >= WAITING_S:
                said_at = now
                there = f"there is {self._too_old}" if self._too_old else "there is none yet"
                _log.info("waiting for revision %s, at most %.0f s; %s", self._awaited, give_up - now, there)
            with self._condition:
                if self._condition.wait_for(lambda: self._stopped, self._probe_interval_s):
                    return problem

    def _wait_until_due(self) -> bool:
        """Sleep until the next look-up; False when stopped."""
        last = self._clock()
        while True:
            with self._condition:
                self._condition.wait_for(self._is_called, self._pause_s(last))
                if self._stopped:
                    return False
                if self._requested > self._served:
                    return True
                now = self._clock()
                if now - last >= self._interval_s:
                    return True
                self._state.begin(now)
            changed = self._probe()
            with self._condition:
                self._state.end()
            if changed:
                return True

    def _is_called(self) -> bool:
        return self._stopped or self._requested > self._served

    def _pause_s(self, last: float) -> float | None:
        if self._interval_s <= 0:
            return None
        return max(0.0, min(self._probe_interval_s, last + self._interval_s - self._clock()))

    def _probe(self) -> bool:
        try:
            return self._service.changed()
        except Exception:
            # The look-up that follows at the interval meets the same error, and counts it.
            return False

    def _look_up(self, *, first: bool) -> Exception | None:
        with self._condition:
            serving = self._requested
            self._state.begin(self._clock())
        problem: Exception | None = None
        found: tuple[Subscription, Revision] | None = None
        told: list[str] = []
        try:
            answer = self._ask(first)
            told = self._vanished.look(answer[0])
            found = answer
        except MetadataInvalidError as error:
            error.token = error.token or self._other_token()
            problem = error
        except (MetadataTooOldError, MetadataUnavailableError) as error:
            problem = error
        except BaseException as error:  # a user's class may raise anything, and must not end this thread
            problem = MetadataUnavailableError(f"{type(error).__name__}: {error}")
            problem.__cause__ = error
        with self._condition:
            if not self._stopped:
                self._conclude(found, problem)
                if self._state.current is not None:
                    self._vanished.settle(self._state.current.subscription, told)
            self._served = serving
            self._condition.notify_all()
        return problem

    def _ask(self, first: bool) -> tuple[Subscription, Revision]:
        streams = check_returned_streams(self._subscriber.get_subscribed_streams(self._service), self._subscriber)
        subscription = unite(streams)
        revision = self._service.revision or Revision(subscription.fingerprint)
        if first:
            if self._awaited is not None and not self._awaited.reached_by(revision):
                self._too_old = described(revision)
                raise MetadataTooOldError(
                    f"the metadata is at revision {described(revision)}, and {self._awaited} did not arrive within "
                    f"{self._awaited_timeout_s:g} s; check what renders it, or `metadataRevision` and `metadataTimeout`"
                )
            self._check_at_start(streams)
        return subscription, revision

    def _check_at_start(self, streams: Sequence[KafkaStream]) -> None:
        try:
            self._subscriber.check_at_start(self._service, streams)
        except MetadataInvalidError as error:
            if self._refuse_missing:
                raise
            self.doubt = error

    def _other_token(self) -> str:
        """The revision that the service has found, unless it is the one in force: streams that do not fit together."""
        try:
            revision = self._service.revision
        except Exception:
            return ""
        current = self._state.current
        return "" if revision is None or (current and current.revision == revision) else revision.token

    def _conclude(self, found: tuple[Subscription, Revision] | None, problem: Exception | None) -> None:
        now = self._clock()
        if found is not None:
            answer = self._state.answer(*found)
            if answer.warning is not None:
                _log.warning("%s", answer.warning)
            if answer.changed:
                clusters = ", ".join(found[0].clusters) or "none"
                # Whether it comes into force is for the query to say, when it has asked those clusters.
                _log.info("metadata %s was read; clusters: %s", described(found[1]), clusters)
        elif isinstance(problem, MetadataTooOldError):
            # An answer, and a sound one, that is only not awaited yet.
            self._state.end()
        elif isinstance(problem, MetadataInvalidError):
            if self._state.invalid(str(problem), problem.token):
                kept = "the last good one stays in force" if self._state.current else "there is no good one yet"
                _log.error("invalid metadata, %s: %s", kept, problem)
        elif self._state.failure(now, str(problem)):
            _log.warning("a metadata look-up had no answer: %s", problem)
