"""Read the UID of the driver's own pod and annotate that pod, through the API server. Driver; `reporter.py` calls it.

This module uses the standard library only: one PATCH does not justify a Kubernetes client in the image. Requests
authenticate as the pod's service account. Its token and the CA certificate are read for each request, because
Kubernetes replaces the token every hour.
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

from dynamic_kafka.contract.kubernetes_names import (
    POD_NAME_ENVIRONMENT,
    SERVICE_ACCOUNT_ENVIRONMENT,
    SERVICE_ACCOUNT_PATH,
)

DEADLINE_S = 5.0
"""Seconds for one request, from connecting to the end of the answer."""
MAX_ANSWER = 4 * 1024 * 1024
"""The largest answer in bytes. A pod is far smaller."""
_MERGE_PATCH = "application/merge-patch+json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class PodError(Exception):
    """A failure to read or annotate the pod. `kind` distinguishes causes; the message says what to do."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class OwnPod:
    """The pod that this process runs in.

    Attributes:
        account: the folder of the service account, with the files `token`, `ca.crt` and `namespace`.
        host, port: the address of the API server.
    """

    name: str
    account: Path = field(repr=False)
    host: str = "kubernetes.default.svc"
    port: int = 443

    def uid(self) -> str:
        """Return the UID of the pod. Raises PodError."""
        pod = self._request("GET", None)
        try:
            return str(pod["metadata"]["uid"])
        except (KeyError, TypeError):
            raise PodError("answer", f"{self._where()} sent an answer without a UID") from None

    def annotate(self, uid: str, annotations: Mapping[str, str]) -> None:
        """Set annotations, provided that the pod still has this UID.

        Raises:
            PodError: the API server refused or did not answer; also if another pod has the name by now.
        """
        self._request("PATCH", {"metadata": {"uid": uid, "annotations": dict(annotations)}})

    def _request(self, method: str, body: Mapping[str, Any] | None) -> Any:
        until = time.monotonic() + DEADLINE_S
        try:
            token, namespace = self._account_file("token"), self._account_file("namespace")
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or type(error).__name__
            text = f"the service account in {self.account} cannot be read: {cause}; check how the pod mounts it"
            raise PodError("account", text) from None
        # The CA certificates of older clusters lack extensions that Python 3.13 requires by default.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        headers = {"Authorization": f"Bearer {token}", "Accept": _METADATA_ONLY, "User-Agent": "dynamic-kafka"}
        if body is not None:
            headers["Content-Type"] = _MERGE_PATCH
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(self.name, safe='')}"
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=DEADLINE_S, context=context)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            _limit_to(connection, until)
            answer = connection.getresponse()
            content = _read(connection, answer, until)
        except (OSError, http.client.HTTPException) as error:
            cause = str(error) or type(error).__name__
            raise PodError("silent", f"{self._where()} does not answer: {cause}; the driver retries") from None
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise self._refusal(answer.status, namespace, _message(content))
        try:
            return json.loads(content)
        except ValueError:
            raise PodError("answer", f"{self._where()} sent an answer that is not JSON") from None

    def _account_file(self, name: str) -> str:
        text = (self.account / name).read_text(encoding="ascii").strip()
        if not text or not text.isprintable() or " " in text:
            # http.client would refuse such a header with an error that contains the token.
            raise ValueError(name)
        return text

    def _where(self) -> str:
        return f"the API server {self.host}:{self.port}"

    def _refusal(self, status: int, namespace: str, message: str) -> PodError:
        if status == http.HTTPStatus.FORBIDDEN:
            fix = f"the driver's service account needs a Role in namespace {namespace} that lets it get and patch pods"
            return PodError("forbidden", f"{message}; {fix}")
        if status == http.HTTPStatus.UNAUTHORIZED:
            return PodError(
                "unauthorized",
                f"the API server does not accept the service account's token in {self.account}: {message}",
            )
        if status == http.HTTPStatus.NOT_FOUND:
            fix = f"set {POD_NAME_ENVIRONMENT} in the driver's environment to its pod's name"
            return PodError("not-found", f"no pod {self.name!r} in namespace {namespace}; {fix}")
        return PodError(f"status {status}", f"{self._where()} answered with {status}: {message}")


def own_pod(environment: Mapping[str, str], spark_name: str | None, host_name: str) -> OwnPod | None:
    """Return the pod that this process runs in; None outside Kubernetes.

    Args:
        spark_name: `spark.kubernetes.driver.pod.name`, if Spark has set it.
        host_name: the host's name, which is the name of the pod, unless the pod uses the network of its node.
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
    """Read the whole answer, in pieces, so that a server that sends slowly cannot exceed the deadline."""
    parts: list[bytes] = []
    while part := answer.read1(65536):
        parts.append(part)
        if sum(map(len, parts)) > MAX_ANSWER:
            raise OSError(f"its answer is larger than {MAX_ANSWER} bytes")
        _limit_to(connection, until)
    return b"".join(parts)


def _limit_to(connection: http.client.HTTPSConnection, until: float) -> None:
    """Set the socket's timeout to the time that is left until `until`, in monotonic seconds."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"no answer within {DEADLINE_S:g} s")
    if connection.sock is not None:  # None as soon as an answer with `Connection: close` has begun
        connection.sock.settimeout(left)


def _message(content: bytes) -> str:
    """Return the message of a Kubernetes `Status`."""
    try:
        return str(json.loads(content)["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return "the answer gives no reason"
