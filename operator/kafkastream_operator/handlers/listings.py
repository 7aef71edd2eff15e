"""List the watched kinds, at the start and regularly. Operator; `watch.py` calls it in a thread.

A served namespace may be deleted, not made yet, or without the operator's Role. Its objects are then left as they are,
and the other namespaces are served. A part of a namespace is never enough for a decision: streams that are not listed
would look removed, and would drain.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from dynamic_kafka.contract.kubernetes_names import ROLE_LABEL
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers.subscription_view import labels_of
from kafkastream_operator.handlers.watch_health import Watch
from kafkastream_operator.kube.api import (
    APPLICATIONS,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    STREAMS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache

WATCHED: tuple[tuple[Resource, str | None], ...] = (
    (STREAMS, None),
    (SUBSCRIPTIONS, None),
    (CONFIG_MAPS, ROLE_LABEL),
    *((application, None) for application in APPLICATIONS.values()),
    (PODS, "spark-role=driver"),
)
"""The watched kinds, each with its label selector."""

LOGGED_EVERY = 30
"""Refused listings of a namespace for one line in the log: five minutes, as such a namespace is listed every 10 s."""

log = logging.getLogger(__name__)


def is_watched(resource: Resource, kube_object: Object) -> bool:
    """Return whether an object has the label by which its kind is watched."""
    key, _, value = (dict(WATCHED)[resource] or "").partition("=")
    there = labels_of(kube_object).get(key)
    return not key or (there is not None and there == (value or there))


class Listings:
    """The listings of the namespaces that the operator is to serve.

    Attributes:
        failures: {namespace that is not served: how often in a row its listing was refused}.
        watched: the watches that have delivered an event, since their namespace is served.
    """

    def __init__(self, api: Api, namespaces: tuple[str | None, ...]) -> None:
        self._api, self._namespaces = api, namespaces
        self.failures: dict[str, int] = {}
        self.watched: set[Watch] = set()
        self._ever_refused: set[str | None] = set()
        self._listed: set[str | None] = set()
        self._looked_up: set[str | None] = {None}

    def shows(self, namespace: str) -> bool:
        """Return whether metrics show the objects of a namespace, maybe as they were before its listing was refused."""
        return namespace not in self.failures or namespace in self._listed

    def resync(self, cache: Cache, *, everything: bool = True) -> list[str]:
        """List everything, or only what is not watched, and correct the cache.

        If a kind is watched in one namespace, it counts as watched in all: without an object, a watch has no event. A
        namespace that was refused has to show each of its watches itself, and is listed whole until it is served.

        Returns:
            The namespaces that were not served, and are from now on.

        Raises:
            ApiError: the API server does not answer a listing, or refuses all namespaces.
        """
        refused: dict[str, ApiError] = {}
        for namespace in self._namespaces:
            try:
                self._list(cache, namespace, set() if everything else self._covered(namespace))
                self._listed.add(namespace)
                self._look_up(namespace)
            except ApiError as error:
                if namespace is None or error.status != 403 or len(refused) == len(self._namespaces) - 1:
                    raise
                refused[namespace] = error
        self._ever_refused |= refused.keys()
        self._looked_up |= refused.keys()
        # kopf waits between its tries of a refused watch. Until an event shows that it is back, listings replace it.
        self.watched.difference_update({(resource, where) for resource, _ in WATCHED for where in refused})
        for namespace, refusal in refused.items():
            if self.failures.get(namespace, 0) % LOGGED_EVERY == 0:
                log.warning(
                    "namespace %s is not served until it can be listed, and the others are: %s. Make the namespace, and"
                    " the operator's Role in it by helm upgrade; or take it out of the chart's `namespaces`",
                    namespace,
                    refusal,
                )
            self.failures[namespace] = self.failures.get(namespace, 0) + 1
        back = [failure for failure in self.failures if failure not in refused]
        for namespace in back:
            del self.failures[namespace]
            log.warning("namespace %s is served", namespace)
        return back

    def _look_up(self, namespace: str | None) -> None:
        """Log a namespace that does not exist, once: with rights in all namespaces, its listings are only empty."""
        if namespace in self._looked_up:
            return
        self._looked_up.add(namespace)
        try:
            listing = self._api.list(NAMESPACES, None, labels=f"kubernetes.io/metadata.name={namespace}")
        except ApiError:  # a Role alone has no right to that, and is refused the listings of a missing namespace
            return
        if listing.version and not listing.objects:
            log.warning(
                "namespace %s does not exist. It is served as soon as it is made; if the name has a slip, correct it in"
                " --namespace, which is the chart's `namespaces`",
                namespace,
            )

    def _covered(self, namespace: str | None) -> set[Resource]:
        """Return the kinds that need no listing in a namespace."""
        if namespace in self.failures:
            return set()
        return {
            kind for kind, where in frozenset(self.watched) if where == namespace or namespace not in self._ever_refused
        }

    def _list(self, cache: Cache, namespace: str | None, except_kinds: Collection[Resource]) -> None:
        for resource, labels in WATCHED:
            if resource not in except_kinds:
                # A kind that is not installed has an empty listing; kopf waits for its CRD.
                cache.apply_listing(resource, namespace, partial(self._api.list, resource, namespace, labels=labels))
