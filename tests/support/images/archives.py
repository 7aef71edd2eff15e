"""Archives of images in the user's cache: each is made once, and older ones are removed.

`archived` is called for the project's images and for the spark-operator's.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.cache import cache_folder, made_once
from tests.support.images import bases, engine

_KEPT = 3
_BASES = ("localhost/stand-in-python", "localhost/stand-in-spark")


def archived(name: str, reference: str, build: Callable[[], None]) -> Path:
    """Return the folder with `image.tar` and `config.json` of an image; call `build` if it is not there yet.

    Args:
        name: the image in the name of its folder.
        reference: its name and tag. The tag ends with a hash of all inputs, after a hyphen if more precedes it.
        build: builds the image in the store, which is held meanwhile.

    Raises:
        ImagesUnavailableError: this machine cannot build images.
        StepFailedError: a step of the build failed.
    """
    engine.require()

    def make(arriving: Path) -> None:
        began = time.monotonic()
        print(f"Building the image {name} in {cache_folder()}", file=sys.stderr)
        arriving.mkdir()
        with engine.store():
            build()
            engine.buildah("push", reference, f"docker-archive:{arriving / 'image.tar'}:{reference}")
            (arriving / "config.json").write_text(json.dumps(engine.config(reference)))
            _prune(name, reference)
        print(f"Built the image {name} in {time.monotonic() - began:.0f} s", file=sys.stderr)

    return made_once(f"image-{name}-{_key(reference)}", make)


def _prune(name: str, newest: str) -> None:
    """Delete old archives, each as large as its image, the images without an archive, and old bases."""
    archives = sorted(cache_folder().glob(f"image-{name}-*/"), key=lambda folder: folder.stat().st_mtime)
    for old in archives[: -_KEPT + 1]:
        shutil.rmtree(old, ignore_errors=True)
    kept = {_key(newest), *(_key(folder.name) for folder in archives[-_KEPT + 1 :])}
    unused = [image for image in engine.names(newest.rpartition(":")[0]) if _key(image) not in kept]
    in_use = {bases.key(with_spark=False), bases.key(with_spark=True)}
    for base in _BASES:
        unused += [image for image in engine.names(base)[_KEPT:] if _key(image) not in in_use]
    for image in unused:
        engine.buildah("rmi", image)


def _key(name: str) -> str:
    return name.rpartition(":")[2].rpartition("-")[2]
