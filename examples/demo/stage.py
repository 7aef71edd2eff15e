"""What the story plays on: brokers, producers, the control plane, the driver, and a way to wait for events while all of
it is shown.

Everything here waits for something to be true, with a deadline; nothing is taken for granted because time has passed.
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
"""How long any one event may take on a machine that has other things to do."""
_LOOK_S = 0.05
_SHOW_S = 0.25
_CHECK_S = 1.0


class StoryError(Exception):
    """Something that has to happen did not."""


class Stage:
    """The whole set-up of one run, opened by `open` and left by `close`.

    Attributes:
        members: the clusters that the stream has in Git.
        draining: the clusters that it had, and that are read until they are drained.
        delivered: rows by cluster as the sink's log has them so far.
        batches: {number: (when it could be read, rows by cluster)}.
    """

    def __init__(self, settings: Settings, folder: Path, screen: Screen) -> None:
        """`folder` is created and holds all data of the run. Starts nothing."""
        folder.mkdir(parents=True)
        self.settings = settings
        self.folder = folder
        self.screen = screen
        self.clusters: dict[str, KafkaCluster] = {}
        self.plane = ControlPlane(settings, folder)
        self.driver = Driver(lambda: self.plane.node, self.plane.life)
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
        """The producers. They exist once `open` is through."""
        assert self._producers is not None
        return self._producers

    def open(self) -> None:
        """Start brokers, control plane and producers; apply the manifests; wait for the driver's first batch."""
        self.say("story", "starting three Kafka clusters, and a Kubernetes API server with its controllers")
        self.clusters |= {name: KafkaCluster(name.lower()) for name in CLUSTERS}
        with ThreadPoolExecutor(1, "brokers") as aside:
            brokers = aside.submit(start_all, self.clusters.values())
            self.plane.open(lambda text: self.say("story", text))
            brokers.result()
        now = time.time()
        for name, cluster in self.clusters.items():
            cluster.create_topic(TOPIC, PARTITIONS)
            journal.begin(self.journal.broker, name, now)
        first = CLUSTERS[0]
        self._producers = Producers(first, self.servers, self.settings.seed)
        self.producers.start()
        self.say("story", f"producers write to {first}")
        self.plane.write_manifests(self.servers)
        for name in ("account.yaml", "app-configmap.yaml"):
            self.apply(name)
        self.name_clusters((first,))
        self.say("change", f"kubectl apply -f git/kafkastream.yaml: the stream lives on {first}")
        for name in ("subscription.yaml", "sparkapplication.yaml"):
            self.apply(name)
        self.wait("the first rows in the sink", lambda: self.delivered[first] > 0)
        self.journal.began = time.time()
        self.say("story", "the first row is in the sink: the clock starts here")

    def close(self, *, keep: bool) -> None:
        """Stop all that runs; with `keep` the logs stay, below the run's folder."""
        self.screen.close()
        if self._producers is not None:
            self._producers.close()
        self.plane.close(keep_logs=keep)
        for cluster in self.clusters.values():
            cluster.close(keep_logs=keep)

    def erase(self) -> None:
        """Delete the data."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def servers(self) -> dict[str, str]:
        """Bootstrap servers by cluster."""
        return {name: cluster.bootstrap for name, cluster in self.clusters.items()}

    def apply(self, name: str) -> None:
        """`kubectl apply` of a file that does not change the stream."""
        self.plane.git.apply(name)
        self.say("story", f"kubectl apply -f git/{name}")

    def name_clusters(self, names: tuple[str, ...]) -> float:
        """`kubectl apply` of the stream with these clusters; returns when kubectl was called."""
        began = self.plane.git.apply_stream(names)
        for name in set(names) - set(self.members):
            journal.begin(self.journal.member, name, began)
        self.draining = (self.draining | set(self.members)) - set(names)
        self.members = names
        return began

    def drained(self, cluster: str) -> bool:
        """Whether the document, which had a removed cluster as draining, no longer has it."""
        return bool(self.plane.document) and cluster not in self.plane.document

    def say(self, kind: EventKind, text: str, at: float | None = None) -> None:
        """Tell what happened, now or `at` a moment."""
        event = journal.Event(time.time() if at is None else at, kind, text)
        self.journal.events.append(event)
        self.screen.say(event, self.journal.began)

    def wait(self, what: str, happened: Callable[[], object], seconds: float = PATIENCE_S) -> None:
        """Wait for an event. Raises `StoryError` at the deadline, and at once what the driver or a producer died of."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            if happened():
                return
            if time.monotonic() > deadline:
                raise StoryError(
                    f"waited {seconds:.0f} s for {what}; the operator says: {self.plane.says()}\n"
                    f"log of the driver: {self.driver.log}\n{self.driver.last_words()}"
                )
            time.sleep(_LOOK_S)

    def linger(self, until: float) -> None:
        """Let it run until `until` (a share of the run's length), if it is not that late already."""
        end = self.journal.began + until * self.settings.duration
        while time.time() < end:
            self.look()
            time.sleep(_LOOK_S)

    def look(self) -> None:
        """Take in what sink and control plane say, check that all live, and refresh the screen."""
        self.plane.look()
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
        """What the running aggregate says, by cluster."""
        try:
            return dict(json.loads((self.folder / "data" / "aggregate.json").read_text())["counts"])
        except FileNotFoundError:
            return {}

    def first_row(self, cluster: str, since: float) -> float | None:
        """When the first row of `cluster` could be read in the sink at or after `since`."""
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
            lives=len(self.driver.lives),
            pid=self.driver.pid,
            batch=max(self.batches, default=None),
            kills=self.driver.kills,
            changes=len(self.journal.changes),
        )
