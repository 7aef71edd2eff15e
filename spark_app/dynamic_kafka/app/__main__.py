"""The entry point of `python -m dynamic_kafka.app`, and the file to give to spark-submit."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve()
    # spark-submit runs this as a bare file and puts its folder first on the path. Our module names there would hide
    # other packages' modules, so the folder that holds the package takes its place.
    sys.path[:] = [str(here.parents[2]), *(entry for entry in sys.path if Path(entry or ".").resolve() != here.parent)]

    from dynamic_kafka.app.cli import main

    sys.exit(main())
