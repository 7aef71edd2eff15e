"""Fixtures of the tools' tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.app_tools.story import MakeStory, Story, Tools


@pytest.fixture
def tools(capsys: pytest.CaptureFixture[str]) -> Tools:
    """The tools, called as from a command line."""
    return Tools(capsys)


@pytest.fixture
def make_story(spark: SparkSession, tmp_path: Path) -> MakeStory:
    """Makes the test's application, with these options of the source beside the usual ones."""
    return lambda **options: Story(spark, tmp_path, **options)
