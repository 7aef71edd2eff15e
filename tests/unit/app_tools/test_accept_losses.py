"""`accept --data-loss` writes an acceptance that the query can read, whatever the offset."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.tools import accept as accept_tool
from dynamic_kafka.app.tools.preview import Preview
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.losses.dataloss import DataLoss
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.store import StateLocation
from tests.unit.app_tools.saved_app import saved_app

SPLIT = Split("east", "orders", 0)
SAVED = (
    '{"version":3,"query":"q","number":1,"previous":"x","clusters":{},"parked":{"east":{"kafkaId":"K",'
    '"topics":{"orders":{"stream":"orders","partitions":1,"next":0,"until":9}}}}}'
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application whose query has a split parked at offset 0."""
    return saved_app(tmp_path, SAVED)


def test_a_loss_at_offset_0_is_accepted(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a parked split that a plan resumes at 0, whose first records have expired
    loss = DataLoss(SPLIT, "offsets 0..50 have expired", 50, "T")
    resumed = {"east": ClusterProgress({"orders": TopicProgress("orders", {0: 0}, topic_id="T", epochs={0: 2})})}
    look = Preview(
        observed=cast(LiveObservation, None),
        silent={},
        refusals=(),
        answering={"east": "K"},
        swapped={},
        pending=(),
        left_out=None,
        before=OffsetDocument(),
        opened=OffsetDocument("q", 1, "x", clusters=resumed),
        losses=(loss,),
        refused=(loss,),
    )
    monkeypatch.setattr(accept_tool, "preview", lambda options, saved: look)

    assert main(["accept", str(app), "--data-loss", "--yes"]) == 0

    state = StateLocation(str(app.parent / "checkpoint" / "out" / "dynamic-kafka"))
    assert state.accepted_losses("q") == {SPLIT: AcceptedLoss(0, "T", 50, 1, 2, "expired")}


def test_an_acceptance_of_an_early_version_at_offset_0_is_read(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    wire = {**AcceptedLoss(0, "T", 50, 1, 2).to_wire(SPLIT), "from": None}
    state.write("q/accepted/000001-data-loss.json", wire)
    assert state.accepted_losses("q")[SPLIT].offset == 0
