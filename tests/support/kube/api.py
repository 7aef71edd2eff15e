"""A small client of the API server, for tests and the harness: objects are dictionaries, as in a manifest.

It is not what the operator uses, so that a test does not believe the client it tests. A resource is named by
group, version and plural, as in its address: `v1/pods`, `sparkoperator.k8s.io/v1beta2/sparkapplications`.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3

from tests.support.kube.errors import ApiError, ApiUnreachableError, KubeError
from tests.support.kube.kubeconfig import Kubeconfig

Json = dict[str, Any]

_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
_READY_SECONDS = 2.0
_AGAIN_SECONDS = 0.1


class Api:
    """One user's connections to one API server. Every method may raise `ApiError` and `ApiUnreachableError`."""

    def __init__(self, config: Kubeconfig) -> None:
        """Connect to nothing yet."""
        self.config = config
        address = urlsplit(config.server)
        assert address.hostname is not None
        self._headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
        self._pool = urllib3.HTTPSConnectionPool(
            address.hostname, address.port, ssl_context=_tls(config), maxsize=8, retries=False
        )

    def ready(self) -> bool:
        """Whether the API server answers, and says that it is ready."""
        try:
            self._open("GET", "/readyz", seconds=_READY_SECONDS)
        except KubeError:
            return False
        return True

    def get(self, resource: str, name: str, namespace: str | None = None) -> Json:
        """Return the object. Raises `ApiError` when there is none."""
        return self.request("GET", _address(resource, namespace, name))

    def find(self, resource: str, name: str, namespace: str | None = None) -> Json | None:
        """Return the object, or None when there is none."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, resource: str, namespace: str | None = None, **selectors: str) -> list[Json]:
        """All objects, of all namespaces without one; `labelSelector=` and `fieldSelector=` choose."""
        items: list[Json] = self.request("GET", _address(resource, namespace), query=selectors)["items"]
        return items

    def create(self, resource: str, manifest: Json, namespace: str | None = None) -> Json:
        """Create it, in the namespace that it names or in `namespace`."""
        namespace = manifest["metadata"].get("namespace", namespace)
        return self.request("POST", _address(resource, namespace), manifest)

    def apply(self, resource: str, manifest: Json, manager: str = "tests", *, force: bool = False) -> Json:
        """Server-side apply by the field manager `manager`."""
        metadata = manifest["metadata"]
        query = {"fieldManager": manager, "force": str(force).lower()}
        address = _address(resource, metadata.get("namespace"), metadata["name"])
        return self.request("PATCH", address, manifest, content_type=_APPLY_PATCH, query=query)

    def patch(self, resource: str, name: str, namespace: str | None, patch: Json, *, subresource: str = "") -> Json:
        """Merge `patch` into the object, or into a subresource of it such as `status`."""
        address = _address(resource, namespace, name, subresource)
        return self.request("PATCH", address, patch, content_type=_MERGE_PATCH)

    def delete(self, resource: str, name: str, namespace: str | None = None, **options: Any) -> None:
        """Delete it; `options` are those of Kubernetes, such as `gracePeriodSeconds`. Fine when it is gone."""
        try:
            self.request("DELETE", _address(resource, namespace, name), options or None)
        except ApiError as error:
            if error.status != 404:
                raise

    def wait(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        until: Callable[[Json | None], object],
        timeout: float = 60.0,
    ) -> Json | None:
        """Return the object as soon as `until` is true of it; `until` gets None while there is none.

        The call watches and does not poll. While the API server is away, it retries. Raises `KubeError` with the last
        state after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        seen: Json | None = None
        while (left := deadline - time.monotonic()) > 0:
            try:
                for seen in self._states(resource, name, namespace, left):
                    if until(seen):
                        return seen
            except ApiUnreachableError:
                time.sleep(_AGAIN_SECONDS)
            except ApiError as error:
                if not error.passes:
                    raise
                time.sleep(_AGAIN_SECONDS)
        state = "absent" if seen is None else json.dumps({key: seen.get(key) for key in ("metadata", "status")})
        raise KubeError(f"{resource} {name} is not as expected after {timeout:.0f} s: {state}")

    def changes_since(self, resource: str, namespace: str, version: str) -> Iterator[Json]:
        """Return the changes of a kind since a resourceVersion in their order, each as an event of a watch."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
        response = self._open("GET", _address(resource, namespace), query)
        return map(json.loads, response)

    def request(
        self,
        method: str,
        address: str,
        body: Json | None = None,
        *,
        content_type: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Json:
        """One request, for what has no method here; the answer as JSON."""
        response = self._open(method, address, query, body=body, content_type=content_type)
        answer: Json = json.loads(response.data)
        return answer

    def _states(self, resource: str, name: str, namespace: str | None, seconds: float) -> Iterator[Json | None]:
        """Yield the object's state now and after each change, until the server ends the watch."""
        address, query = _address(resource, namespace), {"fieldSelector": f"metadata.name={name}"}
        listed = self.request("GET", address, query=query)
        yield next(iter(listed["items"]), None)
        query |= {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        query["timeoutSeconds"] = str(max(1, int(seconds)))
        response = self._open("GET", address, query, seconds=seconds)
        try:
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":  # such as a resourceVersion too old: list again
                    return
                yield None if event["type"] == "DELETED" else event["object"]
        except urllib3.exceptions.HTTPError:
            return  # the time is over, or the API server is gone
        finally:
            response.close()

    def _open(
        self,
        method: str,
        address: str,
        query: dict[str, str] | None = None,
        *,
        body: Json | None = None,
        content_type: str = "application/json",
        seconds: float = _READ_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        target = f"{address}?{urlencode(query)}" if query else address
        try:
            response = self._pool.request(
                method,
                target,
                body=None if body is None else json.dumps(body).encode(),
                headers=self._headers | ({} if body is None else {"Content-Type": content_type}),
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=seconds),
                preload_content=not (query and "watch" in query),
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachableError(f"{method} {self.config.server}{target}: {error}") from error
        if response.status >= 400:
            raise _refusal(method, target, response)
        return response


def _refusal(method: str, target: str, response: urllib3.BaseHTTPResponse) -> ApiError:
    try:
        answer = json.loads(response.data)
    except ValueError:
        answer = {"message": response.data.decode(errors="replace")}
    message = f"{method} {target}: {response.status} {answer.get('message', '')}"
    return ApiError(response.status, answer.get("reason", ""), message)


def _tls(config: Kubeconfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=config.authority)
    if config.certificate:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:  # OpenSSL takes them from a file only
            pair.write(config.certificate + config.key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _address(resource: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    version, _, plural = resource.rpartition("/")
    parts = ["/apis" if "/" in version else "/api", version]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts += [plural, name, subresource]
    return "/".join(part for part in parts if part)
