"""The command `python -m dynamic_kafka.options`, which prints the generated part of `docs/reference/options.md`.

With `--write FILE` it replaces that part of FILE. `make docs` runs it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dynamic_kafka.options.reference import put_into, render_reference

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m dynamic_kafka.options", description="The reference of all options")
    parser.add_argument("--write", metavar="FILE", type=Path, help="replace the generated part of FILE")
    file: Path | None = parser.parse_args().write
    if file is None:
        sys.stdout.write(render_reference())
    else:
        try:
            file.write_text(put_into(file.read_text(encoding="utf-8")), encoding="utf-8")
        except (OSError, ValueError) as error:
            sys.exit(f"{file}: {error}")
