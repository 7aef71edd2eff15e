"""Where tests and the demo leave what they write: below `build/` of the repository, which git ignores.

`DYNAMIC_KAFKA_BUILD` names another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DYNAMIC_KAFKA_BUILD") or ROOT / "build")
KAFKA_POM = ROOT / "tests" / "support" / "kafka" / "pom.xml"
