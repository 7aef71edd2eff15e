"""A small fake of a Kubernetes API server over HTTPS: one pod to read and annotate, and failures on demand.

Tests of the driver's reporting use it. Tests of the operator use a real API server (`tests/support/kube`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION, SERVICE_ACCOUNT_ENVIRONMENT
from tests.support.certificates import CertificateAuthority
from tests.support.https_server import HttpsServer

NAMESPACE = "jobs"
TOKEN = "token-that-must-not-be-shown-1"


@dataclass(frozen=True)
class Request:
    """One request that the server received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at_s: float


@dataclass
class FakeApiServer:
    """The server and the pod.

    Attributes:
        folder: for certificates and the service account.
        name, uid: of the pod.
        refuse: the status and message of every answer; None: answer normally.
        token: the only one that is accepted.
        before_answer: called before each answer; may wait.
        between_bytes: called between any two bytes of an answer; None: the answer is sent at once.
    """

    folder: Path
    name: str = "shop-driver"
    uid: str = "uid-of-pod"
    refuse: tuple[int, str] | None = None
    token: str = TOKEN
    before_answer: Callable[[], object] = lambda: None
    between_bytes: Callable[[], object] | None = None
    requests: list[Request] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.authority = CertificateAuthority(self.folder / "authority")
        self.account = self.folder / "serviceaccount"
        self.account.mkdir()
        (self.account / "token").write_text(self.token + "\n")
        (self.account / "namespace").write_text(NAMESPACE)
        (self.account / "ca.crt").write_bytes(self.authority.certificate_file.read_bytes())
        self._server = HttpsServer(self.authority.issue(self.folder / "server.pem"), self._serve)
        self._server.start()

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return self._server.port

    def environment(self) -> dict[str, str]:
        """Return the variables that Kubernetes and the user would put into a driver's environment."""
        return {
            SERVICE_ACCOUNT_ENVIRONMENT: str(self.account),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "KAFKASTREAMS_POD_NAME": self.name,
        }

    def reports(self) -> list[dict[str, Any]]:
        """Return the reports received so far, in order; each with `at`, monotonic seconds."""
        with self._changed:
            requests = list(self.requests)
        texts = [
            (request.body["metadata"]["annotations"][REPORT_ANNOTATION], request.at_s)
            for request in requests
            if request.method == "PATCH"
        ]
        return [{**json.loads(text), "at": at} for text, at in texts]

    def wait(self, done: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        """Wait until requests have made something true."""
        with self._changed:
            assert self._changed.wait_for(done, timeout_s), f"waited {timeout_s:g} s for {what}"

    def close(self) -> None:
        """Stop listening."""
        self._server.stop()

    def __enter__(self) -> FakeApiServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        with self._changed:
            self.requests.append(Request(method, path, headers, body, time.monotonic()))
            self._changed.notify_all()
        self.before_answer()
        if self.refuse is not None:
            return self.refuse[0], _status(*self.refuse)
        if headers.get("Authorization") != f"Bearer {self.token}":
            return 401, _status(401, "Unauthorized")
        if path != f"/api/v1/namespaces/{NAMESPACE}/pods/{self.name}":
            return 404, _status(404, f'pods "{path.rpartition("/")[2]}" not found')
        if method == "PATCH":
            if headers.get("Content-Type") != "application/merge-patch+json":
                return 415, _status(415, "the body of the request was in an unknown format")
            if body["metadata"].get("uid", self.uid) != self.uid:
                return 409, _status(409, "the UID in the precondition does not match the UID in record")
            self.annotations |= body["metadata"].get("annotations", {})
        metadata = {"name": self.name, "namespace": NAMESPACE, "uid": self.uid, "annotations": self.annotations}
        return 200, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        data = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        body = json.loads(data) if data else None
        status, content = self._answer(handler.command, handler.path, dict(handler.headers), body)
        text = json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        for part in [text] if self.between_bytes is None else (bytes([octet]) for octet in text):
            handler.wfile.write(part)
            (self.between_bytes or bool)()


def _status(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
