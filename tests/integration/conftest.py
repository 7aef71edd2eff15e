from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from tests.integration.app.driving import RunApp, RunHere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def run_app(spark: SparkSession) -> RunApp:
    """Return the function that runs an application in this process; `AppRun` runs it in one of its own."""
    return functools.partial(RunHere, spark)
