"""`make brokers`: two real Kafka clusters on this machine, for docs/tutorial.md and for trying things out.

Runs until Ctrl-C, and leaves nothing running. `build/tutorial` gets `app.yaml`, the metadata document `streams.yaml`,
and three versions of it to put in its place.

    python -m brokers                                    start the clusters `east` and `west`
    python -m brokers produce HOST:PORT TEXT [TEXT …]    write records to the topic `orders` of one of them
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import yaml
from confluent_kafka import Producer

from tests.support.kafka import KafkaCluster, start_all
from tests.support.places import BUILD, ROOT

FOLDER = BUILD / "tutorial"
TOPIC = "orders"
PRODUCED_S = 20.0


def main(arguments: Sequence[str]) -> int:
    """Start brokers, or produce to one. Returns the exit code."""
    if not arguments:
        return run()
    if arguments[0] != "produce" or len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    return produce(arguments[1], arguments[2:])


def run() -> int:
    """Start both clusters, say how to use them, and stay until Ctrl-C or SIGTERM."""
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
    print("\nstopped; build/tutorial stays until `make brokers` begins anew")
    return 0


def write_files(folder: Path, servers: Mapping[str, str]) -> None:
    """A new folder with an application and its metadata, which names `east` to begin with."""
    shutil.rmtree(folder, ignore_errors=True)  # its checkpoint belongs to clusters that are gone
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
    """One YAML file."""
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def usage(servers: Mapping[str, str]) -> str:
    """What is there, and how to produce."""
    lines = [f"{name}  {at}" for name, at in servers.items()]
    at = servers["east"]
    return "\n".join(
        [
            *lines,
            f"\nTopic `{TOPIC}` is in both. Its metadata: {FOLDER.relative_to(ROOT)}/streams.yaml (east). Produce with",
            f"  make produce TO={at} TEXT='one two three'",
            "or any Kafka client. The tutorial: docs/tutorial.md. Ctrl-C ends both clusters.",
        ]
    )


def produce(server: str, texts: Sequence[str]) -> int:
    """Write texts as records; returns 1 if the broker has not confirmed them in time."""
    producer = Producer({"bootstrap.servers": server, "message.timeout.ms": int(PRODUCED_S * 1000)})
    failed: list[str] = []
    for text in texts:
        producer.produce(
            TOPIC, text.encode(), on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
    left = producer.flush(PRODUCED_S + 1)
    if left or failed:
        print(f"{server}: {failed[0] if failed else 'no answer'}; is `make brokers` running?", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
