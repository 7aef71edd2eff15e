"""One operator at a time, however the one before it ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import urllib3

from kafkastream_operator.core.metrics import PREFIX
from tests.integration.operator.stage import Stage, cluster
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.kube.front_door import FrontDoor
from tests.support.operator import OperatorProcess
from tests.support.ports import reserve_ports
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("each state of a Lease")

URLS = [f"http://127.0.0.1:{port}/healthz" for port in reserve_ports(2)]
METRICS = [f"http://127.0.0.1:{port}/metrics" for port in reserve_ports(2)]
LEASES = "coordination.k8s.io/v1/leases"


@pytest.fixture
def two(request: pytest.FixtureRequest, kube: KubeCluster, namespace: str) -> Iterator[list[OperatorProcess]]:
    """Prepare two operators for one lease of four seconds, and start only the first."""
    made: list[OperatorProcess] = []
    for url, metrics in zip(URLS, METRICS, strict=True):
        made.append(OperatorProcess(kube, namespace, replica_of=made[0] if made else None))
        made[-1].arguments = ["--lease", made[0].lease, "--lease-duration", "4s", "--liveness", url]
        made[-1].arguments += ["--metrics", metrics]
    with kept_open(request.config, request.node.stash, made):
        made[0].start()
        wait_until(lambda: "this operator holds the lease" in made[0].log(), "the first to hold the lease")
        yield made


def probed(number: int, path: str = "/healthz") -> tuple[int, str]:
    """Return status and text of an operator's answer to a probe; (0, "") if it does not answer."""
    try:
        answer = urllib3.request("GET", URLS[number].replace("/healthz", path), retries=False, timeout=5)
    except urllib3.exceptions.HTTPError:
        return 0, ""
    return answer.status, answer.data.decode().strip()


@DEEP
def test_waiting_for_and_holding_the_lease_are_live_and_ready(stage: Stage, two: list[OperatorProcess]) -> None:
    first, second = two
    second.start()
    wait_until(lambda: "waiting for the lease" in second.log(), "the second to wait")
    assert [probed(1), probed(1, "/readyz")] == [(200, "standby"), (200, "standby")]
    wait_until(lambda: probed(0, "/readyz") == (200, "serving"), "the first to serve")
    scrapes = [urllib3.request("GET", metric).data.decode() for metric in METRICS]
    assert [f"{PREFIX}serving {value}\n" in scrape for value, scrape in zip((1.0, 0.0), scrapes, strict=True)] == [
        True
    ] * 2
    first.kill()
    wait_until(lambda: probed(1, "/readyz") == (200, "serving"), "the second to serve")
    assert probed(1) == (200, "serving")
    assert probed(1, "/")[0] == 404


@DEEP
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_second_serves_when_the_first_ends(how: str, stage: Stage, two: list[OperatorProcess]) -> None:
    first, second = two
    second.start()
    wait_until(lambda: "waiting for the lease" in second.log(), "the second to wait")
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    assert "this operator holds the lease" not in second.log()
    getattr(first, how)()
    wait_until(lambda: "this operator holds the lease" in second.log(), "the second to hold the lease")
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})


@DEEP
def test_an_operator_that_cannot_renew_its_lease_ends(stage: Stage, two: list[OperatorProcess]) -> None:
    first, _ = two
    stage.kube.pause_api_server()
    try:
        wait_until(lambda: not first.running, "the first to end", timeout_s=30)
    finally:
        stage.kube.resume_api_server()
    assert "is lost: this operator ends" in first.log()


@DEEP
def test_a_lease_that_somebody_took_is_lost(stage: Stage, two: list[OperatorProcess]) -> None:
    first, _ = two
    change = {"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 60}}
    stage.api.patch(LEASES, first.release, stage.namespace, change)
    wait_until(lambda: not first.running, "the first to end", timeout_s=30)


def test_a_killed_holder_is_replaced_when_its_lease_is_over(stage: Stage, two: list[OperatorProcess]) -> None:
    for replica in two:
        replica.arguments = ["--lease", two[0].lease]  # as the chart starts it
    first, second = two
    first.stop()
    first.start()
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    second.start()
    wait_until(lambda: "waiting for the lease" in second.log(), "the second to wait")
    assert stage.api.get(LEASES, first.release, stage.namespace)["spec"]["leaseDurationSeconds"] == 10
    first.kill()
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    assert "this operator holds the lease" in second.log()


@DEEP
def test_a_suspended_holder_writes_nothing_when_it_goes_on(
    kube: KubeCluster, stage: Stage, two: list[OperatorProcess]
) -> None:
    _, second = two
    two[0].stop()
    with FrontDoor(kube) as door:
        first = OperatorProcess(kube, stage.namespace, two[0].arguments, door.kubeconfig, replica_of=two[0])
        try:
            first.start()
            stage.stream("orders", cluster("east"))
            stage.subscription()
            stage.wait_document({"east/orders": "Active"})
            second.start()
            wait_until(lambda: "waiting for the lease" in second.log(), "the second to wait")
            first.pause()
            count = len([call for call in door.settled() if call.method != "GET"])
            # Its watches bring these changes when it goes on: without a check, it would write at once.
            for number in range(20):
                stage.stream(f"s{number}", cluster(f"c{number}"))
            stage.stream("orders", cluster("east"), cluster("west"))
            stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
            first.resume()
            wait_until(lambda: not first.running, "the first to end")
            assert [call for call in door.settled() if call.method != "GET"][count:] == []
            assert "is lost: this operator ends" in first.log()
        finally:
            first.kill()
