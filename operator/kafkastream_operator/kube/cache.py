"""Cache the newest version of each watched object. Operator; workers and the event loop use it. Thread-safe.

The cache is filled by a listing at the start, by kopf's events, by regular resyncs (an event may be missed), and by the
answers to the operator's own writes. Events and answers arrive in any order, so an older version never replaces a newer
one. A listing, or a fetch by name, shows what is there now. It replaces all that was cached before it began, also a
newer version: when etcd is restored from a backup, versions start again at a lower number.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dynamic_kafka.contract.kubernetes_names import ROLE_LABEL
from kafkastream_operator.core.drain_evidence import FRESH_S
from kafkastream_operator.kube.api import SUBSCRIPTIONS, Listing, Object, Resource
from kafkastream_operator.kube.tags import Tag, tags_of

Derived = TypeVar("Derived")
log = logging.getLogger(__name__)

DELETION_MEMORY_S = 600.0
"""Seconds for which a deletion is remembered, because older versions of the object may still arrive."""
FOR_GOOD = sys.maxsize
"""The version of a deletion that no version is newer than: the object was fetched by name and does not exist."""

MIN_LIVE_INTERVAL_S, MAX_LIVE_INTERVAL_S = 1.0, FRESH_S
"""A text is known to be new if it follows another one after at least and at most these seconds."""


class ObservedText(NamedTuple):
    """A text of an object, the time at which it was first observed, and whether it was new at that time."""

    text: str
    since_s: float
    is_new: bool


class Deletion(NamedTuple):
    """The time at which an object was removed, and its newest version at that time.

    A newer version means that the object is back: it had lost its watched label, and has it again.
    """

    at_s: float
    version: int


class Ref(NamedTuple):
    """The address of an object."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.plural} {self.namespace}/{self.name}"


class Part(NamedTuple):
    """The changes that make something outdated that was made from objects: those of one kind, maybe of one role.

    Attributes:
        role: the value of the role's label; "": of all objects.
        with_status: whether changes of the status alone count.
    """

    resource: Resource
    role: str = ""
    with_status: bool = True


def ref_of(resource: Resource, kube_object: Object) -> Ref:
    """Return the address of an object."""
    return Ref(resource, kube_object["metadata"]["namespace"], kube_object["metadata"]["name"])


