"""Operator N with images N-1 and N+1, and after a downgrade from operator N+1."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import DOCUMENT_KEY
from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document import CONTRACT, parse_document
from kafkastream_operator.core.document import is_packed, read_document
from kafkastream_operator.core.drain_evidence import Report
from tests.unit.operator.world import UID, World, cluster, revision_of, running

TOPIC = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 301.0, "openTransaction": False}


def set_report(world: World, **content: Any) -> None:
    """Set the driver's report as the text of an annotation, also of another edition."""
    assert world.driver is not None
    report = {
        "applied": revision_of(world).token,
        "subscription": UID,
        "pod": world.driver.uid,
        "draining": [],
        **content,
    }
    world.driver = replace(world.driver, report=Report.parse(json.dumps(report)), silent_s=0.0)


def removed() -> World:
    """Return an application on east and west, after east was removed."""
    world = running()
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("west")).settle()
    return world


NEWER = {
    "contract": CONTRACT + 1,
    "reader": CONTRACT + 1,
    "abilities": ["live", "something-of-tomorrow"],
    "new": {"field": [1]},
}
OLDER = {"contract": CONTRACT, "reader": CONTRACT, "abilities": ["live"]}


@pytest.mark.parametrize("image", [NEWER, OLDER], ids=["newer", "older"])
def test_newer_and_older_images_confirm_and_drain(
    image: dict[str, Any],
) -> None:
    world = removed()
    set_report(world, **image)
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    set_report(world, **image, draining=[{**TOPIC, "newest": True}])
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.patches == 0


def test_an_image_from_before_drains_were_reported_ends_none() -> None:
    world = removed()
    set_report(world, **{"contract": CONTRACT, "reader": CONTRACT, "abilities": []}, draining=[])
    world.settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert "reports nothing about east/orders" in world.message("Drained")


def test_an_image_that_cannot_read_documents_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operator N writes documents that image N-1 cannot read."""
    monkeypatch.setattr("kafkastream_operator.core.document.MIN_READER", CONTRACT + 1)
    world = removed()
    assert world.document is not None
    with pytest.raises(MetadataInvalidError, match="update the application's image") as refused:
        parse_document(world.document.text(), source="f")
    before = f"{revision_of(world).lineage}/{revision_of(world).counter - 1}"
    rejected = {"revision": revision_of(world).token, "reason": str(refused.value)}
    set_report(world, contract=CONTRACT, reader=CONTRACT, abilities=["live"], applied=before, rejected=rejected)
    world.settle()
    assert world.condition("Reporting") == ("False", "ImageTooOld")
    assert world.condition("RolledOut") == ("False", "Rejected")
    assert "update the application's image" in world.message("Ready")
    assert world.patches == 0


def test_a_newer_operators_document_is_adopted_and_rewritten() -> None:
    world = removed()
    assert world.document is not None
    newer = {**json.loads(world.document.text()), "contract": CONTRACT + 1, "newest": {"some": "thing"}}
    data = {DOCUMENT_KEY: json.dumps(newer)}
    document = read_document(data, {})
    assert document == world.document
    assert not is_packed(document, data, {})  # so the document counts as edited, and is written again with its revision
    world.edited = True
    before = revision_of(world)
    world.settle()
    assert revision_of(world) == before
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert json.loads(world.document.text())["contract"] == 1  # the oldest one that has all of its fields


def test_a_malformed_report_proves_and_breaks_nothing() -> None:
    world = removed()
    for text in ("", "[]", "{", '{"draining": {"east": 1}}', '{"reader": "two"}', "null"):
        assert world.driver is not None
        world.driver = replace(world.driver, report=Report.parse(text), silent_s=500.0)
        world.settle()
        assert world.rendered()["east/orders"] == "Draining"


@pytest.mark.parametrize("applied", ["l" * 65 + "/7", "l/" + "9" * 19, "l/" + "9" * 5000, "l/x", "/7", "7", "l\nl/7"])
def test_a_revision_that_no_status_can_hold_is_ignored(applied: str) -> None:
    world = running()
    world.document, world.status = None, type(world.status)()
    assert world.driver is not None
    world.driver = replace(world.driver, report=Report.parse(json.dumps({"applied": applied})), token=applied)
    world.settle()
    assert revision_of(world).lineage == "fresh"
