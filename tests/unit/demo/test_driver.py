"""Why a driver was started is read off its pods."""

from __future__ import annotations

import pytest

from demo.driver import Driver, DriverError, Life, Starts, explain, life

REVISION = "kafkastream.dev/revision"


def lives(*told: str) -> list[Life]:
    """`2!` is a life that was restarted for revision 2, and killed."""
    return [Life(str(number), each.rstrip("!"), killed=each.endswith("!")) for number, each in enumerate(told)]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ((), Starts([], 0, 0)),
        (("",), Starts([], 0, 0)),
        (("!", "!", ""), Starts([], 2, 0)),
        (("", ""), Starts([], 0, 1)),
        (("", "2", "3!", "3", "4"), Starts(["2", "3", "4"], 1, 0)),
        (("!", "2"), Starts(["2"], 0, 0)),  # killed while it was being restarted: one start for both
        (("", "2", "2"), Starts(["2"], 0, 1)),
    ],
)
def test_each_start_has_its_reason(told: tuple[str, ...], found: Starts) -> None:
    assert explain(lives(*told)) == found
    assert found.restarts_for_changes == len(found.for_changes) + found.unexplained


def test_a_life_is_a_pod_with_the_revision_that_it_was_restarted_for() -> None:
    pod = {"metadata": {"uid": "u", "annotations": {REVISION: "l/2"}}}
    assert life(pod, {"u"}) == Life("u", "l/2", killed=True)
    assert life({"metadata": {"uid": "u"}}, ()) == Life("u", "", killed=False)


class FakeNode:
    """One pod, whose driver has said something."""

    folder = "logs"

    def output(self, pod: str) -> str:
        return f"{pod} says why it ended\n"


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_a_driver_that_was_given_up_is_noticed(state: str) -> None:
    driver = Driver(FakeNode, lambda: state)  # type: ignore[arg-type, return-value]
    with pytest.raises(DriverError, match=rf"(?s){state}.*orders-driver says why it ended"):
        driver.check()
    Driver(FakeNode, lambda: "FAILING").check()  # type: ignore[arg-type, return-value]
