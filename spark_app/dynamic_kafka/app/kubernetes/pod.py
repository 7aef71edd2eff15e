"""The driver's own pod: its UID, and annotations onto it, by the API server. Driver; the edge of the reports.

Standard library only: one PATCH is no reason for a Kubernetes client in the image. Who we are is the pod's service
account, whose token Kubernetes replaces every hour: it is read for each request, as is the authority's certificate.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dynamic_kafka.metadata.kubernetes_names import (
    POD_NAME_ENVIRONMENT,
    SERVICE_ACCOUNT_ENVIRONMENT,
    SERVICE_ACCOUNT_PATH,
)

DEADLINE_S = 5.0
"""One request, from connecting to the end of its answer."""
MAX_ANSWER = 4 * 1024 * 1024
"""A pod is far smaller."""
_MERGE_PATCH = "application/merge-patch+json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class PodError(Exception):
    """The pod could not be read or annotated. `kind` tells causes apart; the message has what to do."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class OwnPod:
    """The pod that this process runs in.

    Attributes:
        account: the folder of the service account: `token`, `ca.crt`, `namespace`.
        host, port: the API server.
    """

    name: str
    account: Path = field(repr=False)
    host: str = "kubernetes.default.svc"
    port: int = 443

    def uid(self) -> str:
        """Its UID. Raises PodError."""
        found = self._ask("GET", None)
        try:
            return str(found["metadata"]["uid"])
        except (KeyError, TypeError):
            raise PodError("answer", f"{self._where()} gave an answer without a UID") from None

    def annotate(self, uid: str, annotations: Mapping[str, str]) -> None:
        """Set annotations, if the pod of that name is still the one of that UID. Raises PodError."""
        self._ask("PATCH", {"metadata": {"uid": uid, "annotations": dict(annotations)}})

    def _ask(self, method: str, body: Mapping[str, Any] | None) -> Any:
        until = time.monotonic() + DEADLINE_S
        try:
            token, namespace = self._account("token"), self._account("namespace")
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or type(error).__name__
            text = f"the service account in {self.account} cannot be read: {said}; see how it is mounted into the pod"
            raise PodError("account", text) from None
        # Authorities of older clusters lack extensions that Python 3.13 would insist on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        headers = {"Authorization": f"Bearer {token}", "Accept": _METADATA_ONLY, "User-Agent": "dynamic-kafka"}
        if body is not None:
            headers["Content-Type"] = _MERGE_PATCH
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(self.name, safe='')}"
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=DEADLINE_S, context=context)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            _hurry(connection, until)
            answer = connection.getresponse()
            content = _read(connection, answer, until)
        except (OSError, http.client.HTTPException) as error:
            said = str(error) or type(error).__name__
            raise PodError("silent", f"{self._where()} does not answer: {said}; it is asked again") from None
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise self._refused(answer.status, namespace, _message(content))
        try:
            return json.loads(content)
        except ValueError:
            raise PodError("answer", f"{self._where()} gave an answer that is no JSON") from None

    def _account(self, name: str) -> str:
        text = (self.account / name).read_text(encoding="ascii").strip()
        if not text or not text.isprintable() or " " in text:
            # As a header it would be refused, and shown.
            raise ValueError(name)
        return text

    def _where(self) -> str:
        return f"the API server {self.host}:{self.port}"

    def _refused(self, status: int, namespace: str, said: str) -> PodError:
        if status == http.HTTPStatus.FORBIDDEN:
            fix = (
                f"the driver's service account needs a Role in namespace {namespace} that lets it get and patch pods;"
                " `python -m dynamic_kafka.app manifest` prints one"
            )
            return PodError("forbidden", f"{said}; {fix}")
        if status == http.HTTPStatus.UNAUTHORIZED:
            return PodError("unauthorized", f"the service account's token in {self.account} is not accepted: {said}")
        if status == http.HTTPStatus.NOT_FOUND:
            fix = f"put the driver pod's own name into its environment as {POD_NAME_ENVIRONMENT}"
            return PodError("not-found", f"no pod {self.name!r} in namespace {namespace}; {fix}")
        return PodError(f"status {status}", f"{self._where()} answered with {status}: {said}")


def own_pod(environment: Mapping[str, str], spark_name: str | None, host_name: str) -> OwnPod | None:
    """The pod that this process runs in; None outside Kubernetes.

    Args:
        environment: of this process.
        spark_name: `spark.kubernetes.driver.pod.name`, where Spark has set it.
        host_name: Kubernetes gives a pod its own name, unless it uses its node's network.
    """
    account = Path(environment.get(SERVICE_ACCOUNT_ENVIRONMENT) or SERVICE_ACCOUNT_PATH)
    if not (account / "token").exists():
        return None
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    return OwnPod(
        name=environment.get(POD_NAME_ENVIRONMENT) or spark_name or host_name,
        account=account,
        host=environment.get("KUBERNETES_SERVICE_HOST") or OwnPod.host,
        port=int(port) if port.isdecimal() else OwnPod.port,
    )


def _read(connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse, until: float) -> bytes:
    """All of the answer, whatever pauses the server makes in it."""
    parts: list[bytes] = []
    while part := answer.read1(65536):
        parts.append(part)
        if sum(map(len, parts)) > MAX_ANSWER:
            raise OSError("its answer has no end")
        _hurry(connection, until)
    return b"".join(parts)


def _hurry(connection: http.client.HTTPSConnection, until: float) -> None:
    """Let the next answer of the socket take no longer than what is left of the time."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"no answer within {DEADLINE_S:g} s")
    if connection.sock is not None:  # it is gone once an answer that ends the connection has begun
        connection.sock.settimeout(left)


def _message(content: bytes) -> str:
    """What a Kubernetes `Status` says."""
    try:
        return str(json.loads(content)["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return "without a reason"
