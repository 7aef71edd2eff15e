"""The image of Kubeflow's spark-operator, made of the pinned program and the stand-in for Spark's image."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.support.go import executable
from tests.support.images import bases, engine
from tests.support.images.archives import archived
from tests.support.kube_programs import SPARK_OPERATOR

_DOCKERFILE = Path(__file__).with_name("spark-operator") / "Dockerfile"


def spark_operator_image() -> tuple[str, Path]:
    """Return the name of the image and its archive; build it the first time.

    Raises:
        ImagesUnavailableError: this machine cannot build images.
        StepFailedError: a step of the build failed.
    """
    engine.require()
    inputs = [bases.key(with_spark=True), _DOCKERFILE.read_text(), str(executable(SPARK_OPERATOR))]
    name = f"localhost/spark-operator:{hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]}"

    def build() -> None:
        with engine.scratch() as context:
            shutil.copy(executable(SPARK_OPERATOR), context)
            engine.build(_DOCKERFILE, context, name, {"SPARK_IMAGE": bases.spark_base(bases.python_base())})

    return name, archived("spark-operator", name, build) / "image.tar"
