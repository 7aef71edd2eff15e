"""`python -m tests.bench [names]`: run benchmarks, print a table each, and write build/bench/<name>.json.

Nothing here passes or fails: figures depend on the machine, which each result names together with its load before the
run. What does not depend on it is a unit test (`test_document_size.py`).
"""

from __future__ import annotations

import argparse
import sys

from tests.bench import memory, planning, reading
from tests.bench.report import Report

BENCHES = {
    "planning": planning.run,
    "planner-memory": memory.planner,
    "worker-memory": memory.worker,
    "reading": reading.run,
}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, by default all, one after another."""
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
