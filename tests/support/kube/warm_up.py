"""`python -m tests.support.kube.warm_up` (`make setup-kube`): the programs of the test cluster, built once."""

from __future__ import annotations

import sys

from tests.support.go import GoUnavailableError
from tests.support.kube.binaries import kubebox, spark_operator


def main() -> int:
    """Build what the cache does not have yet."""
    try:
        kubebox()
        spark_operator()
    except GoUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
