"""An application with a checkpoint on disk, for the tools to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def saved_app(folder: Path, planned: str, *, committed: bool = True, **fields: Any) -> Path:
    """Write an `app.yaml`, and the checkpoint of its one sink `out`: batch 0 ends at the document `planned`.

    Args:
        fields: further fields of the `app.yaml`; by default the sink is the console.
    """
    checkpoint = folder / "checkpoint" / "out"
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{planned}")
    if committed:
        (checkpoint / "commits" / "0").write_text("v1\n{}")
    content = {
        "name": "shop",
        "metadata": str(folder / "streams.yaml"),
        "streams": {"ids": ["orders"]},
        "checkpoint": str(folder / "checkpoint"),
        "sinks": [{"name": "out", "type": "console"}],
    }
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump(content | fields))
    return path
