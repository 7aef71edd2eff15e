from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.integration.app.driving import RunApp, RunHere, own_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def run_app(spark: SparkSession) -> RunApp:
    """Return the function that runs an application in this process; `AppRun` runs it in one of its own."""
    return functools.partial(RunHere, spark)


@pytest.fixture(autouse=True)
def _own_modules() -> Iterator[None]:
    """Let no test find another one's modules beside its app.yaml: the tools import them, too."""
    with own_modules():
        yield
