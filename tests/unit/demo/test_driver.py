"""The pods of the driver explain each of its starts."""

from __future__ import annotations

import pytest

from demo.driver import Driver, DriverError, DriverPod, Starts, driver_pod, explain_starts

REVISION = "kafkastream.dev/revision"


def pods(*texts: str) -> list[DriverPod]:
    """Return pods: `2!` was restarted for revision 2, and killed."""
    return [DriverPod(str(number), text.rstrip("!"), killed=text.endswith("!")) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "found"),
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
def test_each_start_has_its_reason(texts: tuple[str, ...], found: Starts) -> None:
    assert explain_starts(pods(*texts)) == found
    assert found.restarts_for_changes == len(found.for_changes) + found.unexplained


def test_a_pod_has_the_revision_that_it_was_restarted_for() -> None:
    pod = {"metadata": {"uid": "u", "annotations": {REVISION: "l/2"}}}
    assert driver_pod(pod, {"u"}) == DriverPod("u", "l/2", killed=True)
    assert driver_pod({"metadata": {"uid": "u"}}, ()) == DriverPod("u", "", killed=False)


class FakeNode:
    """A node with one pod, which has printed a line."""

    folder = "logs"

    def output(self, pod: str) -> str:
        return f"{pod} printed why it ended\n"


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_an_application_that_was_given_up_is_an_error(state: str) -> None:
    driver = Driver(FakeNode, lambda: state)  # type: ignore[arg-type, return-value]
    with pytest.raises(DriverError, match=rf"(?s){state}.*orders-driver printed why it ended"):
        driver.check()
    Driver(FakeNode, lambda: "FAILING").check()  # type: ignore[arg-type, return-value]
