"""What the story plays on: brokers, producers, the driver, and a way to wait for events while all of it is shown.

Everything here waits for something to be true, with a deadline; nothing is taken for granted because time has passed.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from demo import journal, sink
from demo.checkpoint import Checkpoint
from demo.documents import write_streams
from demo.driver import Driver
from demo.journal import EventKind, Journal
from demo.producers import Producers
from demo.screen import ClusterState, Screen, State
from demo.settings import CLUSTERS, PARTITIONS, TOPIC, Settings
from tests.support.kafka import KafkaCluster, start_all

PATIENCE_S = 180.0
"""How long any one event may take on a machine that has other things to do."""
_LOOK_S = 0.05
_SHOW_S = 0.25


class StoryError(Exception):
    """Something that has to happen did not."""


class Stage:
    """The whole set-up of one run, opened by `open` and left by `close`.

    Attributes:
        members: the clusters that the metadata names.
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
        self.driver = Driver(folder)
        self.sink = sink.Sink(folder / "sink")
        self.parquet = Checkpoint(folder / "checkpoint" / "parquet")
        self.aggregate = Checkpoint(folder / "checkpoint" / "aggregate")
        self.journal = Journal(began=time.time())
        self.members: tuple[str, ...] = ()
        self.delivered: Counter[str] = Counter()
        self.batches: dict[int, tuple[float, Counter[str]]] = {}
        self._producers: Producers | None = None
        self._shown = 0.0

    @property
    def producers(self) -> Producers:
        """The producers. They exist once `open` is through."""
        assert self._producers is not None
        return self._producers

    def open(self) -> None:
        """Start the brokers, the producers on the first cluster, and the driver; wait for its first batch."""
        self.say("story", "starting three Kafka clusters")
        self.clusters |= {name: KafkaCluster(name.lower()) for name in CLUSTERS}
        start_all(self.clusters.values())
        now = time.time()
        for name, cluster in self.clusters.items():
            cluster.create_topic(TOPIC, PARTITIONS)
            journal.begin(self.journal.broker, name, now)
        first = CLUSTERS[0]
        self._producers = Producers(first, self.servers, self.settings.seed)
        self.name_clusters((first,))
        self.producers.start()
        self.say("story", f"producers write to {first}; starting the driver, whose stream lives on {first}")
        self.driver.start()
        self.wait("the first rows in the sink", lambda: self.delivered[first] > 0)
        self.journal.began = time.time()
        self.say("story", "the first row is in the sink: the clock starts here")

    def close(self) -> None:
        """Stop all that runs. The data go as well, unless they are to be kept."""
        self.screen.close()
        if self._producers is not None:
            self._producers.close()
        self.driver.close()
        for cluster in self.clusters.values():
            cluster.close(keep_logs=self.settings.keep)

    def erase(self) -> None:
        """Delete the data."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def servers(self) -> dict[str, str]:
        """Bootstrap servers by cluster."""
        return {name: cluster.bootstrap for name, cluster in self.clusters.items()}

    def name_clusters(self, names: tuple[str, ...]) -> float:
        """Replace the metadata file; returns when the new one was in place."""
        write_streams(self.folder / "streams.yaml", names, self.servers)
        now = time.time()
        for name in set(names) - set(self.members):
            journal.begin(self.journal.member, name, now)
        for name in set(self.members) - set(names):
            journal.end(self.journal.member, name, now)
        self.members = names
        return now

    def say(self, kind: EventKind, text: str) -> None:
        """Tell what happened."""
        event = journal.Event(time.time(), kind, text)
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
                    f"waited {seconds:.0f} s for {what}; log of the driver: {self.driver.log}\n"
                    f"{self.driver.last_words()}"
                )
            time.sleep(_LOOK_S)

    def linger(self, until: float) -> None:
        """Let it run until `until` (a share of the run's length), if it is not that late already."""
        end = self.journal.began + until * self.settings.duration
        while time.time() < end:
            self.look()
            time.sleep(_LOOK_S)

    def look(self) -> None:
        """Take in what the sink has committed, check that all live, and refresh the screen."""
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
            return dict(json.loads((self.folder / "aggregate.json").read_text())["counts"])
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
            lives=len(self.driver.starts),
            pid=self.driver.starts[-1] if self.driver.starts else None,
            batch=max(self.batches, default=None),
            kills=self.driver.kills,
            changes=len(self.journal.changes),
        )
