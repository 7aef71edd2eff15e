"""The driver's own pod, on an API server that speaks HTTPS and asks for the service account's token."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.app.kubernetes import pod as module
from dynamic_kafka.app.kubernetes.pod import OwnPod, PodError, own_pod
from tests.support.api_server import NAMESPACE, TOKEN, FakeApiServer
from tests.support.certificates import CertificateAuthority


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    with FakeApiServer(tmp_path) as started:
        yield started


@pytest.fixture
def pod(server: FakeApiServer) -> OwnPod:
    found = own_pod(server.environment(), None, "host")
    assert found is not None
    return found


def trouble(pod: OwnPod) -> PodError:
    """What goes wrong; never with the token in it."""
    with pytest.raises(PodError) as caught:
        pod.uid()
    assert TOKEN not in repr(caught.value) + repr(pod)
    return caught.value


# -- who we are ----------------------------------------------------------------------------------------------------


def test_outside_kubernetes_there_is_no_pod(tmp_path: Path) -> None:
    assert own_pod({"KAFKASTREAMS_SERVICE_ACCOUNT": str(tmp_path)}, "spark-name", "host") is None
    assert own_pod({"KAFKASTREAMS_SERVICE_ACCOUNT": str(tmp_path / "none")}, "spark-name", "host") is None


@pytest.mark.parametrize(
    ("named", "spark", "name"),
    [("mine", "shop-driver", "mine"), ("", "shop-driver", "shop-driver"), ("", None, "host")],
    ids=["environment", "Spark", "host name"],
)
def test_the_pods_name_is_the_environments_then_sparks_then_the_hosts(
    server: FakeApiServer, named: str, spark: str | None, name: str
) -> None:
    found = own_pod({**server.environment(), "KAFKASTREAMS_POD_NAME": named}, spark, "host")
    assert found is not None
    assert found.name == name


def test_where_kubernetes_says_no_address_the_servers_name_is_asked(server: FakeApiServer) -> None:
    environment = {"KAFKASTREAMS_SERVICE_ACCOUNT": str(server.account)}
    found = own_pod(environment, None, "host")
    assert found is not None
    assert (found.host, found.port) == ("kubernetes.default.svc", 443)


# -- when all is well ----------------------------------------------------------------------------------------------


def test_the_pod_is_read_and_annotated_with_the_token_of_the_service_account(
    server: FakeApiServer, pod: OwnPod
) -> None:
    server.annotations["of somebody else"] = "kept"
    assert pod.uid() == server.uid
    pod.annotate(server.uid, {"kafkastream.dev/report": "{}"})

    assert server.annotations == {"of somebody else": "kept", "kafkastream.dev/report": "{}"}
    read, written = server.requests
    assert (read.method, written.method) == ("GET", "PATCH")
    assert read.path == written.path == f"/api/v1/namespaces/{NAMESPACE}/pods/shop-driver"
    assert written.body == {"metadata": {"uid": server.uid, "annotations": {"kafkastream.dev/report": "{}"}}}


def test_a_token_that_was_replaced_is_taken_up(server: FakeApiServer, pod: OwnPod) -> None:
    assert pod.uid() == server.uid
    server.token = "another"
    assert trouble(pod).kind == "unauthorized"
    (server.account / "token").write_text("another")
    assert pod.uid() == server.uid


def test_a_pod_that_has_taken_our_name_is_left_alone(server: FakeApiServer, pod: OwnPod) -> None:
    server.uid = "uid-of-the-next-driver"
    with pytest.raises(PodError, match="answered with 409: the UID in the precondition"):
        pod.annotate("uid-of-pod", {"kafkastream.dev/report": "{}"})
    assert server.annotations == {}


# -- when it is not ------------------------------------------------------------------------------------------------


def test_without_the_right_the_role_is_named(server: FakeApiServer, pod: OwnPod) -> None:
    server.refuse = (403, 'pods "shop-driver" is forbidden: User "system:serviceaccount:jobs:x" cannot get pods')
    found = trouble(pod)
    assert found.kind == "forbidden"
    assert str(found) == (
        'pods "shop-driver" is forbidden: User "system:serviceaccount:jobs:x" cannot get pods; the driver\'s service'
        " account needs a Role in namespace jobs that lets it get and patch pods;"
        " `python -m dynamic_kafka.app manifest` prints one"
    )


def test_under_a_wrong_name_the_environment_is_named(pod: OwnPod) -> None:
    found = trouble(replace(pod, name="node-7"))
    assert found.kind == "not-found"
    assert str(found) == (
        "no pod 'node-7' in namespace jobs; put the driver pod's own name into its environment as KAFKASTREAMS_POD_NAME"
    )


def test_another_refusal_is_told_as_it_is(server: FakeApiServer, pod: OwnPod) -> None:
    server.refuse = (503, "etcd is away")
    assert str(trouble(pod)) == f"the API server 127.0.0.1:{server.port} answered with 503: etcd is away"


def test_a_server_that_is_not_there_is_told(server: FakeApiServer, pod: OwnPod) -> None:
    server.close()
    found = trouble(pod)
    assert found.kind == "silent"
    assert "does not answer" in str(found) and "it is asked again" in str(found)


def test_a_server_that_hangs_is_given_up_in_time(
    server: FakeApiServer, pod: OwnPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.3)
    over = threading.Event()
    server.before_answer = lambda: over.wait(30)
    before = time.monotonic()
    assert trouble(pod).kind == "silent"
    assert time.monotonic() - before < 10
    over.set()


def test_a_server_that_drips_is_given_up_in_time(
    server: FakeApiServer, pod: OwnPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.5)
    over = threading.Event()
    server.between_bytes = lambda: over.wait(0.05)
    assert trouble(pod).kind == "silent"
    over.set()


def test_a_server_that_another_authority_vouches_for_gets_no_token(
    server: FakeApiServer, pod: OwnPod, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other", "another authority")
    (server.account / "ca.crt").write_bytes(other.certificate_file.read_bytes())
    assert "certificate verify failed" in str(trouble(pod))
    assert server.requests == []


@pytest.mark.parametrize("content", ["", f"{TOKEN}\nX-Other: {TOKEN}", f"{TOKEN} {TOKEN}", "tök\u0301en"])
def test_a_token_that_is_none_is_not_sent_and_not_shown(server: FakeApiServer, pod: OwnPod, content: str) -> None:
    (server.account / "token").write_text(content)
    found = trouble(pod)
    assert found.kind == "account"
    assert "see how it is mounted into the pod" in str(found)
    assert server.requests == []


def test_a_service_account_that_is_taken_away_is_told(server: FakeApiServer, pod: OwnPod) -> None:
    (server.account / "token").unlink()
    assert f"the service account in {server.account} cannot be read: No such file" in str(trouble(pod))
