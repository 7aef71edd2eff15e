"""One Kafka broker as a process: its folder, its configuration, and the signals it gets.

`cluster.py` adds topics and clients. Linux only (parent-death signals, abstract
sockets).
"""

from __future__ import annotations

import base64
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.support.kafka.distribution import distribution
from tests.support.supervise import Process, last_lines

_HEAP = "256m"

_SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT,SASL_SSL:SASL_SSL",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A fifth of the default each: three brokers and Spark share two cores.
    "num.network.threads": "2",
    "num.io.threads": "4",
    # Its default takes half of our heap.
    "log.cleaner.dedupe.buffer.size": "2097152",
    # Retention is looked at from the start, and not after half a minute; how often is up to a test's
    # overrides.
    "log.initial.task.delay.ms": "500",
    # An idle broker otherwise writes twice a second to its metadata log, which is half of what it costs.
    "metadata.max.idle.interval.ms": "0",
}
_FIRST_START = {"broker.session.timeout.ms": "600000", "broker.heartbeat.interval.ms": "2000"}
_RESTART = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""How long the controller waits for heartbeats. After a pause it may look for them before the broker sends one. Once
the time is over, no partition has a leader for up to a second.

After kill -9 it takes a broker back only when its former session has ended.
"""

_LOGGING = """\
<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="{file}"><PatternLayout pattern="%d %p [%t] %c{{1}} %m%n"/></File>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


def random_id() -> str:
    """Return a new id in Kafka's form: a random UUID, base64 for URLs, without a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class Broker(Process):
    """A broker and controller in one process, on fixed ports, with all it writes in one folder.

    Attributes:
        folder: holds `data`, `server.properties`, `server.log` and `output.log` (what the JVM itself says).
        kafka_id: the `cluster.id` of the data.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Prepare a broker without starting it; `settings` override the harness's own and must name the listeners."""
        super().__init__(f"The broker in {folder}", folder / "output.log")
        self.folder = folder
        self.kafka_id = random_id()
        self._data = folder / "data"
        self._settings = {"log.dirs": str(self._data), **settings}

    def start(self, *, dump_classes: Path | None = None) -> None:
        """Start on the data there is, or format new. Returns at once. Does nothing when it runs.

        `dump_classes` makes the JVM write a class archive there when it stops.
        """
        if self.running:
            return
        kafka = distribution()
        is_new = self._format(kafka.bootstrap_checkpoint)
        settings = {**_SETTINGS, **(_FIRST_START if is_new else _RESTART), **self._settings}
        properties = self._write("server.properties", "".join(f"{k}={v}\n" for k, v in settings.items()))
        logging = self._write("log4j2.xml", _LOGGING.format(file=self.folder / "server.log"))
        options = [f"-Xmx{_HEAP}", f"-Dlog4j2.configurationFile={logging}"]
        options.append(f"-Djava.io.tmpdir={self.folder}")
        if dump_classes is not None:
            options.append(f"-XX:ArchiveClassesAtExit={dump_classes}")
        elif kafka.class_archive.exists():
            options.append(f"-XX:SharedArchiveFile={kafka.class_archive}")
        self.launch(kafka.command("kafka.Kafka", str(properties), options=tuple(options)))

    def erase(self) -> None:
        """Kill it and delete its data: the next start is another cluster, with another `kafka_id`."""
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)
        self.kafka_id = random_id()

    def last_words(self) -> str:
        """Return the last lines of the broker's logs, for messages."""
        return last_lines(self.log, self.folder / "server.log")

    def _format(self, bootstrap_checkpoint: Path) -> bool:
        """Do the work of `kafka-storage format` without its JVM: mark the folder, add the feature levels.

        Return whether there were no data yet.
        """
        marker = self._data / "meta.properties"
        if marker.exists():
            return False
        self._data.mkdir(parents=True, exist_ok=True)
        shutil.copy(bootstrap_checkpoint, self._data)
        marker.write_text(f"version=1\ncluster.id={self.kafka_id}\nnode.id=1\ndirectory.id={random_id()}\n")
        return True

    def _write(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(content)
        return path
