"""The set-up of a run: brokers, producers, control plane and driver, with a screen that shows them.

The story waits here for events, each with a deadline. It never assumes that something happened because time has passed.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo import journal, sink
from demo.checkpoint import Checkpoint
from demo.driver import Driver
from demo.journal import EventKind, Journal
from demo.kube import ControlPlane
from demo.producers import Producers
from demo.screen import ClusterState, Screen, State
from demo.settings import CLUSTERS, PARTITIONS, TOPIC, Settings
from tests.support.kafka import KafkaCluster, start_all

PATIENCE_S = 180.0
"""Longest wait for one event, on a busy machine."""
_LOOK_S = 0.05
_SHOW_S = 0.25
_CHECK_S = 1.0


class StoryError(Exception):
    """An expected event did not happen."""


class Stage:
    """The set-up of one run; `open` starts it, `close` ends it.

    Attributes:
        members: clusters of the stream in Git.
        draining: clusters that were removed from Git, and are read until they are drained.
        delivered: rows by cluster that the sink has committed so far.
        batches: {number: (time when its rows became readable, rows by cluster)}.
    """

    def __init__(self, settings: Settings, folder: Path, screen: Screen) -> None:
        """Create `folder` for all data of the run. Starts nothing."""
        folder.mkdir(parents=True)
        self.settings = settings
        self.folder = folder
        self.screen = screen
        self.clusters: dict[str, KafkaCluster] = {}
        self.plane = ControlPlane(settings, folder)
        self.driver = Driver(lambda: self.plane.node, self.plane.application_state)
        data = folder / "data"
        self.sink = sink.Sink(data / "sink")
        self.parquet = Checkpoint(data / "checkpoint" / "parquet")
        self.aggregate = Checkpoint(data / "checkpoint" / "aggregate")
        self.journal = Journal(began=time.time())
        self.members: tuple[str, ...] = ()
        self.draining: set[str] = set()
        self.delivered: Counter[str] = Counter()
        self.batches: dict[int, tuple[float, Counter[str]]] = {}
        self._producers: Producers | None = None
        self._shown = self._checked = 0.0

    @property
    def producers(self) -> Producers:
        """Return the producers. `open` creates them."""
        assert self._producers is not None
        return self._producers

    def open(self) -> None:
        """Start brokers, control plane and producers; apply the manifests; wait for the driver's first batch."""
        self.log("story", "starting three Kafka clusters, and a Kubernetes API server with its controllers")
        self.clusters |= {name: KafkaCluster(name.lower()) for name in CLUSTERS}
        with ThreadPoolExecutor(1, "brokers") as pool:
            brokers = pool.submit(start_all, self.clusters.values())
            self.plane.open(lambda text: self.log("story", text))
            brokers.result()
        now = time.time()
        for name, cluster in self.clusters.items():
            cluster.create_topic(TOPIC, PARTITIONS)
            journal.begin(self.journal.broker, name, now)
        first = CLUSTERS[0]
        self._producers = Producers(first, self.servers, self.settings.seed)
        self.producers.start()
        self.log("story", f"producers write to {first}")
        self.plane.write_manifests(self.servers)
        for name in ("account.yaml", "app-configmap.yaml"):
            self.apply(name)
        self.apply_clusters((first,))
        self.log("change", f"kubectl apply -f git/kafkastream.yaml: the stream reads {first}")
        for name in ("subscription.yaml", "sparkapplication.yaml"):
            self.apply(name)
        self.wait("the first rows in the sink", lambda: self.delivered[first] > 0)
        self.journal.began = time.time()
        self.log("story", "the first row is in the sink; times count from here")

    def close(self, *, keep: bool) -> None:
        """Stop everything. With `keep`, the logs stay in the run's folder."""
        self.screen.close()
        if self._producers is not None:
            self._producers.close()
        self.plane.close(keep_logs=keep)
        for cluster in self.clusters.values():
            cluster.close(keep_logs=keep)

    def erase(self) -> None:
        """Delete the run's folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def servers(self) -> dict[str, str]:
        """Return bootstrap servers by cluster."""
        return {name: cluster.bootstrap for name, cluster in self.clusters.items()}

    def apply(self, name: str) -> None:
        """Apply a file that does not change the stream."""
        self.plane.git.apply(name)
        self.log("story", f"kubectl apply -f git/{name}")

    def apply_clusters(self, names: tuple[str, ...]) -> float:
        """Apply the stream with these clusters; return the time at which kubectl was called."""
        began = self.plane.git.apply_stream(names)
        for name in set(names) - set(self.members):
            journal.begin(self.journal.member, name, began)
        self.draining = (self.draining | set(self.members)) - set(names)
        self.members = names
        return began

    def drained(self, cluster: str) -> bool:
        """Return whether a removed cluster has left the document."""
        return bool(self.plane.document) and cluster not in self.plane.document

    def log(self, kind: EventKind, text: str, at: float | None = None) -> None:
        """Add an event to the journal and the screen, with the time now or `at`."""
        event = journal.Event(time.time() if at is None else at, kind, text)
        self.journal.events.append(event)
        self.screen.add_event(event, self.journal.began)

    def wait(self, what: str, happened: Callable[[], object], seconds: float = PATIENCE_S) -> None:
        """Wait for an event. Raises StoryError at the deadline, and at once the failure of a driver or producer."""
        deadline = time.monotonic() + seconds
        while True:
            self.refresh()
            if happened():
                return
            if time.monotonic() > deadline:
                raise StoryError(
                    f"waited {seconds:.0f} s for {what}; the operator reports: {self.plane.operator_status()}\n"
                    f"log of the driver: {self.driver.log}\n{self.driver.log_tail()}"
                )
            time.sleep(_LOOK_S)

    def run_until(self, until: float) -> None:
        """Let the run go on until `until`, a share of its length."""
        end = self.journal.began + until * self.settings.duration
        while time.time() < end:
            self.refresh()
            time.sleep(_LOOK_S)

    def refresh(self) -> None:
        """Read sink and control plane, check driver and producers, and redraw the screen."""
        self.plane.refresh()
        if time.monotonic() - self._checked > _CHECK_S:
            self._checked = time.monotonic()
            self.driver.check()
        if self._producers is not None:
            self._producers.check()
        for batch in self.sink.follow():
            rows = sink.count(batch)
            self.delivered += rows
            self.batches[batch.number] = batch.visible_at, rows
        if time.monotonic() - self._shown > _SHOW_S:
            self._shown = time.monotonic()
            self.screen.show(self._state())

    def counted(self) -> dict[str, int]:
        """Return the records by cluster in the windows on event time."""
        return self._windows("counts")

    def late(self) -> dict[str, int]:
        """Return the late rows by cluster in these windows."""
        return self._windows("late")

    def _windows(self, part: str) -> dict[str, int]:
        try:
            return dict(json.loads((self.folder / "data" / "aggregate.json").read_text())[part])
        except FileNotFoundError:
            return {}

    def first_row(self, cluster: str, since: float) -> float | None:
        """Return when a row of `cluster` first became readable in the sink, at or after `since`; None if not yet."""
        seen = [at for at, rows in self.batches.values() if at >= since and rows[cluster]]
        return min(seen, default=None)

    def _state(self) -> State:
        produced = self.producers.counts() if self._producers is not None else {}
        homes = Counter(self._producers.homes if self._producers is not None else ())
        counted = self.counted()
        clusters = [
            ClusterState(
                name=name,
                running=cluster.broker.running,
                member=name in self.members,
                draining=name in self.draining,
                known=name in self.members or produced.get(name, 0) > 0,
                producers=homes[name],
                produced=produced.get(name, 0),
                delivered=self.delivered[name],
                counted=counted.get(name, 0),
            )
            for name, cluster in self.clusters.items()
        ]
        return State(
            elapsed=time.time() - self.journal.began,
            duration=self.settings.duration,
            clusters=clusters,
            starts=len(self.driver.pods),
            pid=self.driver.pid,
            batch=max(self.batches, default=None),
            kills=self.driver.kills,
            changes=len(self.journal.changes),
        )