class Cache:
    """The watched objects, by kind and namespace.

    Args:
        clock: returns monotonic seconds.

    Attributes:
        on_stored: called with every version of an object that is stored, before `on_change`.
        on_change: called with every object that has changed or was removed, whatever the source of the change: as it
            was before, and as it is; None if it was not there, or is gone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # Reentrant, because `on_change` reads the cache. A change and its `on_change` are one step for other threads.
        self._lock, self._clock = threading.RLock(), clock
        self._objects: dict[tuple[Resource, str], dict[str, Object]] = {}
        self._texts: dict[Ref, tuple[str, ObservedText]] = {}
        self._deletions: dict[str, Deletion] = {}  # the oldest first
        self._derived: dict[str, dict[Callable[[Object], Any], tuple[Any, Any]]] = {}
        self._tagged: defaultdict[tuple[Resource, str, Tag], set[str]] = defaultdict(set)
        self._changes = Counter[tuple[str, Part]]()
        self._made: dict[Hashable, tuple[list[int], Any]] = {}
        self.on_stored: Callable[[Ref, Object], None] = lambda ref, kube_object: None
        self.on_change: Callable[[Ref, Object | None, Object | None], None] = lambda ref, before, after: None

    def put(self, resource: Resource, kube_object: Object, *, replaces: Object | None = None) -> bool:
        """Store an object. Return False if the cache has this version or a newer one, or a newer deletion.

        Args:
            replaces: what was cached when the API server was asked. If it still is, a newer version of it gives way.
        """
        ref, kube_object = ref_of(resource, kube_object), _trimmed(resource, kube_object)
        with self._lock:
            deletion = self._deletions.get(kube_object["metadata"].get("uid"))
            if deletion is not None and _version(kube_object) <= deletion.version:
                return False  # a listing or an answer from before the deletion
            known = self._objects.setdefault((ref.resource, ref.namespace), {})
            cached = known.get(ref.name)
            if cached is not None and not _is_newer(kube_object, cached):
                if cached is not replaces or _identity(cached) == _identity(kube_object):
                    return False
                log.warning("%s: the API server has an older version than before, as after a restore of etcd", ref)
                self._derived.pop(cached["metadata"]["uid"], None)
            self._note(ref, cached, kube_object)
            known[ref.name] = kube_object
            self._deletions.pop(kube_object["metadata"].get("uid"), None)
            self.on_stored(ref, kube_object)
            self.on_change(ref, cached, kube_object)
        return True

    def remove(self, ref: Ref, uid: str | None = None, version: int = FOR_GOOD) -> bool:
        """Remove a deleted object. A later object of the same name, with another UID, stays.

        Args:
            uid: the UID of the deleted object; None: the object that is cached.
            version: the version of the deletion. A newer version of the object is stored again.

        Returns:
            Whether the cache has changed.
        """
        with self._lock:
            now = self._clock()
            while self._deletions:
                oldest = next(iter(self._deletions))
                if now - self._deletions[oldest].at_s < DELETION_MEMORY_S:
                    break
                del self._deletions[oldest]
            known = self._objects.get((ref.resource, ref.namespace), {})
            cached = known.get(ref.name)
            if cached is not None and uid not in (None, cached["metadata"].get("uid")):
                cached = None  # a later object of the same name
            if cached is not None and _version(cached) > version:
                return False  # it is back already
            deleted_uid = uid if cached is None else cached["metadata"]["uid"]
            if deleted_uid is not None:
                # Also if a later object is cached already: an older listing could still bring the deleted one back.
                earlier = self._deletions.pop(deleted_uid, Deletion(now, 0))
                self._deletions[deleted_uid] = Deletion(now, max(version, earlier.version))
            if cached is None:
                return False
            del known[ref.name]
            self._derived.pop(cached["metadata"]["uid"], None)
            self._texts.pop(ref, None)
            self._note(ref, cached, None)
            self.on_change(ref, cached, None)
        return True

    def _note(self, ref: Ref, before: Object | None, after: Object | None) -> None:
        """Keep the tags and the counts of changes."""
        (old, roles), (new, more) = _features(ref.resource, before), _features(ref.resource, after)
        for tag in old - new:
            self._tagged[ref.resource, ref.namespace, tag].discard(ref.name)
            if not self._tagged[ref.resource, ref.namespace, tag]:
                del self._tagged[ref.resource, ref.namespace, tag]
        for tag in new - old:
            self._tagged[ref.resource, ref.namespace, tag].add(ref.name)
        for role in roles | more:
            self._changes[ref.namespace, Part(ref.resource, role)] += 1
            if not is_status_alone(before, after):
                self._changes[ref.namespace, Part(ref.resource, role, with_status=False)] += 1

    def apply_listing(self, resource: Resource, namespace: str | None, list_them: Callable[[], Listing]) -> None:
        """Make the cache agree with a listing: store its objects, and remove objects that it lacks.

        If the answer is that the kind does not exist, cached objects stay, because a failing proxy may answer that,
        too. When a kind is really deleted, each of its objects is deleted first, with an event.

        Args:
            namespace: the namespace to list; None: all.
            list_them: makes the listing. An object is only removed if it was cached before this call.
        """
        before = {
            ref: kube_object
            for ref in self.refs(resource)
            if namespace in (None, ref.namespace) and (kube_object := self.get(*ref)) is not None
        }
        with self._lock:
            deletions = dict(self._deletions)
        listed = list_them()
        if before and not listed.version:
            log.warning(
                "%s: the API server answers 404 for the kind, but objects of it are cached; they stay", resource.plural
            )
            return
        for kube_object in listed.objects:
            self._put_current((ref := ref_of(resource, kube_object)), kube_object, before.pop(ref, None), deletions)
        for ref, cached in before.items():
            with self._lock:
                same = self.get(*ref) is cached
                version = max(listed.version, _version(cached)) if same else listed.version
                self.remove(ref, cached["metadata"]["uid"], version)

    def refresh(self, ref: Ref, ask: Callable[[], Object | None]) -> None:
        """Make the cache agree with the API server's answer for one object.

        Args:
            ask: fetches the object; None: it does not exist.
        """
        with self._lock:
            before = self._objects.get((ref.resource, ref.namespace), {}).get(ref.name)
            deletions = dict(self._deletions)
        fetched = ask()
        if fetched is not None:
            self._put_current(ref, fetched, before, deletions)
        elif before is not None:
            self.remove(ref, before["metadata"]["uid"])  # but not an object that was created meanwhile

    def _put_current(self, ref: Ref, current: Object, before: Object | None, deletions: Mapping[str, Deletion]) -> None:
        """Store an object that the API server has shown after `before` and the deletions were noted."""
        with self._lock:
            uid = current["metadata"]["uid"]
            if uid in deletions and deletions[uid] is self._deletions.get(uid):
                # It exists: it had only lost its label, an answer 404 was wrong, or etcd was restored.
                del self._deletions[uid]
            self.put(ref.resource, current, replaces=before)

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object, or None."""
        with self._lock:
            return self._objects.get((resource, namespace), {}).get(name)

    def all(self, resource: Resource, namespace: str) -> list[Object]:
        """Return the objects of a namespace, sorted by name."""
        with self._lock:
            known = self._objects.get((resource, namespace), {})
            return [known[name] for name in sorted(known)]

    def tagged(self, resource: Resource, namespace: str, tag: Tag) -> list[Object]:
        """Return the objects of a namespace with a tag, sorted by name."""
        with self._lock:
            known = self._objects.get((resource, namespace), {})
            return [known[name] for name in sorted(self._tagged.get((resource, namespace, tag), ()))]

    def made_from(
        self, namespace: str, parts: Sequence[Part], make: Callable[[Cache, str, Derived | None], Derived]
    ) -> Derived:
        """Return `make(cache, namespace, last)`, computed once until one of the parts changes. It must not be changed.

        `last` is what was made before; None at first.
        """
        key = (namespace, make)
        with self._lock:
            now = [self._changes[namespace, part] for part in parts]
            known = self._made.get(key)
        if known is not None and known[0] == now:
            cached: Derived = known[1]
            return cached
        made = make(self, namespace, known[1] if known is not None else None)
        with self._lock:
            self._made[key] = now, made
        return made

    def refs(self, resource: Resource) -> list[Ref]:
        """Return the addresses of all objects of a kind."""
        with self._lock:
            return [Ref(r, ns, name) for (r, ns), names in self._objects.items() if r == resource for name in names]

    def derive(self, kube_object: Object, make: Callable[[Object], Derived], *, of_spec: bool = False) -> Derived:
        """Return `make(kube_object)`, computed once per version of the object. The result must not be changed.

        Args:
            of_spec: it depends on the spec and the name only: once per spec.
        """
        meta = kube_object["metadata"]
        uid, version = meta.get("uid", ""), kube_object.get("spec") if of_spec else meta.get("resourceVersion", "")
        with self._lock:
            known = self._derived.get(uid, {}).get(make)
        if known is not None and known[0] == version:
            cached: Derived = known[1]
            return cached
        made = make(kube_object)
        with self._lock:
            if uid and uid not in self._deletions:
                self._derived.setdefault(uid, {})[make] = (version, made)
        return made

    def text_age(self, ref: Ref, uid: str, text: str) -> tuple[float, bool]:
        """Return the seconds since which an object has this text, and whether the text was new when first observed.

        Only this process's clock counts. The first text of an object may be old, and so may one that follows a long
        silence; several at once are a backlog. A text that follows another one at a live writer's pace is new.
        """
        now = self._clock()
        with self._lock:
            of, known = self._texts.get(ref, ("", None))
            known = known if of == uid else None
            if known is None or known.text != text:
                is_new = known is not None and MIN_LIVE_INTERVAL_S <= now - known.since_s <= MAX_LIVE_INTERVAL_S
                known = ObservedText(text, now, is_new)
                self._texts[ref] = uid, known
            return now - known.since_s, known.is_new


