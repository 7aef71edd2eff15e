"""`accept --state`: a user gives up a lost state, and the query goes on with another folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.driver.incarnation import Incarnation
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.planning.codec import decode

SAVED = (
    '{"version":3,"query":"q","number":1,"previous":"x","state":"e1","clusters":{"east":{"topics":'
    '{"orders":{"stream":"orders","partitions":1,"next":4}}}}}'
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    checkpoint = tmp_path / "checkpoint" / "out"
    for folder, content in (("offsets", f"v1\n{{}}\n{SAVED}"), ("commits", "v1\n{}")):
        (checkpoint / folder).mkdir(parents=True)
        (checkpoint / folder / "0").write_text(content)
    content = {
        "name": "shop",
        "metadata": str(tmp_path / "streams.yaml"),
        "streams": {"ids": ["orders"]},
        "checkpoint": str(tmp_path / "checkpoint"),
        "sinks": [{"name": "out", "type": "console"}],
    }
    path = tmp_path / "app.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def state_of(app: Path) -> StateLocation:
    return StateLocation(str(app.parent / "checkpoint" / "out" / "dynamic-kafka"))


def test_a_lost_state_is_given_up_once(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accept", str(app), "--state"]) == 2  # no consent
    assert "It gives up the records of the state e1: if its last batch left ranges out" in capsys.readouterr().out
    assert state_of(app).state_ids("q") == {}

    assert main(["accept", str(app), "--state", "--yes"]) == 0
    ((new, lost),) = state_of(app).state_ids("q").items()
    assert lost == "e1"
    process = Incarnation(state_of(app))
    process.load(decode(SAVED))
    assert process.state_id == new

    capsys.readouterr()
    assert main(["accept", str(app), "--state", "--yes"]) == 0
    assert "There is nothing to accept" in capsys.readouterr().out
    assert len(state_of(app).state_ids("q")) == 1


def test_tools_do_not_write_to_another_state(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["accept", str(app), "--data-loss", "east/orders/0"], ["abandon", str(app), "east"]):
        assert main([*command, "--yes"]) == 4
        assert "the query has used the state e1" in capsys.readouterr().err
    assert state_of(app).read_folder("q/accepted") == {}


def test_a_purged_acceptance_leaves_no_number_to_use_again(app: Path) -> None:
    state_of(app).bind("q", "e1")
    wire = {"kind": "identity", "cluster": "west", "kafkaId": "Qx"}
    state_of(app).write("q/accepted/000007-identity-west.json", wire)
    checkpoint = str(app.parent / "checkpoint" / "out")
    assert main(["accept", checkpoint, "--data-loss", "east/orders/0", "--yes"]) == 0
    assert "000008-data-loss-east-orders-0.json" in state_of(app).read_folder("q/accepted")
