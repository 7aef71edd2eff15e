"""The generated files of the custom resources: docs/reference/crds.md and the CRDs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkastream_operator.models import subscription
from kafkastream_operator.models.crd import attributes, crd, crds, text
from kafkastream_operator.models.reference import KINDS, main, reference, rows
from kafkastream_operator.models.subscription import DrainingTopic
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "reference" / "crds.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make crds`"


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    main(str(tmp_path / "crds.md"))
    assert (tmp_path / "crds.md").read_text(encoding="utf-8") == reference()


def test_the_crds_are_those_that_the_models_make() -> None:
    """In `crds/`, which users apply, and in the chart, since Helm reads nothing outside of it."""
    made = {name: text(content) for name, content in crds().items()}
    for folder in (ROOT / "crds", ROOT / "charts" / "kafkastream-operator" / "definitions"):
        crd_files = {path.name: path.read_text() for path in folder.iterdir()}
        assert crd_files == made, f"run `make crds`: {folder} is behind the models"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].KIND)
def test_every_field_has_a_meaning(kind: tuple) -> None:  # type: ignore[type-arg]
    schema = crd(*kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    field_rows = [
        row for name, model in zip(("spec", "status"), kind[1:], strict=True) for row in rows(model, schema[name], name)
    ]
    assert field_rows
    assert [row.path for row in field_rows if not row.meaning] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].KIND)
def test_the_crd_describes_every_field(kind: tuple) -> None:  # type: ignore[type-arg]
    def undescribed(node: Mapping[str, Any], path: str) -> list[str]:
        below = [(f"{path}.{name}", child) for name, child in node.get("properties", {}).items()]
        lacking = [name for name, child in below if not child.get("description")]
        below += [(f"{path}[]", node["items"])] if "items" in node else []
        return lacking + [name for at, child in below for name in undescribed(child, at)]

    schema = crd(*kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert undescribed(schema["spec"], "spec") + undescribed(schema["status"], "status") == []


def test_the_roll_out_column_shows_the_condition() -> None:
    """`status.rollout.phase` is also `Confirmed` for a first document, which no driver may have seen yet."""
    paths = {column["name"]: column["jsonPath"] for column in subscription.COLUMNS}
    assert paths["Roll-out"] == '.status.conditions[?(@.type=="RolledOut")].reason'
    assert not [path for path in paths.values() if path.startswith(".status.rollout")]


def test_the_category_is_not_the_name_of_a_kind() -> None:
    """kubectl resolves such a name to all kinds of the category."""
    names = [definition["spec"]["names"] for definition in crds().values()]
    taken = {name for naming in names for name in (naming["plural"], naming["singular"], *naming["shortNames"])}
    assert [naming["categories"] for naming in names] == [["dynamic-kafka"]] * 2
    assert "dynamic-kafka" not in taken


def test_fields_described_together_both_have_the_meaning() -> None:
    meanings = attributes(DrainingTopic)
    assert meanings["timeout"] == meanings["quiet_period"]
    assert meanings["timeout"].startswith("the value in `spec.drain` of the stream")
    assert set(meanings) == set(DrainingTopic.model_fields)
