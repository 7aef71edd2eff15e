"""`accept --state`: a user gives up a lost state, and the query goes on with another folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.errors import StateMismatchError
from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.store import StateLocation
from tests.unit.app_tools.saved_app import saved_app

SAVED = (
    '{"version":3,"query":"q","number":1,"previous":"x","state":"e1","clusters":{"east":{"topics":'
    '{"orders":{"stream":"orders","partitions":1,"next":4}}}}}'
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return saved_app(tmp_path, SAVED)


def state_of(app: Path) -> StateLocation:
    return StateLocation(str(app.parent / "checkpoint" / "out" / "dynamic-kafka"))


def test_a_lost_state_is_given_up_once(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accept", str(app), "--state"]) == 2  # no consent
    output = capsys.readouterr().out
    assert "instead of the state e1" in output and "last batch left out" in output
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


def test_a_half_written_state_id_is_given_up_too(
    app: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    state = state_of(app)
    state.bind("q", "e1")
    file = app.parent / "checkpoint" / "out" / "dynamic-kafka" / "q" / "state" / "e1.json"
    file.write_text('{"id": "e')
    with pytest.raises(StateMismatchError, match=r"accept .*--state"):
        Incarnation(state).load(decode(SAVED))
    assert f"{file} is damaged" in caplog.text

    assert main(["accept", str(app), "--state", "--yes"]) == 0
    assert "Accepted" in capsys.readouterr().out
    process = Incarnation(state)
    process.load(decode(SAVED))
    assert state.state_ids("q") == {process.state_id: "e1"}


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


@pytest.mark.parametrize("cluster", ["c" * 253, "ü" * 253])
def test_long_names_are_cut_in_the_name_of_a_file(app: Path, cluster: str) -> None:
    # Given splits with the longest names that Kafka and the metadata allow, alike for longer than a file's name shows
    topics = {f"{'t' * 248}{last}": {"stream": "s", "partitions": 1, "next": 4} for last in "ab"}
    saved: dict[str, Any] = {"version": 3, "query": "q", "number": 1, "previous": "x", "state": "e1"}
    saved["clusters"] = {cluster: {"kafkaId": "old", "topics": topics}}
    checkpoint = app.parent / "checkpoint" / "out"
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(saved)}")
    state_of(app).bind("q", "e1")
    old = {"kind": "data-loss", "cluster": "east", "topic": "t", "partition": 0, "topicId": None, "from": 4}
    state_of(app).write(f"q/accepted/000001-data-loss-east-{'t' * 150}-0.json", old)

    # When a loss of each, and another identity, are accepted
    losses = [f"--data-loss={cluster}/{topic}/0" for topic in topics]
    assert main(["accept", str(checkpoint), *losses, f"--identity={cluster}=new", "--yes"]) == 0

    # Then all of them apply, and so does one that has an older, longer name
    (accepted,) = state_of(app).accepted_identities(decode(saved)).items()
    assert accepted == (cluster, AcceptedIdentity("new", "old", accepted[1].id)) and len(accepted[1].id) == 32
    wanted = [Split("east", "t", 0), *(Split(cluster, topic, 0) for topic in topics)]
    assert sorted(state_of(app).accepted_losses("q")) == sorted(wanted)
    names = state_of(app).read_folder("q/accepted")
    assert len({name.partition("-")[2] for name in names}) == 4
    assert len(str(max(names, key=len)).encode()) < 255
