"""Rules of the simulated worlds about what users do: accept what has changed or not, and run `Trigger.AvailableNow`."""

from __future__ import annotations

from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.unit.planning.simulation import Answer, Simulation

CLUSTERS = st.sampled_from(["a", "b"])
NAMED = st.sampled_from([{"t"}, {"u"}, {"t", "u"}, {"t", "u"}, set()])
ANSWERS: st.SearchStrategy[Answer] = st.sampled_from(["described", "not described", "one lacks it"])


class People:
    """Rules for a state machine that has a `world`."""

    world: Simulation

    @rule(accepts=st.booleans(), by=st.sampled_from(["pin", "tool"]), lost=st.booleans())
    def losses_are_accepted_or_not(self, accepts: bool, by: Literal["pin", "tool"], lost: bool = False) -> None:
        # A process may die before it has written the verdict for which it ends
        self.world.accepts_losses, self.world.accepts_by, self.world.verdicts_are_lost = accepts, by, lost

    @rule(
        limit=st.sampled_from([None, 1, 3]),
        changes=st.lists(st.tuples(CLUSTERS, NAMED, st.booleans(), ANSWERS), max_size=3),
    )
    def a_run_of_available_now(self, limit: int | None, changes: list[tuple[str, set[str], bool, Answer]]) -> None:
        self.world.run_available_now(limit, [(cluster, set(named), *how) for cluster, named, *how in changes])
