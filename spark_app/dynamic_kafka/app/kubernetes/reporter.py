"""Report to the operator: gather what there is to say, write it onto the driver's own pod. Driver, within Kubernetes.

A thread of its own, which nothing waits for: without reports the operator cannot end drains, and that is all. What it
reports is decided in `reports.py` and `drain_tracker.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dynamic_kafka.app.kubernetes.driver_report import LIVE, Applied, Pace, Situation, rejection, report_text
from dynamic_kafka.app.kubernetes.pod import OwnPod, PodError
from dynamic_kafka.app.query.amended_progress import AmendedProgress
from dynamic_kafka.app.query.sink_status import StatusBoard
from dynamic_kafka.app.telemetry.drain_tracker import DrainTracker
from dynamic_kafka.app.telemetry.lag import LagProber
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.kubernetes_names import REPORT_ANNOTATION
from dynamic_kafka.planning.progress import OffsetDocument

POLL_S = 1.0
"""How often it is looked whether there is news."""

log = logging.getLogger(__name__)


class CommittedProgress:
    """How far the sinks have read in batches that Spark has committed: what such a batch had to leave out is not read.

    Args:
        states: the `stateLocation` of each sink, where it is kept what was left out; None: nothing ever is.
    """

    def __init__(self, board: StatusBoard, states: Mapping[str, str | None]) -> None:
        self._board, self._states = board, states
        self._sources: dict[tuple[str, int], AmendedProgress] = {}
        self._failing = False

    def documents(self) -> list[OffsetDocument | None]:
        """A document per source of each sink; None where it is not known."""
        return [
            self._document(name, place, document)
            for name, status in self._board.sinks().items()
            for place, document in enumerate((status.document, *status.others))
        ]

    def _document(self, name: str, place: int, committed: OffsetDocument) -> OffsetDocument | None:
        if committed.is_initial:
            return None
        source = self._sources.setdefault((name, place), AmendedProgress(self._states.get(name)))
        try:
            progress = source.after(committed)
        except DynamicKafkaError as error:
            if not self._failing:
                log.warning("sink %s: what drains has no known lag for now: %s", name, error)
            self._failing = True
            return None
        self._failing = False
        return progress


class Reporter:
    """Reports as long as the document in force is the operator's.

    Args:
        prober: lists the clusters; started with the first document of the operator's, unless it runs already.
        drains: what the prober tells.
        abilities: what this application can do.
        clock: monotonic seconds.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pod, self._discovery, self._board, self._progress = pod, discovery, board, progress
        self._prober, self._drains, self._clock = prober, drains, clock
        self._abilities = abilities
        self._applied, self._pace = Applied(), Pace(clock())
        self._uid = ""
        self._beat = 0
        self._trouble: str | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="reporter", daemon=True).start()

    def stop(self) -> None:
        """Report no more. Waits for nobody."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_S):
            try:
                self.step()
            except Exception as error:  # whatever it is: reading goes on, and so do later reports
                self._say("bug", f"{type(error).__name__}: {error}")

    def step(self) -> None:
        """Look whether a report is due, and make it."""
        discovered = self._discovery.status()
        own = discovered.revision
        if own is None or own.rendering is None or not own.token:
            return
        self._prober.start()
        planners = [each.summary for each in self._board.sinks().values() if each.state != "finished"]
        now = self._clock()
        situation = Situation(
            applied=self._applied.take(own, planners),
            rejected=rejection((discovered.rejected, discovered.rejected_token), planners),
            subscription=own.rendering.subscription,
            draining=tuple(self._drains.topics()),
        )
        if self._pace.is_due(situation, now):
            done = self._report(situation)
            self._pace.tried(situation, now, succeeded=done)

    def _report(self, situation: Situation) -> bool:
        self._beat += 1
        try:
            self._uid = self._uid or self._pod.uid()
            drains = self._drains.states(self._progress.documents(), self._clock()) if situation.draining else []
            text = report_text(situation, drains, pod=self._uid, beat=self._beat, abilities=self._abilities)
            self._pod.annotate(self._uid, {REPORT_ANNOTATION: text})
        except PodError as error:
            self._say(error.kind, str(error))
            return False
        if self._trouble is not None:
            log.info("reports to the operator get through again")
        self._trouble = None
        return True

    def _say(self, kind: str, text: str) -> None:
        """What goes wrong, once."""
        if kind != self._trouble:
            log.warning("no reports to the operator, so drains cannot end; reading goes on: %s", text)
        self._trouble = kind
