"""The few calls of the Kubernetes API that the operator makes, over the official client's connection and login.

Every call has a deadline; nothing is retried here: what fails is decided anew from what is there. Thread-safe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import urllib3
from kubernetes import client, config

from dynamic_kafka.metadata.kubernetes_names import GROUP, VERSION
from kafkastream_operator.errors import BY_STATUS, ApiError, LoginError, NotFoundError

MANAGER = "kafkastream-operator"
"""The field manager of everything that the operator writes."""
DEADLINE_S = 15.0

Object = Mapping[str, Any]


class Resource(NamedTuple):
    """A kind of object, as URLs have it."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """As objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL's path."""
        steps = ["apis", self.group, self.version] if self.group else ["api", self.version]
        steps += ["namespaces", namespace] if namespace else []
        steps += [self.plural, *(each for each in (name, subresource) if each)]
        return "/" + "/".join(steps)


STREAMS = Resource(GROUP, VERSION, "kafkastreams")
SUBSCRIPTIONS = Resource(GROUP, VERSION, "kafkastreamsubscriptions")
CONFIG_MAPS = Resource("", "v1", "configmaps")
PODS = Resource("", "v1", "pods")
EVENTS = Resource("events.k8s.io", "v1", "events")
KUBEFLOW_APPLICATIONS = Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications")
APACHE_APPLICATIONS = Resource("spark.apache.org", "v1", "sparkapplications")
APPLICATIONS: Mapping[str, Resource] = {each.api_version: each for each in (KUBEFLOW_APPLICATIONS, APACHE_APPLICATIONS)}
"""By `apiVersion`."""


class Listing(NamedTuple):
    """All objects of a kind at a moment.

    Attributes:
        version: that moment, in the versions of objects; 0: of a kind that is not installed.
    """

    objects: list[Object]
    version: int


class Api:
    """A connection to an API server."""

    def __init__(self, connection: client.ApiClient, deadline_s: float = DEADLINE_S) -> None:
        self._client, self._deadline_s = connection, deadline_s

    def within(self, deadline_s: float) -> Api:
        """The same with another deadline for each call."""
        return Api(self._client, deadline_s)

    @classmethod
    def connect(cls, kubeconfig: str | None = None) -> Api:
        """Log in by a kubeconfig file, or as the pod that this runs in.

        Raises:
            LoginError: that cannot be done.
        """
        settings = client.Configuration()
        try:
            if kubeconfig is not None:
                config.load_kube_config(kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise LoginError(str(error)) from None
        except Exception as error:  # of whatever reads it; a parser's words may hold a token
            raise LoginError(f"it cannot be read ({type(error).__name__})") from None
        settings.retries = False
        settings.connection_pool_maxsize = 32
        return cls(client.ApiClient(settings))

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """An object. Raises NotFoundError if there is none."""
        return self._call("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str | None, *, labels: str | None = None) -> Listing:
        """All objects of a namespace (None: of all), page by page. None, where their kind is not installed."""
        found: list[Object] = []
        query = {"limit": "500"} | ({"labelSelector": labels} if labels else {})
        while True:
            try:
                page = self._call("GET", resource.path(namespace), query=query)
            except NotFoundError:
                return Listing([], 0)
            kind = str(page.get("kind", "")).removesuffix("List")
            for each in page.get("items", []):
                found.append({"apiVersion": resource.api_version, "kind": kind, **each})
            meta = page.get("metadata", {})
            more = meta.get("continue")
            if not more:
                return Listing(found, int(meta.get("resourceVersion", 0)))
            query["continue"] = more

    def apply(self, resource: Resource, body: Object, *, force: bool = False) -> Object:
        """Server-side apply. With a `resourceVersion` in its metadata, only to exactly that object.

        Raises:
            ConflictError: it is another by now, or another manager owns one of the fields (without `force`).
        """
        meta = body["metadata"]
        query = {"fieldManager": MANAGER, "force": str(force).lower(), "fieldValidation": "Strict"}
        path = resource.path(meta["namespace"], meta["name"])
        return self._call("PATCH", path, body, query=query, content="application/apply-patch+yaml")

    def create(self, resource: Resource, body: Object) -> Object:
        """Create an object. Raises ConflictError if it is there."""
        return self._call("POST", resource.path(body["metadata"]["namespace"]), body, query={"fieldManager": MANAGER})

    def replace(self, resource: Resource, body: Object, *, subresource: str | None = None) -> Object:
        """Replace exactly the object that `body` was read as. Raises ConflictError if it is another by now."""
        meta = body["metadata"]
        assert meta["resourceVersion"]
        path = resource.path(meta["namespace"], meta["name"], subresource)
        return self._call("PUT", path, body, query={"fieldManager": MANAGER})

    def merge(self, resource: Resource, namespace: str, name: str, change: Object) -> Object:
        """Merge a change into an object, whatever else it is by now."""
        path = resource.path(namespace, name)
        query = {"fieldManager": MANAGER}
        return self._call("PATCH", path, change, query=query, content="application/merge-patch+json")

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:
        """Delete exactly that object."""
        self._call("DELETE", resource.path(namespace, name), {"preconditions": {"uid": uid}})

    def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Object:
        what = f"{method} {path}"
        headers = {"Accept": "application/json", "Content-Type": content}
        try:
            _, url, sent, _, _ = self._client.param_serialize(
                method, path, query_params=list((query or {}).items()), header_params=headers,
                auth_settings=["BearerToken"],
            )  # fmt: skip
            answer = self._client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers={**sent, **headers},
                timeout=urllib3.Timeout(total=self._deadline_s),
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(what, 0, type(error).__name__, str(error)) from None
        return _answered(what, answer)


def _answered(what: str, answer: urllib3.BaseHTTPResponse) -> Object:
    data = answer.data or b""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = data[:200].decode(errors="replace")
        if answer.status < 400:
            # Of somebody in between: taken for a listing, it would say that there is nothing any more.
            raise ApiError(what, answer.status, "NoObject", f"the answer is no object of Kubernetes: {said!r}")
        found = {"message": said}
    if answer.status < 400:
        return found
    error = BY_STATUS.get(answer.status, ApiError)
    wait = answer.headers.get("Retry-After", "0")
    raise error(
        what,
        answer.status,
        str(found.get("reason", answer.reason)),
        str(found.get("message", "")),
        float(wait) if wait.isdecimal() else 0.0,
    )
