"""The cache of watched objects: the newest version wins, and a deleted object stays deleted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkastream_operator.kube.api import STREAMS, SUBSCRIPTIONS, Listing, Object
from kafkastream_operator.kube.cache import DELETION_MEMORY_S, Cache, Ref

REF = Ref(STREAMS, "ns", "orders")


def stream(version: int, uid: str = "one", created: str = "2026-11-01T00:00:00Z") -> dict[str, Any]:
    """Return a stream in one of its versions."""
    meta = {
        "name": "orders",
        "namespace": "ns",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": created,
    }
    return {"metadata": meta}


def test_an_older_version_never_replaces_a_newer_one() -> None:
    cache = Cache()
    assert cache.put(STREAMS, stream(9))
    assert not cache.put(STREAMS, stream(8))
    assert not cache.put(STREAMS, stream(9))
    assert cache.put(STREAMS, stream(10))
    assert cache.get(*REF) == stream(10)


def test_a_late_answer_does_not_restore_a_deleted_object() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    assert cache.remove(REF, "one")
    assert not cache.put(STREAMS, stream(5))
    assert not cache.put(STREAMS, stream(6))
    assert cache.get(*REF) is None
    assert cache.put(STREAMS, stream(7, "two"))


def listed_without(cache: Cache, version: int) -> None:
    cache.apply_listing(STREAMS, "ns", lambda: Listing([], version))


def watch_deletes(cache: Cache, version: int) -> None:
    cache.remove(REF, "one", version)


BOTH_WAYS = pytest.mark.parametrize("delete", [listed_without, watch_deletes])
"""How the operator learns that an object lost its watched label: a listing lacks it, or a watch reports a deletion."""


@BOTH_WAYS
@pytest.mark.parametrize("after_s", [1.0, DELETION_MEMORY_S + 1])
def test_an_object_that_gets_its_label_back_is_cached_again(
    delete: Callable[[Cache, int], None], after_s: float
) -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])
    cache.put(STREAMS, stream(5))
    delete(cache, 7)
    assert cache.get(*REF) is None
    assert not cache.put(STREAMS, stream(6))  # a late answer
    assert not cache.put(STREAMS, stream(7))
    now[0] = after_s
    assert cache.put(STREAMS, stream(8))
    assert not cache.put(STREAMS, stream(6))
    assert cache.get(*REF) == stream(8)


def test_an_old_deletion_does_not_remove_a_newer_version() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(8))
    watch_deletes(cache, 7)
    assert cache.get(*REF) == stream(8)


def test_an_old_listing_does_not_remove_a_newer_version() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(6))

    def late() -> Listing:
        cache.put(STREAMS, stream(8))
        return Listing([], 7)

    cache.apply_listing(STREAMS, "ns", late)
    assert cache.get(*REF) == stream(8)


def listed(cache: Cache, item: dict[str, Any]) -> None:
    cache.apply_listing(STREAMS, "ns", lambda: Listing([item], int(item["metadata"]["resourceVersion"])))


def fetched(cache: Cache, item: dict[str, Any]) -> None:
    cache.refresh(REF, lambda: item)


SHOWN = pytest.mark.parametrize("show", [listed, fetched])
"""How the operator sees what is there now."""


@SHOWN
@pytest.mark.parametrize("before", [stream(9), stream(9, "two", "2026-11-02T00:00:00Z")], ids=["older", "another"])
def test_a_restore_of_etcd_brings_an_older_version(
    show: Callable[[Cache, dict[str, Any]], None], before: dict[str, Any]
) -> None:
    cache, changed = Cache(), list[Any]()
    cache.put(STREAMS, before)
    cache.derive(before, lambda found: 9)
    cache.on_change = lambda ref, before, after: changed.append(after)
    show(cache, stream(5))
    assert (cache.get(*REF), changed) == (stream(5), [stream(5)])
    show(cache, stream(5))
    assert changed == [stream(5)]
    assert not cache.put(STREAMS, stream(4))  # an event from before
    assert cache.put(STREAMS, stream(6))


@SHOWN
def test_a_restore_of_etcd_brings_a_deleted_object_back(show: Callable[[Cache, dict[str, Any]], None]) -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.remove(REF, "one", 9)
    show(cache, stream(5))
    assert cache.get(*REF) == stream(5)


def test_a_restore_of_etcd_removes_later_objects() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(9))
    listed_without(cache, 7)
    assert cache.get(*REF) is None
    assert not cache.put(STREAMS, stream(9))  # an event from before


def test_a_version_derived_before_a_restore_counts_no_more() -> None:
    cache = Cache()
    for version in (stream(8), stream(9)):
        cache.put(STREAMS, version)
    assert cache.derive(stream(9), kind) == "the second life"
    listed(cache, stream(5))
    again = {**stream(9), "spec": "the third life"}
    cache.put(STREAMS, again)
    assert cache.derive(again, kind) == "the third life"


def kind(version: Mapping[str, Any]) -> str:
    """Return what a version of a stream was made for."""
    return str(version.get("spec", "the second life"))


@pytest.mark.parametrize("show", [False, True], ids=["listed", "fetched"])
def test_an_event_during_a_request_outlives_its_answer(show: bool) -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))

    def answer() -> Any:
        cache.put(STREAMS, stream(7))
        return stream(6)

    if show:
        cache.refresh(REF, answer)
    else:
        cache.apply_listing(STREAMS, "ns", lambda: Listing([answer()], 6))
    assert cache.get(*REF) == stream(7)


def test_an_object_fetched_by_name_is_cached_without_its_label() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.remove(REF, "one", 9)
    cache.refresh(REF, lambda: stream(7))
    assert cache.get(*REF) == stream(7)


def test_an_object_deleted_during_its_fetch_stays_deleted() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.remove(REF, "one", 6)

    def late() -> Any:
        cache.remove(REF, "one", 9)
        return stream(7)

    cache.refresh(REF, late)
    assert cache.get(*REF) is None


def test_an_object_not_found_by_name_never_comes_back() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.refresh(REF, lambda: None)
    cache.remove(REF, "one", 6)
    assert not cache.put(STREAMS, stream(7))


def test_a_recreated_object_survives_the_deletion_of_the_former() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.put(STREAMS, stream(7, "two", "2026-11-02T00:00:00Z"))
    assert not cache.remove(REF, "one")
    assert not cache.put(STREAMS, stream(8))
    assert cache.get(*REF) == stream(7, "two", "2026-11-02T00:00:00Z")


def test_of_two_created_within_one_second_the_later_stays() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(7, "two"))
    assert not cache.put(STREAMS, stream(5, "one"))
    assert not cache.remove(REF, "one")
    # A listing that began before the deletion may still contain it, in any version.
    assert not cache.put(STREAMS, stream(9, "one"))
    assert cache.get(*REF) == stream(7, "two")


def test_an_object_created_during_a_not_found_answer_stays() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))

    def nothing() -> None:
        cache.put(STREAMS, stream(7, "two"))

    cache.refresh(REF, nothing)
    assert cache.get(*REF) == stream(7, "two")
    assert cache.put(STREAMS, stream(8, "two"))
    cache.refresh(REF, lambda: None)
    assert cache.get(*REF) is None


def test_a_listing_removes_only_objects_cached_before_it() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))

    def listing() -> Listing:
        newer = stream(9, "three")
        newer["metadata"]["name"] = "newer"
        cache.put(STREAMS, newer)
        return Listing([], 8)

    cache.apply_listing(STREAMS, None, listing)
    assert [cached_stream["metadata"]["name"] for cached_stream in cache.all(STREAMS, "ns")] == ["newer"]


def test_the_owners_of_fields_are_kept_for_subscriptions_only() -> None:
    cache, kept = Cache(), stream(1)
    kept["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cache.put(STREAMS, kept)
    cache.put(SUBSCRIPTIONS, kept)
    assert cache.get(*REF) == stream(1)
    assert cache.get(SUBSCRIPTIONS, "ns", "orders") == kept


def versioned(kube_object: Object | None) -> str | None:
    return kube_object and kube_object["metadata"]["resourceVersion"]


def test_on_change_is_called_for_changes_only() -> None:
    cache, changes = Cache(), []
    cache.on_change = lambda ref, *versions: changes.append(tuple(map(versioned, versions)))
    cache.put(STREAMS, stream(1))
    cache.put(STREAMS, stream(1))
    cache.remove(REF, "other")
    cache.remove(REF)
    assert changes == [(None, "1"), ("1", None)]


def test_the_age_of_a_text_is_measured_by_the_own_clock() -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])
    assert cache.text_age(REF, "one", "beat 1")[0] == 0
    now[0] = 25.0
    assert cache.text_age(REF, "one", "beat 1")[0] == 25
    assert cache.text_age(REF, "one", "beat 2")[0] == 0
    assert cache.text_age(REF, "two", "beat 2")[0] == 0


def test_a_text_is_new_only_soon_after_another_one() -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])

    def news(at: float, text: str) -> bool:
        now[0] = at
        return cache.text_age(REF, "one", text)[1]

    assert not news(0, "a first text of any age")
    assert news(10, "beat 1")
    assert news(35, "beat 1")  # its age is another matter
    assert not news(50, "after a silence")
    assert not news(50.1, "the same backlog")
    assert news(60, "beat 2")


def test_deletions_are_forgotten_after_a_time() -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])
    cache.put(STREAMS, stream(1))
    cache.remove(REF)
    now[0] = DELETION_MEMORY_S + 1
    cache.put(STREAMS, stream(2, "two"))
    cache.remove(REF)
    assert len(cache._deletions) == 1


def test_a_404_for_a_kind_keeps_its_cached_objects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A proxy may answer 404 for a moment. Read as a deletion, that would drain thousands of streams.
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.apply_listing(STREAMS, "ns", lambda: Listing([], 0))
    assert cache.get(*REF) == stream(5)
    assert re.search("answers 404 .* cached", caplog.text)
    assert cache.put(STREAMS, stream(6))
    cache.remove(REF, "one", 7)
    cache.apply_listing(STREAMS, "ns", lambda: Listing([], 0))
    assert cache.get(*REF) is None
