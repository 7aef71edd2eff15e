"""`python -m dynamic_kafka.options` prints the generated part of `docs/options.md`."""

from __future__ import annotations

import sys

from dynamic_kafka.options.reference import render_reference

if __name__ == "__main__":
    sys.stdout.write(render_reference())
