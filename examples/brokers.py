"""`make brokers`: two real Kafka clusters on this machine, for docs/start/tutorial.md and for experiments.

Runs until Ctrl-C, and leaves no process. `build/tutorial` gets `app.yaml`, the metadata document `streams.yaml`, and
three other versions of that document.

    python -m brokers                                              start the clusters `east` and `west`
    python -m brokers produce east|west|HOST:PORT TEXT [TEXT …]    write records to the topic `orders` of one of them
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import yaml
from confluent_kafka import KafkaError, Producer

from tests.support.kafka import KafkaCluster, start_all
from tests.support.places import BUILD, ROOT

FOLDER = BUILD / "tutorial"
TOPIC = "orders"
PRODUCED_S = 20.0


def main(arguments: Sequence[str]) -> int:
    """Start the clusters, or produce to one. Returns the exit code."""
    if not arguments:
        return run_alone()
    if arguments[0] != "produce" or len(arguments) < 3:
        print("make brokers, or make produce TO=east|west|HOST:PORT TEXT='one two three'", file=sys.stderr)
        return 2
    return produce(arguments[1], arguments[2:])


def run_alone() -> int:
    """Call `run`, unless it runs already: a second run would delete the files of the first."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "tutorial.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                "`make brokers` runs already: use its clusters, or end it with Ctrl-C in its terminal", file=sys.stderr
            )
            return 2
        return run()


def run() -> int:
    """Start both clusters, print how to use them, and wait for Ctrl-C or SIGTERM."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with KafkaCluster("east") as east, KafkaCluster("west") as west:
        start_all([east, west])
        for cluster in (east, west):
            cluster.create_topic(TOPIC)
        servers = {cluster.name: cluster.bootstrap for cluster in (east, west)}
        write_files(FOLDER, servers)
        print(usage(servers), flush=True)
        ended.wait()
    print("\nstopped; the next `make brokers` deletes build/tutorial")
    return 0


def write_files(folder: Path, servers: Mapping[str, str]) -> None:
    """Create a folder with an application and its metadata, which names `east` at first."""
    shutil.rmtree(folder, ignore_errors=True)  # its checkpoint belongs to deleted clusters
    folder.mkdir(parents=True)
    for name, clusters in (("streams", ["east"]), ("east", ["east"]), ("both", ["east", "west"]), ("west", ["west"])):
        listed = [{"clusterId": c, "bootstrapServers": servers[c], "topics": [TOPIC]} for c in clusters]
        write(folder / f"{name}.yaml", [{"streamId": TOPIC, "clusterMetadataList": listed}])
    write(
        folder / "app.yaml",
        {
            "name": "tutorial",
            "metadata": str(folder / "streams.yaml"),
            "streams": {"ids": [TOPIC]},
            "options": {"startingOffsets": "earliest"},
            "transformation": {"sql": "SELECT kafka_cluster, offset, CAST(value AS STRING) AS value FROM stream"},
            "trigger": {"interval": "1s"},
            "checkpoint": str(folder / "checkpoint"),
            "sinks": [{"name": "screen", "type": "console"}],
        },
    )


def write(path: Path, content: object) -> None:
    """Write one YAML file."""
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def usage(servers: Mapping[str, str]) -> str:
    """Return what is running, and how to produce."""
    lines = [f"{name}  {at}" for name, at in servers.items()]
    return "\n".join(
        [
            *lines,
            f"\nTopic `{TOPIC}` is in both. Its metadata: {FOLDER.relative_to(ROOT)}/streams.yaml (east). Produce with",
            "  make produce TO=east TEXT='one two three'",
            "or any Kafka client. The tutorial: docs/start/tutorial.md. Ctrl-C ends both clusters.",
        ]
    )


def find(to: str, folder: Path) -> str | None:
    """Return the servers of a cluster by its name, or `to` itself if it is HOST:PORT; None if it is neither."""
    if ":" in to:
        return to
    with suppress(FileNotFoundError):
        stream = yaml.safe_load((folder / "both.yaml").read_text())[0]
        return next((str(c["bootstrapServers"]) for c in stream["clusterMetadataList"] if c["clusterId"] == to), None)
    return None


def produce(to: str, texts: Sequence[str]) -> int:
    """Write texts as records. Returns 1 if the broker does not confirm them in time, 2 if there is no such cluster."""
    server = find(to, FOLDER)
    if server is None:
        print(f"{to}: neither `east` nor `west` of a running `make brokers`, nor HOST:PORT", file=sys.stderr)
        return 2
    # No log of librdkafka: it would repeat each failed attempt, and the error below has the reason.
    producer = Producer({"bootstrap.servers": server, "message.timeout.ms": int(PRODUCED_S * 1000), "log_level": 0})
    failed: list[str] = []

    def note_failure(error: KafkaError | None, message: object) -> None:
        if error:
            failed.append(error.str())

    for text in texts:
        producer.produce(TOPIC, text.encode(), on_delivery=note_failure)
    left = producer.flush(PRODUCED_S + 1)
    if left or failed:
        why = failed[0] if failed else f"no answer within {PRODUCED_S:g} s"
        print(f"{to} ({server}): {why}; is `make brokers` running?", file=sys.stderr)
        return 1
    records = "1 record" if len(texts) == 1 else f"{len(texts)} records"
    print(f"wrote {records} to topic {TOPIC} of {to} ({server}): {' '.join(texts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
