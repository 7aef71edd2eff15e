"""A query and its state folder: another folder, an empty one or none is refused before anything is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dynamic_kafka.errors import StateMismatchError
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.binding import bound_state
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.store import StateLocation

SAVED = OffsetDocument("q", 3, "p", state="e1")


@pytest.fixture
def state(tmp_path: Path) -> StateLocation:
    location = StateLocation(str(tmp_path / "state"))
    location.bind("q", "e1")
    return location


def test_the_state_that_the_query_has_used_is_accepted(state: StateLocation) -> None:
    assert bound_state(state, SAVED) == ("e1", True)


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_folder_keeps_its_state_when_it_is_moved(state: StateLocation, tmp_path: Path, how: str) -> None:
    (shutil.move if how == "moved" else shutil.copytree)(tmp_path / "state", tmp_path / "new")  # type: ignore[operator]
    assert bound_state(StateLocation(str(tmp_path / "new")), SAVED) == ("e1", True)


def test_a_missing_state_is_refused_with_the_ways_out(state: StateLocation, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(StateMismatchError, match=r"state/q holds no state,.*the state e1") as no:
        bound_state(state, SAVED)
    assert "Set stateLocation" in str(no.value) and "folder with q/state/e1.json" in str(no.value)
    assert "docs/how-to/state.md#keep-it-with-the-checkpoint" in str(no.value)
    assert "accept app.yaml --state" in str(no.value)


def test_the_state_of_another_checkpoint_is_refused(state: StateLocation) -> None:
    with pytest.raises(StateMismatchError, match="q holds another state"):
        bound_state(state, OffsetDocument("q", 3, "p", state="other"))


def test_a_dropped_state_location_is_refused() -> None:
    with pytest.raises(StateMismatchError, match=r"stateLocation is not set.*the state e1"):
        bound_state(None, SAVED)


def test_a_query_without_a_state_uses_the_folders_own(state: StateLocation) -> None:
    # An older release wrote the document, or the driver died between binding and planning.
    assert bound_state(state, OffsetDocument("q", 3, "p")) == ("e1", True)
    assert bound_state(None, OffsetDocument("q", 3, "p")) == ("", True)


def test_a_new_state_is_bound_before_its_first_document(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path / "state"))
    process = Incarnation(state)
    process.load(OffsetDocument())
    assert not (tmp_path / "state").exists()
    process.before_document(OffsetDocument("q", 1, "", state=process.state_id))
    assert bound_state(state, OffsetDocument("q", 1, "", state=process.state_id)) == (process.state_id, True)


def test_two_drivers_that_bind_at_once_leave_both_states_good(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    processes = [Incarnation(state), Incarnation(state)]
    for process in processes:
        process.load(OffsetDocument("q", 1, "p"))
    for process in processes:
        process.before_document(OffsetDocument("q", 2, "p", state=process.state_id))
    for process in processes:
        assert bound_state(state, OffsetDocument("q", 2, "p", state=process.state_id))[1]


def test_an_accepted_loss_of_the_state_goes_on_under_a_new_id(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    state.bind("q", "f2", replaces="e1")
    assert bound_state(state, SAVED) == ("f2", True)
    # Then the old folder, which lacks the amendments since, is refused.
    old = StateLocation(str(tmp_path / "old"))
    old.bind("q", "e1")
    with pytest.raises(StateMismatchError):
        bound_state(old, OffsetDocument("q", 4, "p", state="f2"))
