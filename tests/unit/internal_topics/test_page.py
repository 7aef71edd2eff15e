"""docs/how-to/internal-topics.md names every field and parameter, and its examples are valid."""

from __future__ import annotations

import dataclasses
import re

import pytest
from pydantic import BaseModel

from dynamic_kafka.app.config.internal_topics import InternalTopic, InternalTopics
from dynamic_kafka.app.config.loading import parse_config
from dynamic_kafka.app.internal_topics import InitParameters
from dynamic_kafka.app.internal_topics.changelog import ChangelogRecord
from dynamic_kafka.planning.document.progress import OffsetDocument
from tests.support.places import ROOT
from tests.unit.internal_topics.test_declarations import APP

PAGE = (ROOT / "docs" / "how-to" / "internal-topics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("model", "heading"), [(InternalTopics, "`internalTopics`"), (InternalTopic, "a topic")])
def test_each_field_has_a_row(model: type[BaseModel], heading: str) -> None:
    table = PAGE.partition(f"| Field of {heading} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == [field.alias for field in model.model_fields.values()]


def test_each_parameter_is_named() -> None:
    assert {field.name for field in dataclasses.fields(InitParameters)} <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_examples_are_valid_and_take_effect() -> None:
    set_ups = []
    for example in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        config = parse_config(APP.removesuffix("internalTopics:\n") + example, source="page")
        options = config.parsed_options(config.sinks[0])
        assert config.file.internal_topics is not None
        assert options.dead_letters is not None
        assert (config.warnings, options.warnings) == ((), ())
        set_ups.append(options.internal_topics_setup)
    assert set_ups == ["manual", "automatic"]


def test_the_record_has_the_fields_of_the_page() -> None:
    shown = PAGE.partition('    {"version": 1')[2].partition("\n")[0]
    wire = ChangelogRecord("shop", "lake", 0, 1, OffsetDocument()).value()
    assert set(re.findall(r'"(\w+)":', shown)) | {"version"} == set(re.findall(r'"(\w+)":', wire))
