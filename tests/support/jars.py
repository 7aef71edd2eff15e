"""Java archives by Maven, kept in a user cache so that a fresh clone does not fetch them again.

A pom's folder in the cache is named after its artifact, version and a hash of the file, so another pom is
another folder. Runs in test sessions and the demo, through `tests.support.kafka`, and in `make setup`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path


class JarsUnavailableError(RuntimeError):
    """Maven is missing or failed; the message ends with what it printed."""


def cache_folder() -> Path:
    """The user's cache: `$XDG_CACHE_HOME/dynamic-kafka`, by default below `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dynamic-kafka"


def jars(pom: Path) -> Path:
    """The folder with all jars that `pom` depends on; resolved by Maven the first time.

    Safe against interruption and against a second process: Maven writes to a folder beside it, which is
    renamed when complete. Raises `JarsUnavailableError`.
    """
    target = cache_folder() / _folder_name(pom)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _resolve(pom, target)
    return target


def _folder_name(pom: Path) -> str:
    content = pom.read_bytes()
    project = ET.fromstring(content)
    namespace = {"m": "http://maven.apache.org/POM/4.0.0"}
    artifact = project.findtext("m:artifactId", namespaces=namespace)
    version = project.findtext("m:version", namespaces=namespace)
    return f"{artifact}-{version}-{hashlib.sha256(content).hexdigest()[:12]}"


def _resolve(pom: Path, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailableError(f"{pom} needs Maven, and no mvn is on the path: install Maven and a JDK.")
    print(f"Fetching the jars of {target.name} into {target.parent}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        # Maven resolves a pom in its own folder and may write beside it: give it a copy.
        copy = Path(shutil.copy(pom, scratch))
        arriving = Path(scratch) / "jars"
        command = [maven, "-B", "-q", "-f", str(copy), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={arriving}", "-DincludeScope=runtime"]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise JarsUnavailableError(f"Maven could not resolve {pom}:\n{done.stdout[-4000:]}")
        arriving.rename(target)
