"""The native reader with sanitizers: `build` makes it, and as a plugin of pytest this module lets tests use it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sysconfig
from pathlib import Path

from dynamic_kafka.executor import native
from tests.support.native import SANITIZERS, lacking
from tests.support.places import BUILD

FOLDER = "DYNAMIC_KAFKA_TEST_EXTENSION"
SOURCES = Path(native.__file__).parent
COMPILE = ("gcc", "-std=gnu11", "-g", "-O1", "-fPIC", "-shared", SANITIZERS, "-fno-sanitize-recover=all")


def build() -> dict[str, str]:
    """Return the environment of a process with the sanitized extension; build that unless these sources have one.

    Leaks are not looked for: Python's own are too many.
    """
    parts = [" ".join(COMPILE).encode(), *(source.read_bytes() for source in sorted(SOURCES.glob("*.[ch]")))]
    folder = BUILD / "sanitized" / hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    made, draft = folder / "_reader.abi3.so", folder / f"{os.getpid()}.draft"
    try:
        if not made.exists():
            include = f"-I{sysconfig.get_path('include')}"
            subprocess.run([*COMPILE, include, SOURCES / "reader.c", "-o", draft, "-ldl", "-lpthread"], check=True)
            draft.replace(made)
        libasan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lacking(f"no extension with sanitizers: {error}")
    return {FOLDER: str(folder), "LD_PRELOAD": libasan.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}


def pytest_configure() -> None:
    """Take the extension from the folder."""
    native.__path__.insert(0, os.environ[FOLDER])
    extension = native.load()
    assert not isinstance(extension, str) and Path(extension.__file__).parent == Path(os.environ[FOLDER]), extension
