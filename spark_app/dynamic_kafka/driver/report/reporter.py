"""Gather the facts of the driver report and write the report onto the driver's own pod. Driver, within Kubernetes.

The reporter is a thread of its own that `app/run.py` starts, and nothing waits for it. Without reports the operator
cannot end drains, and reading goes on. `report_content.py` decides what is reported and when, and `drain_tracker.py`
computes the progress of drains.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from dynamic_kafka.contract.driver_report import LIVE
from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from dynamic_kafka.driver.report.amended_progress import AmendedProgress
from dynamic_kafka.driver.report.drain_tracker import DrainTracker
from dynamic_kafka.driver.report.lag_prober import LagProber
from dynamic_kafka.driver.report.pod import OwnPod, PodError
from dynamic_kafka.driver.report.report_content import (
    MAX_NEVER_REACHED,
    MAX_OPEN_SPLITS,
    AppliedRevision,
    ClockWatch,
    DriverState,
    ReportSchedule,
    never_reached_by_all,
    never_reached_causes,
    rejection,
    report_text,
)
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.planning.document.progress import OffsetDocument

POLL_S = 1.0
"""Seconds between two checks whether a report is due."""
LAST_REPORT_S = 30.0
"""Longest time in which the report of the end is tried: no later process reports it."""

log = logging.getLogger(__name__)


class CommittedProgress:
    """The committed progress of all sinks. Ranges that an amendment left out of a committed batch count as unread.

    Args:
        states: the `stateLocation` of each sink, which holds its amendments; None for a sink that makes none.
    """

    def __init__(self, board: StatusBoard, states: Mapping[str, str | None]) -> None:
        self._board, self._states = board, states
        self._sources: dict[tuple[str, int], AmendedProgress] = {}
        self._failing = False

    def documents(self) -> list[OffsetDocument | None]:
        """Return one offset document per source of each sink; None where the progress is not known."""
        return [
            self._document(name, place, document)
            for name, status in self._board.sinks().items()
            for place, document in enumerate(status.documents)
        ]

    def _document(self, name: str, place: int, committed: OffsetDocument) -> OffsetDocument | None:
        if committed.is_initial:
            return None
        source = self._sources.setdefault((name, place), AmendedProgress(self._states.get(name)))
        try:
            progress = source.after(committed)
        except DynamicKafkaError as error:
            if not self._failing:
                text = "the lag of draining topics is unknown: its state location cannot be read"
                log.warning("sink %s: %s: %s", name, text, error)
            self._failing = True
            return None
        self._failing = False
        return progress


class Reporter:
    """A thread that reports for as long as the document in force is one that the operator rendered.

    Args:
        prober: the thread that lists the clusters' end offsets. The first rendered document starts it if needed.
        drains: the progress of drains, which the prober updates.
        lost_topics: returns for each internal topic of the application whether it was lost.
        homes: the clusters of the metadata that hold internal topics.
    """

    def __init__(
        self,
        pod: OwnPod,
        discovery: MetadataDiscovery,
        board: StatusBoard,
        progress: CommittedProgress,
        *,
        prober: LagProber,
        drains: DrainTracker,
        abilities: Sequence[str] = (LIVE,),
        lost_topics: Callable[[], Mapping[str, bool]] = dict,
        homes: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pod, self._discovery, self._board, self._progress = pod, discovery, board, progress
        self._prober, self._drains, self._clock = prober, drains, clock
        self._abilities, self._lost_topics, self._homes = abilities, lost_topics, homes
        self._applied, self._clocks, self._schedule = AppliedRevision(), ClockWatch(), ReportSchedule(clock())
        self._uid = ""
        self._beat = 0
        self._last_failure: str | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop reporting. Waits for nothing but the report that all queries have ended for good."""
        self._stopped.set()
        if self._has_ended():
            self._thread.join(LAST_REPORT_S)

    def _run(self) -> None:
        while not self._stopped.wait(POLL_S):
            self._try_step()
        until = self._clock() + LAST_REPORT_S
        while self._has_ended() and not self._try_step() and self._clock() < until:
            time.sleep(POLL_S)

    def _try_step(self) -> bool:
        try:
            return self.step()
        except Exception as error:  # no error may stop reading, or later reports
            self._log_failure("bug", f"{type(error).__name__}: {error}")
            return False

    def _has_ended(self) -> bool:
        return all(sink.has_ended_for_good for sink in self._board.sinks().values())

    def step(self) -> bool:
        """Report if a report is due, and return whether none has failed."""
        discovered = self._discovery.status()
        own = discovered.revision
        if own is None or own.rendering is None or not own.token:
            return True
        self._prober.start()
        sinks = [sink for sink in self._board.sinks().values() if sink.state != "finished"]
        planners = [summary for sink in sinks for summary in sink.summaries]
        now = self._clock()
        state = DriverState(
            applied=self._applied.update(own, planners),
            rejected=rejection((discovered.rejected, discovered.rejected_token), planners),
            subscription=own.rendering.subscription,
            draining=tuple(self._drains.topics()),
            never_reached=never_reached_causes(sink.never_reached for sink in sinks),
            unanswered=tuple(sorted({name for sink in sinks for name in sink.unanswered})[:MAX_NEVER_REACHED]),
            finished=self._has_ended(),
            open_splits=tuple(sorted({split for sink in sinks for split in sink.open_splits})[:MAX_OPEN_SPLITS]),
            lost_topics=tuple(sorted(name for name, lost in self._lost_topics().items() if lost)[:MAX_NEVER_REACHED]),
            homes=self._homes,
            standing_clocks=self._clocks.standing(sinks, now),
        )
        if not self._schedule.is_due(state, now):
            return True
        done = self._report(state, never_reached_by_all([sink.never_reached for sink in sinks]))
        self._schedule.record_attempt(state, now, succeeded=done)
        return done

    def _report(self, state: DriverState, never_reached: Collection[str]) -> bool:
        self._beat += 1
        try:
            self._uid = self._uid or self._pod.uid()
            documents = self._progress.documents() if state.draining else []
            drains = self._drains.states(documents, self._clock(), never_reached) if state.draining else []
            text = report_text(state, drains, pod=self._uid, beat=self._beat, abilities=self._abilities)
            self._pod.annotate(self._uid, {REPORT_ANNOTATION: text})
        except PodError as error:
            self._log_failure(error.kind, str(error))
            return False
        if self._last_failure is not None:
            log.info("reporting to the operator works again")
        self._last_failure = None
        return True

    def _log_failure(self, kind: str, text: str) -> None:
        """Log a failure once, until another kind of failure or a success follows."""
        if kind != self._last_failure:
            log.warning("cannot report to the operator, so drains cannot end; reading goes on: %s", text)
        self._last_failure = kind
