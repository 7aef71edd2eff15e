"""The project's images, built from the Dockerfile at the root by buildah, as archives for `ctr images import`.

`python -m tests.support.images` builds both and prints their archives. No registry is needed: the bases are stand-ins
(`bases.py`). Two things in the user's cache make a second build quick. `images` is buildah's store with the layers: a
change of the project's code builds the last layer only. Each archive's folder, `image-…`, is named after its inputs.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.support.images import bases, engine
from tests.support.images.archives import archived
from tests.support.images.engine import ImagesUnavailableError as ImagesUnavailableError
from tests.support.places import ROOT

Target = Literal["operator", "spark-app"]

TARGETS: tuple[Target, ...] = ("operator", "spark-app")
_NAMES = {"operator": "kafkastream-operator", "spark-app": "dynamic-kafka"}
_LOCKS = {"operator": "operator.lock", "spark-app": "spark-image.lock"}
_PACKAGES = {"operator": "operator-packages", "spark-app": "spark-packages"}


@dataclass(frozen=True)
class Image:
    """An image in buildah's store and as an archive.

    Attributes:
        target: the stage of the Dockerfile.
        reference: its name and tag. The tag has a hash of all inputs, so that no node takes an older one for it.
        archive: a tar file in Docker's format, with uncompressed layers.
        config: its configuration: `User`, `Env`, `Entrypoint`, `Labels`, …
    """

    target: Target
    reference: str
    archive: Path
    config: dict[str, Any]

    def run(self, command: Sequence[str], *, writable: Sequence[str] = ("/tmp",)) -> subprocess.CompletedProcess[str]:
        """Run a command in the image: as its user, with its environment and with a read-only root.

        Args:
            command: as a pod gives it; it replaces the entrypoint.
            writable: folders with a file system in memory, as a pod's `emptyDir`.
        """
        with engine.store():
            if not engine.has(self.reference):
                engine.buildah("pull", f"docker-archive:{self.archive}")
            return engine.run_inside(self.reference, self.config, command, writable)


def version() -> str:
    """Return the version of the package."""
    number: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return number


def built(target: Target, *, revision: str = "") -> Image:
    """Return an image, and build it if it is not there yet: two minutes the first time, else seconds.

    Args:
        revision: of the source, as a label has it. Another one makes another image, with a name of its own.

    Raises:
        ImagesUnavailableError: this machine cannot build images.
        StepFailedError: a step of the build failed.
    """
    prefix = f"{revision}-" if revision else ""
    reference = f"localhost/{prefix}{_NAMES[target]}:{version()}-{_key(target, revision)}"
    folder = archived(f"{prefix}{target}", reference, lambda: _build(target, reference, revision))
    return Image(target, reference, folder / "image.tar", json.loads((folder / "config.json").read_text()))


def _build(target: Target, reference: str, revision: str) -> None:
    base, of_spark = bases.python_base(), target == "spark-app"
    base = bases.spark_base(base) if of_spark else base
    with engine.scratch() as context:
        subprocess.run([ROOT / ".ci" / "dist", context / "dist"], check=True)
        (context / "requirements").mkdir()
        shutil.copy(ROOT / "requirements" / _LOCKS[target], context / "requirements")
        shutil.copy(ROOT / ".dockerignore", context)
        arguments = {"SPARK_IMAGE" if of_spark else "PYTHON_IMAGE": base, "VERSION": version(), "REVISION": revision}
        # With a name of its own the stage stays in the store, and with it the packages.
        for stage, name in ((_PACKAGES[target], f"localhost/{_PACKAGES[target]}"), (target, reference)):
            engine.build(ROOT / "Dockerfile", context, name, arguments, stage=stage)
    engine.buildah("rmi", "--prune")


def _key(target: Target, revision: str) -> str:
    digest = hashlib.sha256(f"{bases.key(with_spark=target == 'spark-app')}{revision}".encode())
    for path in _inputs(target):
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _inputs(target: Target) -> Iterator[Path]:
    yield ROOT / "Dockerfile"
    yield ROOT / ".dockerignore"
    yield ROOT / "requirements" / _LOCKS[target]
    yield ROOT / ".ci" / "dist"
    for name in _wheel_sources():
        path = ROOT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and not {"__pycache__"} & set(file.parts))


def _wheel_sources() -> list[str]:
    """Return the files and folders of which `.ci/dist` builds the wheel."""
    [names] = re.findall(r"^sources=\((.*)\)$", (ROOT / ".ci" / "dist").read_text(), re.MULTILINE)
    return str(names).split()
