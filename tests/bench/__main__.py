"""`python -m tests.bench [names]`: run benchmarks, print a table each, and write build/bench/<name>.json.

Only `reader` passes or fails, by its ratios and a worker's memory, since all other figures depend on the machine. Each
result names the machine and its load before the run. Sizes that do not depend on the machine have unit tests
(`test_document_size.py`).
"""

from __future__ import annotations

import argparse
import sys

from tests.bench import alignment, memory, operator, planning
from tests.bench.reader import run as reader
from tests.bench.reader.cases import NAMES
from tests.bench.report import Report

READER = "reader"
BENCHES = {
    "planning": planning.run,
    "planning-curve": planning.curve,
    "planner-memory": memory.planner,
    "alignment": alignment.run,
    "operator": operator.run,
}
EVERY_TIME = (READER, "planning-curve", "planner-memory", "alignment", "operator")
"""All but `planning`, whose 10,000 splits are one size of the curve."""


def main(arguments: list[str]) -> int:
    """Run the named benchmarks one after another, and return 1 if the reader's figures have fallen."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"{READER}, {', '.join(BENCHES)}; not given: all")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="CASE", help=f"of {READER}: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help=f"of {READER}: measured turns of each variant")
    parser.add_argument("--records", type=int, help=f"of {READER}: records of each topic")
    parser.add_argument("--record", action="store_true", help=f"make the last result of {READER} the recorded one")
    given = parser.parse_args(arguments)
    if given.record:
        print(reader.record())
        return 0
    small = given.only or given.rounds or given.records
    chosen = given.names or ([READER] if small else list(EVERY_TIME))
    unknown = sorted(set(chosen) - {READER, *BENCHES})
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {READER}, {', '.join(BENCHES)}")
    failed = False
    for name in chosen:
        if name == READER:
            failed = reader.run(given.only or NAMES, rounds=given.rounds, records=given.records)
        else:
            report = Report(name)
            BENCHES[name](report)
            report.finish()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
