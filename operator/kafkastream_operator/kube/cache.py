"""The operator's own picture of the cluster: the newest form of each object that it watches. Thread-safe.

Fed by a listing at the start, by kopf's events, by listings from time to time (an event may be missed), and by the
answers to the operator's own writes. Never the older of two forms wins.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from kafkastream_operator.core.drain_evidence import FRESH_S
from kafkastream_operator.kube.api import Listing, Object, Resource

Made = TypeVar("Made")
log = logging.getLogger(__name__)

REMEMBERED_S = 600.0
"""How long an object that went is remembered: what was said of it before may arrive late."""
FOR_GOOD = sys.maxsize
"""What was asked for by name and is not there: nothing that is said of it is newer."""

BACKLOG_S, SILENCE_S = 1.0, FRESH_S
"""The least and the most time between two texts of one object of which the second is said to be news."""


class Heard(NamedTuple):
    """What an object says, since when, and whether it was said just then."""

    text: str
    since_s: float
    news: bool


class Gone(NamedTuple):
    """When an object went, and up to which version what is said of it is from before that.

    What is newer than that is back: it had lost the label by which it is watched, and has it again.
    """

    at_s: float
    version: int


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
        # One that `on_change` may take again: what is put in and what is made of that are one step for all others.
        self._lock, self._clock = threading.RLock(), clock
        self._objects: dict[tuple[Resource, str], dict[str, Object]] = {}
        self._heard: dict[tuple[Ref, str], Heard] = {}
        self._gone: dict[str, Gone] = {}
        self._made: dict[str, dict[Callable[[Object], Any], tuple[str, Any]]] = {}
        self.on_change: Callable[[Ref, Object], None] = lambda ref, found: None

    def put(self, resource: Resource, found: Object) -> bool:
        """Take an object in; False if it is known already, or older than what is."""
        ref = ref_of(resource, found)
        with self._lock:
            gone = self._gone.get(found["metadata"].get("uid"))
            if gone is not None and _version(found) <= gone.version:
                return False  # a listing or an answer that was on its way when the object went
            known = self._objects.setdefault((ref.resource, ref.namespace), {})
            if ref.name in known and not _is_newer(found, known[ref.name]):
                return False
            known[ref.name] = found
            self._gone.pop(found["metadata"].get("uid"), None)
            self.on_change(ref, found)
        return True

    def drop(self, ref: Ref, uid: str | None = None, version: int = FOR_GOOD) -> bool:
        """Forget an object that is gone. One that was made again since, with another UID, stays.

        Args:
            version: at which it is gone; what is newer than that counts again.
        """
        with self._lock:
            now = self._clock()
            self._gone = {each: gone for each, gone in self._gone.items() if now - gone.at_s < REMEMBERED_S}
            known = self._objects.get((ref.resource, ref.namespace), {})
            there = known.get(ref.name)
            if there is not None and uid not in (None, there["metadata"].get("uid")):
                there = None  # its successor
            if there is not None and _version(there) > version:
                return False  # it is back already
            went = uid if there is None else there["metadata"]["uid"]
            if went is not None:
                # Also when its successor is known already: a listing may still bring it back.
                self._gone[went] = Gone(now, max(version, self._gone.get(went, Gone(now, 0)).version))
            if there is None:
                return False
            del known[ref.name]
            self._made.pop(there["metadata"]["uid"], None)
            self._heard = {key: value for key, value in self._heard.items() if key[0] != ref}
            self.on_change(ref, there)
        return True

    def take_listing(self, resource: Resource, namespace: str | None, list_them: Callable[[], Listing]) -> None:
        """Take a listing in. What was known before and is not in it is gone.

        Except where the very kind is said not to be there, which a front end in trouble says as well: who deletes a
        kind deletes its objects first, and each of those deletions is an event.
        """
        before = [
            (ref, found["metadata"]["uid"])
            for ref in self.refs(resource)
            if namespace in (None, ref.namespace) and (found := self.get(*ref)) is not None
        ]
        with self._lock:
            denied = {uid: gone for uid, gone in self._gone.items() if gone.version == FOR_GOOD}
        listed = list_them()
        if before and not listed.version:
            log.warning("%s: 404 for a kind of which objects are known; they stay as they are", resource.plural)
            return
        seen = {ref_of(resource, found) for found in listed.objects}
        for found in listed.objects:
            with self._lock:
                uid = found["metadata"]["uid"]
                if uid in denied and denied[uid] is self._gone.get(uid):
                    del self._gone[uid]  # whoever said before that it was not there was in trouble
            self.put(resource, found)
        for ref, uid in before:
            if ref not in seen:
                self.drop(ref, uid, listed.version)

    def take_answer(self, ref: Ref, ask: Callable[[], Object | None]) -> None:
        """Take in what the API server answers for one object, None: there is none."""
        with self._lock:
            before, gone = self._objects.get((ref.resource, ref.namespace), {}).get(ref.name), dict(self._gone)
        found = ask()
        if found is not None:
            with self._lock:
                uid = found["metadata"]["uid"]
                if uid in gone and gone[uid] is self._gone.get(uid):
                    del self._gone[uid]  # it went before it was asked for: without its label it is there still
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
    return _version(found) > _version(known)


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])
