"""Build both images and print their names and archives: `python -m tests.support.images`."""

from __future__ import annotations

import sys

from tests.support.images import TARGETS, ImagesUnavailableError, built

try:
    for target in TARGETS:
        image = built(target)
        print(f"{image.reference}  {image.archive}")
except ImagesUnavailableError as error:
    sys.exit(str(error))
