"""The reference of the resources says what the models do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkastream_operator.models import subscription
from kafkastream_operator.models.crd import crd, crds
from kafkastream_operator.models.reference import KINDS, attributes, main, reference, rows
from kafkastream_operator.models.subscription import DrainingTopic
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "crds.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make crds`"


def test_the_command_writes_it(tmp_path: Path) -> None:
    main(str(tmp_path / "crds.md"))
    assert (tmp_path / "crds.md").read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].KIND)
def test_every_field_has_a_meaning(kind: tuple) -> None:  # type: ignore[type-arg]
    schema = crd(*kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    found = [
        row for name, model in zip(("spec", "status"), kind[1:], strict=True) for row in rows(model, schema[name], name)
    ]
    assert found
    assert [row.path for row in found if not row.meaning] == []


def test_the_columns_say_what_the_conditions_say() -> None:
    """The phase of a roll-out is `Confirmed` for a first document, too, which no driver may have seen yet."""
    paths = {column["name"]: column["jsonPath"] for column in subscription.COLUMNS}
    assert paths["Roll-out"] == '.status.conditions[?(@.type=="RolledOut")].reason'
    assert not [path for path in paths.values() if path.startswith(".status.rollout")]


def test_a_category_is_the_name_of_no_kind() -> None:
    """kubectl takes it for all kinds that have it, whatever else is called so."""
    names = [each["spec"]["names"] for each in crds().values()]
    taken = {name for each in names for name in (each["plural"], each["singular"], *each["shortNames"])}
    assert [each["categories"] for each in names] == [["dynamic-kafka"]] * 2
    assert "dynamic-kafka" not in taken


def test_what_two_fields_share_is_said_of_both() -> None:
    assert attributes(DrainingTopic)["timeout"] == "of the stream's `drain`."
    assert set(attributes(DrainingTopic)) == set(DrainingTopic.model_fields)
