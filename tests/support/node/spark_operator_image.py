"""The image of Kubeflow's spark-operator, made of the pinned program and the stand-in for Spark's image."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from tests.support.cache import cache_folder, made_once
from tests.support.images import bases, engine
from tests.support.kube_programs import spark_operator

_DOCKERFILE = Path(__file__).with_name("spark-operator") / "Dockerfile"


def spark_operator_image() -> tuple[str, Path]:
    """Return the name of the image and its archive; build it the first time.

    Raises:
        ImagesUnavailableError: this machine cannot build images.
        StepFailedError: a step of the build failed.
    """
    engine.require()
    inputs = [bases.key(with_spark=True), _DOCKERFILE.read_text(), str(spark_operator())]
    key = hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]
    name = f"localhost/spark-operator:{key}"

    def make(arriving: Path) -> None:
        arriving.mkdir()
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder, engine.store():
            shutil.copy(spark_operator(), folder)
            base = bases.spark_base(bases.python_base())
            engine.build(_DOCKERFILE, Path(folder), name, {"SPARK_IMAGE": base})
            engine.buildah("push", name, f"docker-archive:{arriving / 'image.tar'}:{name}")

    return name, made_once(f"image-spark-operator-{key}", make) / "image.tar"
