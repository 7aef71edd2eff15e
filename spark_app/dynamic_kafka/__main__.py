"""`python -m dynamic_kafka`: point to the command line, which is `python -m dynamic_kafka.app`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    print(
        "The command line is in dynamic_kafka.app: dynamic-kafka --help, or python -m dynamic_kafka.app --help",
        file=sys.stderr,
    )
    sys.exit(2)
