"""The files that every broker starts from: a JVM, jars, a bootstrap checkpoint, and a class archive.

Prepared once per machine into the user's cache, keyed by the jars and the JDK. Used by `broker.py`;
`warm_up.py` adds the class archive (`make setup`), which halves the start; brokers do without.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.cache import cache_folder
from tests.support.jars import jars
from tests.support.java import find_java, java_fingerprint
from tests.support.kafka.errors import BrokerError
from tests.support.places import KAFKA_POM

# Brokers live for minutes and do little: a quick start matters more than peak speed.
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")


@dataclass(frozen=True)
class Distribution:
    """Kafka and a JVM to run it.

    Attributes:
        java: the JVM's executable.
        classpath: all jars, in a fixed order (a class archive is only valid for one order).
        bootstrap_checkpoint: the feature levels of a new cluster, as `kafka-storage format` writes them. It
            holds no cluster id, so one file serves all clusters, and formatting costs no JVM.
        class_archive: where the class archive is, or would be.
    """

    java: Path
    classpath: str
    bootstrap_checkpoint: Path
    class_archive: Path

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs `main`."""
        return [str(self.java), *_QUICK_START, *options, "-cp", self.classpath, main, *arguments]


@functools.cache
def distribution() -> Distribution:
    """Return this machine's distribution, and prepare it at the first call.

    Raises:
        JarsUnavailableError: Maven is missing, or failed.
        BrokerError: there is no JVM, or Kafka cannot format a folder.
    """
    java = find_java()
    if java is None:
        raise BrokerError("No JVM: install a JDK >= 17, or point JAVA_HOME to one.")
    folder = jars(KAFKA_POM)
    prepared = cache_folder() / f"{folder.name}-{java_fingerprint(java)}"
    prepared.mkdir(parents=True, exist_ok=True)
    kafka = Distribution(
        java=java,
        classpath=os.pathsep.join(sorted(str(jar) for jar in folder.glob("*.jar"))),
        bootstrap_checkpoint=prepared / "bootstrap.checkpoint",
        class_archive=prepared / "classes.jsa",
    )
    if not kafka.bootstrap_checkpoint.exists():
        _write_bootstrap_checkpoint(kafka)
    return kafka


def _write_bootstrap_checkpoint(kafka: Distribution) -> None:
    target = kafka.bootstrap_checkpoint
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        properties = Path(scratch) / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            "controller.quorum.voters=1@127.0.0.1:1\n"
            "controller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\n"
            f"log.dirs={scratch}/data\n"
        )
        cluster_id = "AAAAAAAAAAAAAAAAAAAAAQ"
        command = kafka.command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties))
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise BrokerError(f"Kafka could not format a storage folder:\n{done.stdout[-4000:]}")
        (Path(scratch) / "data" / target.name).rename(target)
