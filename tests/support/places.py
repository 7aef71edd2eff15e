"""Where tests and the demo leave what they write: below `build/` of the repository, which git ignores."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
KAFKA_POM = ROOT / "tests" / "support" / "kafka" / "pom.xml"
