"""The images that the stories run: those of the project, and the spark-operator's."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import NamedTuple

from tests.support.images import TARGETS, built
from tests.support.node.spark_operator_image import spark_operator_image

ANOTHER = "another-operator"
"""The same operator as another image: with another label, and so with another digest."""
_IMAGES = "DYNAMIC_KAFKA_IMAGES"


class Archived(NamedTuple):
    """An image and the archive that a node imports."""

    name: str
    archive: Path


@functools.cache
def images() -> dict[str, Archived]:
    """Return the images `operator`, `another-operator`, `spark-app` and `spark-operator`; build what the cache lacks.

    In the box nothing can be built: there the variable that `environment` sets names them.

    Raises:
        ImagesUnavailableError: this machine cannot build images.
        StepFailedError: a step of a build failed.
    """
    if _IMAGES in os.environ:
        return {key: Archived(name, Path(path)) for key, (name, path) in json.loads(os.environ[_IMAGES]).items()}
    archives = {**{str(target): built(target) for target in TARGETS}, ANOTHER: built("operator", revision="another")}
    own = {key: Archived(image.reference, image.archive) for key, image in archives.items()}
    return {**own, "spark-operator": Archived(*spark_operator_image())}


def environment() -> dict[str, str]:
    """Return the environment variable that names the images in the box."""
    return {_IMAGES: json.dumps({key: (image.name, str(image.archive)) for key, image in images().items()})}