def _trimmed(resource: Resource, kube_object: Object) -> Object:
    """Return an object without the owners of its fields, which are half of it. Only those of subscriptions are read."""
    meta = kube_object["metadata"]
    if resource == SUBSCRIPTIONS or "managedFields" not in meta:
        return kube_object
    return {**kube_object, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def is_status_alone(before: Object | None, after: Object | None) -> bool:
    """Return whether only the status of an object has changed; False for kinds without a generation, as ConfigMaps."""
    if before is None or after is None or not after["metadata"].get("generation"):
        return False
    old, new = before["metadata"], after["metadata"]
    # After a restore of etcd, another spec may have the same generation.
    return all(old.get(key) == new.get(key) for key in _OF_USERS) and before.get("spec") == after.get("spec")


_OF_USERS = ("uid", "generation", "labels", "annotations", "deletionTimestamp")
"""The metadata whose change is one of more than the status."""


def _features(resource: Resource, kube_object: Object | None) -> tuple[frozenset[Tag], set[str]]:
    """Return the tags of an object, and the roles under which its changes count."""
    if kube_object is None:
        return frozenset(), set()
    role = (kube_object["metadata"].get("labels") or {}).get(ROLE_LABEL)
    return tags_of(resource, kube_object), {"", str(role)} if role else {""}


def _is_newer(candidate: Object, known: Object) -> bool:
    if candidate["metadata"].get("uid") != known["metadata"].get("uid"):
        created = [str(version["metadata"].get("creationTimestamp", "")) for version in (candidate, known)]
        if created[0] != created[1]:
            return created[0] > created[1]
        # Both were created within the same second: their versions decide.
    return _version(candidate) > _version(known)


def _identity(kube_object: Object) -> tuple[str, int]:
    return kube_object["metadata"].get("uid", ""), _version(kube_object)


def _version(kube_object: Object) -> int:
    return int(kube_object["metadata"]["resourceVersion"])
