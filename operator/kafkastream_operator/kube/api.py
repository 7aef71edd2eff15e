"""The calls of the Kubernetes API that the operator makes, with the connection and login of the official client.

Every call has a deadline. Nothing is retried here: after a failure, the next reconciliation decides again. Thread-safe.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import urllib3
from kubernetes import client, config

from dynamic_kafka.contract.kubernetes_names import GROUP, VERSION
from dynamic_kafka.wording import without_secrets
from kafkastream_operator.errors import BY_STATUS, ApiError, LoginError, NotFoundError

MANAGER = "kafkastream-operator"
"""The field manager of everything that the operator writes."""
DEADLINE_S = 15.0
"""Seconds for one call, unless `Api.within` sets another deadline."""

Object = Mapping[str, Any]

log = logging.getLogger(__name__)


class Resource(NamedTuple):
    """A kind of object, by group, version and plural name."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """Return the `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Return the name that kubectl takes for this kind alone, such as `kafkastreams.kafkastream.dev`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of the URL for all objects, those of a namespace, or one object."""
        steps = ["apis", self.group, self.version] if self.group else ["api", self.version]
        steps += ["namespaces", namespace] if namespace else []
        steps += [self.plural, *(part for part in (name, subresource) if part)]
        return "/" + "/".join(steps)


STREAMS = Resource(GROUP, VERSION, "kafkastreams")
SUBSCRIPTIONS = Resource(GROUP, VERSION, "kafkastreamsubscriptions")
CONFIG_MAPS = Resource("", "v1", "configmaps")
PODS = Resource("", "v1", "pods")
NAMESPACES = Resource("", "v1", "namespaces")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
EVENTS = Resource("events.k8s.io", "v1", "events")
KUBEFLOW_APPLICATIONS = Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications")
APACHE_APPLICATIONS = Resource("spark.apache.org", "v1", "sparkapplications")
CLUSTERS = Resource("", "", "clusters")
"""No kind of the API server: the name of a Kafka cluster, or one of its servers, among the keys of the work queue."""
APPLICATIONS: Mapping[str, Resource] = {kind.api_version: kind for kind in (KUBEFLOW_APPLICATIONS, APACHE_APPLICATIONS)}
"""The kinds of SparkApplication by `apiVersion`."""


class Listing(NamedTuple):
    """All objects of a kind at one moment.

    Attributes:
        version: the resource version at that moment; 0 for a kind that is not installed.
    """

    objects: list[Object]
    version: int


class Api:
    """A connection to an API server.

    Attributes:
        may_write: returns whether writes are allowed now. If not, no write is sent, and it fails as without an answer.
    """

    def __init__(self, connection: client.ApiClient, deadline_s: float = DEADLINE_S) -> None:
        self._client, self._deadline_s = connection, deadline_s
        self.may_write: Callable[[], bool] = lambda: True

    def within(self, deadline_s: float) -> Api:
        """Return the same connection with another deadline for each call. It may always write."""
        return Api(self._client, deadline_s)

    @classmethod
    def connect(cls, kubeconfig: str | None = None) -> Api:
        """Log in by a kubeconfig file, or without one as the service account of this pod.

        Raises:
            LoginError: the login is not possible.
        """
        settings = client.Configuration()
        try:
            if kubeconfig is not None:
                config.load_kube_config(kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise LoginError(str(error)) from None
        except Exception as error:  # a parser's message may contain a token, so it is not shown
            raise LoginError(f"it cannot be read ({type(error).__name__})") from None
        settings.retries = False
        settings.connection_pool_maxsize = 32
        return cls(client.ApiClient(settings))

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object. Raises NotFoundError if it does not exist."""
        return self._call("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str | None, *, labels: str | None = None) -> Listing:
        """Return all objects of a namespace, or of all. The listing is empty if the kind is not installed."""
        objects: list[Object] = []
        query = {"limit": "500"} | ({"labelSelector": labels} if labels else {})
        while True:
            try:
                page = self._call("GET", resource.path(namespace), query=query)
            except NotFoundError:
                return Listing([], 0)
            kind = str(page.get("kind", "")).removesuffix("List")
            for item in page.get("items", []):
                objects.append({"apiVersion": resource.api_version, "kind": kind, **item})
            meta = page.get("metadata", {})
            more = meta.get("continue")
            if not more:
                return Listing(objects, int(meta.get("resourceVersion", 0)))
            query["continue"] = more

    def may_list(self, resource: Resource) -> bool:
        """Return whether this account may list a kind in the whole cluster."""
        try:
            self._call("GET", resource.path(), query={"limit": "1"})
        except ApiError as error:
            return error.status != 403
        return True

    def apply(self, resource: Resource, body: Object, *, force: bool = False) -> Object:
        """Apply an object by server-side apply. A `resourceVersion` in its metadata is a precondition.

        Raises:
            ConflictError: the object has changed, or another manager owns one of the fields (without `force`).
        """
        meta = body["metadata"]
        query = {"fieldManager": MANAGER, "force": str(force).lower(), "fieldValidation": "Strict"}
        path = resource.path(meta["namespace"], meta["name"])
        return self._call("PATCH", path, body, query=query, content="application/apply-patch+yaml")

    def create(self, resource: Resource, body: Object) -> Object:
        """Create an object. Raises ConflictError if it exists."""
        return self._call("POST", resource.path(body["metadata"]["namespace"]), body, query={"fieldManager": MANAGER})

    def replace(self, resource: Resource, body: Object, *, subresource: str | None = None) -> Object:
        """Replace an object, or a subresource of it. Raises ConflictError if it has changed since `body` was read."""
        meta = body["metadata"]
        assert meta["resourceVersion"]
        path = resource.path(meta["namespace"], meta["name"], subresource)
        return self._call("PUT", path, body, query={"fieldManager": MANAGER})

    def merge(self, resource: Resource, namespace: str, name: str, change: Object) -> Object:
        """Merge a change into the current version of an object."""
        path = resource.path(namespace, name)
        query = {"fieldManager": MANAGER}
        return self._call("PATCH", path, change, query=query, content="application/merge-patch+json")

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str = "") -> None:
        """Delete the object with this UID, not a later one of the same name. With a version, it must not have changed.

        Raises:
            ConflictError: it is another one, or has changed.
        """
        version = {"resourceVersion": resource_version} if resource_version else {}
        self._call("DELETE", resource.path(namespace, name), {"preconditions": {"uid": uid, **version}})

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
        if method != "GET" and not self.may_write():
            raise ApiError(what, 0, "LeaseLost", "this operator does not hold its lease any more")
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
            log.debug("%s: %s", what, type(error).__name__)
            raise ApiError(what, 0, type(error).__name__, str(error)) from None
        log.debug("%s: %d", what, answer.status)
        return _answered(what, answer)


def _answered(what: str, answer: urllib3.BaseHTTPResponse) -> Object:
    """Return the object in an answer. A refusal is shown in conditions: it may quote a field of a user's manifest."""
    data = answer.data or b""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        shown = data[:200].decode(errors="replace")
        if answer.status < 400:
            # A proxy has answered. Read as a listing, its answer would mean that all objects are gone.
            raise ApiError(what, answer.status, "NoObject", f"the answer is not a Kubernetes object: {shown!r}")
        body = {"message": shown}
    if answer.status < 400:
        return body
    error = BY_STATUS.get(answer.status, ApiError)
    wait = answer.headers.get("Retry-After", "0")
    raise error(
        what,
        answer.status,
        str(body.get("reason", answer.reason)),
        without_secrets(str(body.get("message", ""))),
        float(wait) if wait.isdecimal() else 0.0,
    )
