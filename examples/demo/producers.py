"""Live producers of numbered records. Each writes to one cluster at a time, and moves to another when the story asks.

One thread sends for all of them. A record counts as produced when its broker has confirmed it. The clients are
idempotent, so a retry inside them writes no record twice.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections import defaultdict
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from demo.proof import Split
from demo.settings import END_OF_DAY, PARTITIONS, TOPIC

COUNT = 6
"""Number of producers."""
RATE = 240
"""Records a second of one producer, on average."""

_TICK_S = 0.02
_FLUSH_S = 60.0


class ProducerError(Exception):
    """A record was refused, or not confirmed in time: the demo's own numbers would be wrong."""


class Producers:
    """`COUNT` producers.

    Attributes:
        homes: the cluster that each producer writes to.
    """

    def __init__(self, home: str, servers: dict[str, str], seed: int, rate: float = RATE) -> None:
        """Put all producers on the cluster `home`. `servers` has bootstrap servers by cluster. Sends nothing."""
        self.homes = [home] * COUNT
        self._rate = rate
        self._servers = servers
        self._random = random.Random(seed)
        self._phase = self._random.uniform(0, 2 * math.pi)
        self._clients: dict[str, Producer] = {}
        self._numbers: dict[Split, int] = defaultdict(int)
        self._confirmed: dict[Split, dict[int, int]] = defaultdict(dict)
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="producers", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def move(self, count: int, target: str) -> None:
        """Move up to `count` producers from other clusters to `target`."""
        with self._lock:
            elsewhere = [number for number, home in enumerate(self.homes) if home != target]
            for number in elsewhere[:count]:
                self.homes[number] = target

    def burst(self, cluster: str, count: int) -> None:
        """Send `count` additional records to `cluster` at once."""
        with self._lock:
            for number in range(count):
                self._send(cluster, number % PARTITIONS)

    def finish(self, cluster: str) -> None:
        """Wait until a cluster without producers has confirmed all records, and close its client."""
        with self._lock:
            if cluster in self.homes:
                raise ProducerError(f"producers still send to {cluster}")
            client = self._clients.pop(cluster, None)
        if client is not None and client.flush(_FLUSH_S):
            raise ProducerError(f"cluster {cluster} did not confirm all records within {_FLUSH_S:.0f} s")
        self.check()

    def stop(self) -> None:
        """Stop all producers, and wait until every record is confirmed."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
        self.pause()

    def end_day(self, cluster: str) -> None:
        """Send the end of the day to each partition of a cluster, and a numbered record behind it; await both.

        Neither counts as produced, and nobody may read them.
        """
        client = self._connect(cluster)
        for partition in range(PARTITIONS):
            number = self._numbers[cluster, partition]
            behind = json.dumps({"cluster": cluster, "partition": partition, "sequence": number})
            for value in (END_OF_DAY, behind.encode()):
                client.produce(TOPIC, value, partition=partition)
        self.finish(cluster)

    def pause(self) -> list[str]:
        """Send nothing until `resume`, wait until every record is confirmed, and return the homes for `resume`."""
        with self._lock:
            homes, self.homes = self.homes, []
        for cluster in list(self._clients):
            self.finish(cluster)
        return homes

    def resume(self, homes: list[str]) -> None:
        """Send on after `pause`."""
        with self._lock:
            self.homes = homes

    def close(self) -> None:
        """Stop without waiting for the brokers."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
        for client in self._clients.values():
            client.purge()

    def check(self) -> None:
        """Raise ProducerError if the sending thread or a broker has failed."""
        if self._problem is not None:
            raise ProducerError(self._problem)

    def counts(self) -> dict[str, int]:
        """Return the confirmed records by cluster."""
        with self._lock:
            confirmed: dict[str, int] = defaultdict(int)
            for (cluster, _), known in self._confirmed.items():
                confirmed[cluster] += len(known)
            return dict(confirmed)

    def ends(self, cluster: str) -> dict[int, int]:
        """Return {partition: offset after the last confirmed record}, without empty partitions."""
        with self._lock:
            return {
                partition: max(known.values()) + 1
                for (name, partition), known in self._confirmed.items()
                if name == cluster and known
            }

    def confirmed(self) -> dict[Split, dict[int, int]]:
        """Return {(cluster, partition): {sequence: offset}} of all confirmed records."""
        with self._lock:
            return {split: dict(known) for split, known in self._confirmed.items()}

    # In the thread

    def _run(self) -> None:
        owed, last, turn = 0.0, time.monotonic(), 0
        try:
            while not self._end.wait(_TICK_S):
                now = time.monotonic()
                # All producers send alike, so that moving one moves its load. A late tick sends at most 0.25 s of
                # records: it must not flood a slow machine.
                owed += min(now - last, 0.25) * self._rate * self._wave(now)
                last = now
                with self._lock:
                    for _ in range(int(owed)):
                        turn += 1
                        for home in self.homes:
                            self._send(home, turn % PARTITIONS)
                    owed -= int(owed)
                    clients = list(self._clients.values())
                for client in clients:
                    client.poll(0)
        except Exception as error:
            self._problem = f"the producers' thread ended: {error!r}"

    def _wave(self, now: float) -> float:
        return 1 + 0.3 * math.sin(now / 7 + self._phase) + self._random.uniform(-0.15, 0.15)

    def _send(self, cluster: str, partition: int) -> None:
        client = self._clients.get(cluster) or self._connect(cluster)
        number = self._numbers[cluster, partition]
        value = json.dumps({"cluster": cluster, "partition": partition, "sequence": number})
        client.produce(
            TOPIC,
            value,
            partition=partition,
            on_delivery=partial(self._delivered, cluster, partition, number),
        )
        self._numbers[cluster, partition] = number + 1

    def _connect(self, cluster: str) -> Producer:
        self._clients[cluster] = Producer(
            {
                "bootstrap.servers": self._servers[cluster],
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        return self._clients[cluster]

    def _delivered(self, cluster: str, partition: int, number: int, error: KafkaError | None, message: Message) -> None:
        """Note a confirmation. The client calls it in `poll` and `flush`, so without the lock."""
        if error is not None:
            self._problem = f"cluster {cluster} refused record {number} of partition {partition}: {error}"
            return
        offset = message.offset()
        assert offset is not None
        with self._lock:
            self._confirmed[cluster, partition][number] = offset
