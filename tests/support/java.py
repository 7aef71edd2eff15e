"""The JVM that tests run brokers and Spark with. Stdlib only: the environment of the oldest Spark reads it, too."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path


def find_java() -> Path | None:
    """Return the JVM that JAVA_HOME or PATH names, as Spark's own scripts do; None without one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(java).resolve() if java is not None and Path(java).exists() else None


def java_fingerprint(java: Path) -> str:
    """Another one for another JDK, or the same at another place."""
    release = java.parent.parent / "release"
    content = release.read_bytes() if release.exists() else b""
    return hashlib.sha256(str(java).encode() + content).hexdigest()[:12]
