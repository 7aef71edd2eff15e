"""`python -m tests.bench [names]`: run benchmarks, print a table each, and write build/bench/<name>.json.

Benchmarks do not pass or fail, since figures depend on the machine. Each result names the machine and its load before
the run. Sizes that do not depend on the machine have unit tests (`test_document_size.py`).
"""

from __future__ import annotations

import argparse
import sys

from tests.bench import memory, planning, reading
from tests.bench.report import Report

BENCHES = {
    "planning": planning.run,
    "planning-curve": planning.curve,
    "planner-memory": memory.planner,
    "worker-memory": memory.worker,
    "reading": reading.run,
}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks one after another; all by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(BENCHES)}; by default all")
    chosen = parser.parse_args(arguments).names or list(BENCHES)
    unknown = sorted(set(chosen) - set(BENCHES))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    for name in chosen:
        report = Report(name)
        BENCHES[name](report)
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
