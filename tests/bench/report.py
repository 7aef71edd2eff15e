"""The result of a benchmark: printed rows, and a JSON file with the machine and its load."""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.places import BUILD


class Report:
    """Rows of figures, printed at once and written to a file at the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[dict[str, Any]] = []
        self.began = datetime.datetime.now(datetime.UTC)
        self.load = os.getloadavg()[0]
        print(f"\n{name} on {machine()['cpu']}, {os.cpu_count()} cores, load {self.load:.1f} before", flush=True)

    def row(self, **figures: Any) -> None:
        """Add and print a row; its first figure is its name."""
        self.rows.append(figures)
        print("  " + "  ".join(f"{key}: {_shown(value)}" for key, value in figures.items()), flush=True)

    def finish(self) -> Path:
        """Write build/bench/<name>.json and return its path."""
        path = BUILD / "bench" / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "name": self.name,
            "at": self.began.isoformat(timespec="seconds"),
            "machine": machine(),
            "loadBefore": round(self.load, 2),
            "rows": self.rows,
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
        return path


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, lowest and highest of repeated measurements, in seconds."""
    return {
        "median_s": round(statistics.median(seconds), 4),
        "min_s": round(min(seconds), 4),
        "max_s": round(max(seconds), 4),
    }


def machine() -> dict[str, Any]:
    """Return the machine's CPU and cores, and the version of Python."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def rss_mb(pid: int | str = "self") -> float:
    """Return the resident memory of a process in MB (10^6 bytes), with mapped libraries."""
    return _status(pid, "VmRSS:")


def peak_rss_mb(pid: int | str = "self") -> float:
    """Return the highest `rss_mb` of a process so far."""
    return _status(pid, "VmHWM:")


class _Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2`, of which only two fields are used here."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    )


def heap_in_use_mb() -> float | None:
    """Return the part of the C heap that is in use, over all arenas, in MB; None without glibc >= 2.33.

    Resident memory also contains memory that an arena keeps after `free`. It grows with the number of threads.
    """
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return None
    ask.restype = _Mallinfo2
    heap = ask()
    return float(heap.uordblks + heap.hblkhd) / 1e6


def _status(pid: int | str, field: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in text.splitlines() if line.startswith(field))


def _shown(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
