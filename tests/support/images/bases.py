"""Stand-ins for the base images of the Dockerfile, since a test has no registry: Debian with Python, and with Spark.

They have what the Dockerfile relies on: Python with pip, and the layout, user and entrypoint of Spark's image. Spark is
this environment's own PySpark. Each stays in buildah's store until its inputs change.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from tests.support.images import engine

_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-pip", "ca-certificates")
_SPARK = Path(__file__).with_name("spark-base")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def key(*, with_spark: bool) -> str:
    """Return a hash of all that a stand-in is made of."""
    inputs = [Path(__file__).read_text()]
    if with_spark:
        inputs += [importlib.metadata.version("pyspark"), *(file.read_text() for file in sorted(_SPARK.iterdir()))]
    return hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]


def python_base() -> str:
    """Return the name of the stand-in for Python's image; make it if the store does not have it.

    The caller holds the store.
    """
    name = f"localhost/stand-in-python:{key(with_spark=False)}"
    if not engine.has(name):
        print(f"Fetching Debian {_SUITE} for images: half a minute, once per machine", file=sys.stderr)
        with engine.scratch() as folder:
            root, archive = folder / "root", folder / "root.tar"
            engine.isolated(["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(root)])
            unwanted = ["./dev/*", "./var/cache/apt/*", "./var/lib/apt/lists/*"]
            excluded = [f"--exclude={pattern}" for pattern in unwanted]
            engine.isolated(["tar", "--create", f"--file={archive}", f"--directory={root}", *excluded, "."])
            container = engine.buildah("from", "scratch").strip()
            engine.buildah("add", container, archive, "/")
            engine.buildah("config", f"--env=PATH={_PATH}", "--cmd=/bin/sh", container)
            engine.buildah("commit", "--rm", container, name)
    return name


def spark_base(python: str) -> str:
    """Return the name of the stand-in for Spark's image; make it if the store does not have it.

    The caller holds the store.
    """
    name = f"localhost/stand-in-spark:{key(with_spark=True)}"
    if not engine.has(name):
        print("Making an image of this environment's Spark: a minute, once per machine", file=sys.stderr)
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        engine.build(
            _SPARK / "Dockerfile",
            Path(spec.origin).parent,
            name,
            {"PYTHON_BASE": python},
            with_pip=False,
            extra=[f"--build-context=entrypoint={_SPARK}"],
        )
    return name
