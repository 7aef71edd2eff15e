"""The waits of the guide, by kubectl on a real API server: none ends before its fact holds for the newest spec."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.operator.stage import STREAMS, cluster
from tests.integration.operator.test_apache import CRD, Apache
from tests.support.kube import KubeCluster, KubeError
from tests.support.operator import OperatorProcess
from tests.support.places import ROOT

pytestmark = pytest.mark.deep("each wait of the guide")

SECTION = (
    (ROOT / "docs" / "how-to" / "operator.md").read_text(encoding="utf-8").partition("\n### Wait for a change\n")[2]
)
COMMANDS = {
    kind: shlex.split(line, comments=True)[1:]
    for line, kind in re.findall(r"^(kubectl wait kst/orders .*?(\w+) --timeout.*)$", SECTION, re.MULTILINE)
}
DRAINED = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 301.0, "openTransaction": False}


class Waits:
    """The commands of the guide, with other time limits."""

    def __init__(self, stage: Apache, folder: Path) -> None:
        self._stage, self._folder = stage, folder

    def ends(self, kind: str) -> None:
        """Wait until the command returns."""
        self._run(kind, "60s")

    def goes_on(self, kind: str) -> None:
        """Check that the command does not return, although kubectl watches the object for a while."""
        with pytest.raises(KubeError, match="timed out waiting for the condition"):
            self._run(kind, "1s")

    def _run(self, kind: str, limit: str) -> None:
        command = [re.sub(r"--timeout=\w+", f"--timeout={limit}", argument) for argument in COMMANDS[kind]]
        self._stage.kube.kubectl(*command, "-n", self._stage.namespace, "--cache-dir", str(self._folder))


@pytest.fixture
def stage(kube: KubeCluster, namespace: str) -> Iterator[Apache]:
    kube.install_crds(CRD)
    yield Apache(kube, namespace)


@pytest.fixture
def waits(stage: Apache, tmp_path: Path) -> Waits:
    return Waits(stage, tmp_path)


@pytest.mark.parametrize("operator", [["--confirm-live", "60s"]], indirect=True)
def test_no_wait_ends_early(stage: Apache, waits: Waits, operator: OperatorProcess) -> None:
    # Given a stream of which all is in force
    driver = stage.runs(updateStrategy="Reload")
    waits.goes_on("InForce")
    stage.report(driver)
    for kind in ("InForce", "Drained"):
        waits.ends(kind)
    waits.goes_on("Released")

    # When it changes while the operator is away, then each condition of before is still there, and no wait takes it
    operator.stop()
    stage.stream("orders", cluster("west"))
    for kind in COMMANDS:
        waits.goes_on(kind)

    # And not before the driver has the new form, which drains the removed cluster
    operator.start()
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    waits.goes_on("InForce")
    stage.report(driver, beat=2)
    waits.ends("InForce")
    waits.goes_on("Drained")
    stage.reports_until(driver, {"west/orders": "Active"}, draining=[DRAINED])
    waits.goes_on("Drained")
    waits.goes_on("Released")
    stage.report(driver, beat=99)
    waits.ends("Drained")
    waits.ends("Released")

    # And right after an apply none ends either, while the operator runs
    stage.stream("orders", cluster("west"), cluster("north"))
    waits.goes_on("InForce")
    stage.wait_document({"north/orders": "Active", "west/orders": "Active"})
    stage.report(driver, beat=100)
    waits.ends("InForce")
    stream = stage.api.get(STREAMS, "orders", stage.namespace)
    generation = stream["metadata"]["generation"]
    assert stream["status"]["inForce"] == {"generation": generation, "applications": 1, "of": 1}


def test_the_guide_has_a_wait_for_each_fact() -> None:
    assert list(COMMANDS) == ["InForce", "Drained", "Released"]
