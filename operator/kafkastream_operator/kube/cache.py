"""The operator's own picture of the cluster: the newest form of each object that it watches. Thread-safe.

Fed by a listing at the start, by kopf's events, by listings from time to time (an event may be missed), and by the
answers to the operator's own writes. Never the older of two forms wins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from kafkastream_operator.core.evidence import FRESH_S
from kafkastream_operator.kube.api import Object, Resource

Made = TypeVar("Made")

REMEMBERED_S = 600.0
"""How long an object that went is remembered. A UID never comes back, but an older answer may arrive late."""

BACKLOG_S, SILENCE_S = 1.0, FRESH_S
"""The least and the most time between two texts of one object of which the second is said to be news."""


class Heard(NamedTuple):
    """What an object says, since when, and whether it was said just then."""

    text: str
    since_s: float
    news: bool


class Ref(NamedTuple):
    """An object, by where it is."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.plural} {self.namespace}/{self.name}"


def ref_of(resource: Resource, found: Object) -> Ref:
    """Where an object is."""
    return Ref(resource, found["metadata"]["namespace"], found["metadata"]["name"])


class Cache:
    """Objects by resource and namespace.

    Args:
        clock: monotonic seconds.

    Attributes:
        on_change: told of every object that has changed or gone, whoever found that out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._objects: dict[tuple[Resource, str], dict[str, Object]] = {}
        self._heard: dict[tuple[Ref, str], Heard] = {}
        self._gone: dict[str, float] = {}
        self._made: dict[str, dict[Callable[[Object], Any], tuple[str, Any]]] = {}
        self.on_change: Callable[[Ref, Object], None] = lambda ref, found: None

    def put(self, resource: Resource, found: Object) -> bool:
        """Take an object in; False if it is known already, or older than what is."""
        ref = ref_of(resource, found)
        with self._lock:
            if found["metadata"].get("uid") in self._gone:
                return False  # a listing or an answer that was on its way when the object went
            known = self._objects.setdefault((ref.resource, ref.namespace), {})
            if ref.name in known and not _is_newer(found, known[ref.name]):
                return False
            known[ref.name] = found
        self.on_change(ref, found)
        return True

    def drop(self, ref: Ref, uid: str | None = None) -> bool:
        """Forget an object that is gone. One that was made again since, with another UID, stays."""
        with self._lock:
            now = self._clock()
            self._gone = {each: at for each, at in self._gone.items() if now - at < REMEMBERED_S}
            if uid is not None:
                self._gone[uid] = now  # also when its successor is known already: a listing may still bring it back
            known = self._objects.get((ref.resource, ref.namespace), {})
            if ref.name not in known or (uid is not None and known[ref.name]["metadata"].get("uid") != uid):
                return False
            gone = known.pop(ref.name)
            self._gone[gone["metadata"]["uid"]] = now
            self._made.pop(gone["metadata"]["uid"], None)
            self._heard = {key: value for key, value in self._heard.items() if key[0] != ref}
        self.on_change(ref, gone)
        return True

    def take_listing(self, resource: Resource, namespace: str | None, list_them: Callable[[], list[Object]]) -> None:
        """Take a listing in. What was known before and is not in it is gone."""
        before = [
            (ref, found["metadata"]["uid"])
            for ref in self.refs(resource)
            if namespace in (None, ref.namespace) and (found := self.get(*ref)) is not None
        ]
        listed = list_them()
        seen = {ref_of(resource, found) for found in listed}
        for found in listed:
            self.put(resource, found)
        for ref, uid in before:
            if ref not in seen:
                self.drop(ref, uid)

    def take_answer(self, ref: Ref, ask: Callable[[], Object | None]) -> None:
        """Take in what the API server answers for one object, None: there is none."""
        before = self.get(*ref)
        found = ask()
        if found is not None:
            self.put(ref.resource, found)
        elif before is not None:
            self.drop(ref, before["metadata"]["uid"])  # not one that was made while it answered

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """An object, or None."""
        with self._lock:
            return self._objects.get((resource, namespace), {}).get(name)

    def all(self, resource: Resource, namespace: str) -> list[Object]:
        """The objects of a namespace, by name."""
        with self._lock:
            return [found for _, found in sorted(self._objects.get((resource, namespace), {}).items())]

    def refs(self, resource: Resource) -> Iterator[Ref]:
        """Every object of a resource."""
        with self._lock:
            found = [Ref(r, ns, name) for (r, ns), names in self._objects.items() if r == resource for name in names]
        return iter(found)

    def made_of(self, found: Object, make: Callable[[Object], Made]) -> Made:
        """What `make` makes of an object, which is not changed afterwards: made once for each of its forms."""
        uid, version = found["metadata"].get("uid", ""), found["metadata"].get("resourceVersion", "")
        with self._lock:
            known = self._made.get(uid, {}).get(make)
        if known is not None and known[0] == version:
            made: Made = known[1]
            return made
        made = make(found)
        with self._lock:
            if uid and uid not in self._gone:
                self._made.setdefault(uid, {})[make] = (version, made)
        return made

    def heard(self, ref: Ref, uid: str, text: str) -> tuple[float, bool]:
        """How long `text` has been what that object says, and whether it was said when it was first seen.

        By this process's clock: nobody else's counts. What is there at the first look, or comes after a silence, may
        have been said long before, and what comes all at once is a backlog. What follows another text soon is news.
        """
        now = self._clock()
        with self._lock:
            known = self._heard.get((ref, uid))
            if known is None or known.text != text:
                news = known is not None and BACKLOG_S <= now - known.since_s <= SILENCE_S
                known = self._heard[ref, uid] = Heard(text, now, news)
            return now - known.since_s, known.news


def _is_newer(found: Object, known: Object) -> bool:
    if found["metadata"].get("uid") != known["metadata"].get("uid"):
        created = [str(each["metadata"].get("creationTimestamp", "")) for each in (found, known)]
        if created[0] != created[1]:
            return created[0] > created[1]
        # Both were made within one second.
    return int(found["metadata"]["resourceVersion"]) > int(known["metadata"]["resourceVersion"])
