"""Run the end-to-end tests: `make e2e`, or `python -m tests.e2e [arguments of pytest]`.

Exit codes: 0 every story was exact and nothing is left on the machine, 1 not so, or the machine lacks something,
130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from tests.e2e.images import environment, images
from tests.e2e.report import write_report
from tests.support.go import GoUnavailableError, executable
from tests.support.images import ImagesUnavailableError
from tests.support.images.engine import StepFailedError
from tests.support.kafka.distribution import distribution
from tests.support.kube_programs import COREDNS, HELM, KUBEBOX, NODE_KUBEBOX, PAUSE, SPARK_OPERATOR
from tests.support.node import preflight
from tests.support.node.box import BoxError, own_box
from tests.support.node.traces import traces
from tests.support.places import BUILD, ROOT

_RESULTS = BUILD / "e2e"


def main(arguments: Sequence[str]) -> int:
    """Check the machine, build what the tests run, run them in a box, and look for what is left."""
    if preflight.main():
        return 1
    box = own_box()
    for old in _RESULTS.glob("*.json"):
        old.unlink()
    try:
        _build()
        before = traces(box)
        code = box.run([sys.executable, "-m", "pytest", *_options(), *arguments], os.environ | environment())
    except (BoxError, GoUnavailableError, ImagesUnavailableError, StepFailedError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: everything in the box has ended", file=sys.stderr)
        return 130
    print(f"report: {write_report(_RESULTS)}", flush=True)
    left = sorted(traces(box) - before)
    for leftover in left:
        print(f"left on the machine: {leftover}", file=sys.stderr)
    print("nothing is left on the machine" if not left else "the machine is not as it was", flush=True)
    return 1 if code or left else 0


def _build() -> None:
    """Build everything outside of the box, which has no network."""
    began = time.monotonic()
    distribution()
    for program in (KUBEBOX, NODE_KUBEBOX, COREDNS, PAUSE, SPARK_OPERATOR, HELM):
        executable(program)
    print(f"programs are ready after {time.monotonic() - began:.0f} s", flush=True)
    images()
    print(f"images are ready after {time.monotonic() - began:.0f} s", flush=True)


def _options() -> list[str]:
    # The stories print what happens. Each wait has a limit of its own; the longest story has ten restarts.
    return [str(ROOT / "tests" / "e2e"), "-q", "--capture=no", "--timeout=3600"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
