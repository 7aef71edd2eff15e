"""The driver's own pod, against an API server that speaks HTTPS and requires the service account's token."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.driver.report import pod as module
from dynamic_kafka.driver.report.pod import OwnPod, PodError, own_pod
from tests.support.api_server import NAMESPACE, TOKEN, FakeApiServer
from tests.support.certificates import CertificateAuthority


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    with FakeApiServer(tmp_path) as started:
        yield started


@pytest.fixture
def pod(server: FakeApiServer) -> OwnPod:
    own = own_pod(server.environment(), None, "host")
    assert own is not None
    return own


def failure_of(pod: OwnPod) -> PodError:
    """Return the error of a request, and check that it does not show the token."""
    with pytest.raises(PodError) as caught:
        pod.uid()
    assert TOKEN not in repr(caught.value) + repr(pod)
    return caught.value


# -- the pod's name and address -------------------------------------------------------------------------------------


def test_outside_kubernetes_there_is_no_pod(tmp_path: Path) -> None:
    assert own_pod({"KAFKASTREAMS_SERVICE_ACCOUNT": str(tmp_path)}, "spark-name", "host") is None
    assert own_pod({"KAFKASTREAMS_SERVICE_ACCOUNT": str(tmp_path / "none")}, "spark-name", "host") is None


@pytest.mark.parametrize(
    ("named", "spark", "name"),
    [("mine", "shop-driver", "mine"), ("", "shop-driver", "shop-driver"), ("", None, "host")],
    ids=["environment", "Spark", "host name"],
)
def test_the_pod_name_is_the_environments_or_sparks_or_the_hosts(
    server: FakeApiServer, named: str, spark: str | None, name: str
) -> None:
    own = own_pod({**server.environment(), "KAFKASTREAMS_POD_NAME": named}, spark, "host")
    assert own is not None
    assert own.name == name


def test_without_an_address_the_api_servers_default_name_is_used(server: FakeApiServer) -> None:
    environment = {"KAFKASTREAMS_SERVICE_ACCOUNT": str(server.account)}
    own = own_pod(environment, None, "host")
    assert own is not None
    assert (own.host, own.port) == ("kubernetes.default.svc", 443)


# -- requests that succeed -----------------------------------------------------------------------------------------


def test_requests_carry_the_service_accounts_token(server: FakeApiServer, pod: OwnPod) -> None:
    server.annotations["of another writer"] = "kept"
    assert pod.uid() == server.uid
    pod.annotate(server.uid, {"kafkastream.dev/report": "{}"})

    assert server.annotations == {"of another writer": "kept", "kafkastream.dev/report": "{}"}
    read, written = server.requests
    assert (read.method, written.method) == ("GET", "PATCH")
    assert read.path == written.path == f"/api/v1/namespaces/{NAMESPACE}/pods/shop-driver"
    assert written.body == {"metadata": {"uid": server.uid, "annotations": {"kafkastream.dev/report": "{}"}}}


def test_a_replaced_token_is_read_again(server: FakeApiServer, pod: OwnPod) -> None:
    assert pod.uid() == server.uid
    server.token = "another"
    assert failure_of(pod).kind == "unauthorized"
    (server.account / "token").write_text("another")
    assert pod.uid() == server.uid


def test_another_pod_of_the_same_name_is_not_annotated(server: FakeApiServer, pod: OwnPod) -> None:
    server.uid = "uid-of-the-next-driver"
    with pytest.raises(PodError, match=r"answered with 409: .*precondition"):
        pod.annotate("uid-of-pod", {"kafkastream.dev/report": "{}"})
    assert server.annotations == {}


# -- requests that fail --------------------------------------------------------------------------------------------


def test_a_forbidden_request_names_the_missing_role(server: FakeApiServer, pod: OwnPod) -> None:
    forbidden = 'pods "shop-driver" is forbidden: User "system:serviceaccount:jobs:x" cannot get pods'
    server.refuse = (403, forbidden)
    failure = failure_of(pod)
    assert failure.kind == "forbidden"
    assert str(failure).startswith(f"{forbidden}; ")
    assert "service account" in str(failure) and "Role in namespace jobs" in str(failure)
    assert "get and patch pods" in str(failure)


def test_a_wrong_pod_name_names_the_environment_variable(pod: OwnPod) -> None:
    failure = failure_of(replace(pod, name="node-7"))
    assert failure.kind == "not-found"
    assert "no pod 'node-7' in namespace jobs" in str(failure)
    assert "set KAFKASTREAMS_POD_NAME " in str(failure)


def test_another_refusal_shows_status_and_message(server: FakeApiServer, pod: OwnPod) -> None:
    server.refuse = (503, "etcd is away")
    text = str(failure_of(pod))
    assert f"127.0.0.1:{server.port} answered" in text and text.endswith(" 503: etcd is away")


def test_a_server_that_is_down_is_reported(server: FakeApiServer, pod: OwnPod) -> None:
    server.close()
    failure = failure_of(pod)
    assert failure.kind == "silent"
    assert "does not answer" in str(failure) and "the driver retries" in str(failure)


def test_a_request_to_a_hanging_server_ends_at_the_deadline(
    server: FakeApiServer, pod: OwnPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.3)
    over = threading.Event()
    server.before_answer = lambda: over.wait(30)
    before = time.monotonic()
    assert failure_of(pod).kind == "silent"
    assert time.monotonic() - before < 10
    over.set()


def test_an_answer_in_slow_pieces_ends_at_the_deadline(
    server: FakeApiServer, pod: OwnPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.5)
    over = threading.Event()
    server.between_bytes = lambda: over.wait(0.05)
    assert failure_of(pod).kind == "silent"
    over.set()


def test_a_server_with_another_authority_gets_no_token(server: FakeApiServer, pod: OwnPod, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other", "another authority")
    (server.account / "ca.crt").write_bytes(other.certificate_file.read_bytes())
    assert "certificate verify failed" in str(failure_of(pod))
    assert server.requests == []


@pytest.mark.parametrize("content", ["", f"{TOKEN}\nX-Other: {TOKEN}", f"{TOKEN} {TOKEN}", "tök\u0301en"])
def test_a_malformed_token_is_neither_sent_nor_shown(server: FakeApiServer, pod: OwnPod, content: str) -> None:
    (server.account / "token").write_text(content)
    failure = failure_of(pod)
    assert failure.kind == "account"
    assert "check how the pod mounts it" in str(failure)
    assert server.requests == []


def test_a_missing_service_account_token_is_reported(server: FakeApiServer, pod: OwnPod) -> None:
    (server.account / "token").unlink()
    assert f"{server.account} cannot be read: No such file" in str(failure_of(pod))
