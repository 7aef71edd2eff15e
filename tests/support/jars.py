"""Java archives by Maven, kept in the user's cache so that a fresh clone does not fetch them again.

A pom's folder in the cache is named after its artifact, version and a hash of the file, so another pom is
another folder. Runs in test sessions and the demo, through `tests.support.kafka`, and in `make setup`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.support.cache import cache_folder, made_once


class JarsUnavailableError(RuntimeError):
    """Maven is missing or failed; the message ends with what it printed."""


def jars(pom: Path) -> Path:
    """Return the folder with all jars that `pom` depends on; Maven resolves them the first time.

    Raises:
        JarsUnavailableError: Maven is missing, or failed.
    """
    return made_once(_folder_name(pom), lambda arriving: _resolve(pom, arriving))


def _folder_name(pom: Path) -> str:
    content = pom.read_bytes()
    project = ET.fromstring(content)
    namespace = {"m": "http://maven.apache.org/POM/4.0.0"}
    artifact = project.findtext("m:artifactId", namespaces=namespace)
    version = project.findtext("m:version", namespaces=namespace)
    return f"{artifact}-{version}-{hashlib.sha256(content).hexdigest()[:12]}"


def _resolve(pom: Path, arriving: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailableError(f"{pom} needs Maven, and no mvn is on the path: install Maven and a JDK.")
    print(f"Fetching the jars of {_folder_name(pom)} into {cache_folder()}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=arriving.parent) as scratch:
        # Maven resolves a pom in its own folder and may write beside it: give it a copy.
        copy = Path(shutil.copy(pom, scratch))
        command = [maven, "-B", "-q", "-f", str(copy), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={arriving}", "-DincludeScope=runtime"]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise JarsUnavailableError(f"Maven could not resolve {pom}:\n{done.stdout[-4000:]}")
