"""The operator's picture of the cluster: the newest form wins, and what has gone stays gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkastream_operator.kube.api import STREAMS, Listing
from kafkastream_operator.kube.cache import DELETION_MEMORY_S, Cache, Ref

REF = Ref(STREAMS, "ns", "orders")


def stream(version: int, uid: str = "one", created: str = "2026-11-01T00:00:00Z") -> dict[str, Any]:
    """A stream in one of its forms."""
    meta = {
        "name": "orders",
        "namespace": "ns",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": created,
    }
    return {"metadata": meta}


def test_an_older_form_never_replaces_a_newer_one() -> None:
    cache = Cache()
    assert cache.put(STREAMS, stream(9))
    assert not cache.put(STREAMS, stream(8))
    assert not cache.put(STREAMS, stream(9))
    assert cache.put(STREAMS, stream(10))
    assert cache.get(*REF) == stream(10)


def test_an_answer_that_comes_after_the_object_went_does_not_bring_it_back() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    assert cache.remove(REF, "one")
    assert not cache.put(STREAMS, stream(5))
    assert not cache.put(STREAMS, stream(6))
    assert cache.get(*REF) is None
    assert cache.put(STREAMS, stream(7, "two"))


def listed_without(cache: Cache, version: int) -> None:
    cache.apply_listing(STREAMS, "ns", lambda: Listing([], version))


def watched_going(cache: Cache, version: int) -> None:
    cache.remove(REF, "one", version)


WENT = pytest.mark.parametrize("went", [listed_without, watched_going])
"""How a label that was taken off is noticed: the object is not listed by it, or said to be deleted."""


@WENT
@pytest.mark.parametrize("after_s", [1.0, DELETION_MEMORY_S + 1])
def test_an_object_whose_label_is_put_back_is_known_again(went: Callable[[Cache, int], None], after_s: float) -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])
    cache.put(STREAMS, stream(5))
    went(cache, 7)
    assert cache.get(*REF) is None
    assert not cache.put(STREAMS, stream(6))  # an answer that was on its way
    assert not cache.put(STREAMS, stream(7))
    now[0] = after_s
    assert cache.put(STREAMS, stream(8))
    assert not cache.put(STREAMS, stream(6))
    assert cache.get(*REF) == stream(8)


@WENT
def test_an_object_that_is_back_already_does_not_go_once_more(went: Callable[[Cache, int], None]) -> None:
    cache = Cache()
    cache.put(STREAMS, stream(8))
    went(cache, 7)
    assert cache.get(*REF) == stream(8)


def test_what_is_asked_for_by_name_is_there_though_it_is_not_watched_any_more() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.remove(REF, "one", 9)
    cache.refresh(REF, lambda: stream(7))
    assert cache.get(*REF) == stream(7)


def test_what_goes_while_it_is_asked_for_is_gone() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.remove(REF, "one", 6)

    def late() -> Any:
        cache.remove(REF, "one", 9)
        return stream(7)

    cache.refresh(REF, late)
    assert cache.get(*REF) is None


def test_what_was_asked_for_by_name_and_is_not_there_never_comes_back() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.refresh(REF, lambda: None)
    cache.remove(REF, "one", 6)
    assert not cache.put(STREAMS, stream(7))


def test_an_object_that_was_made_again_survives_the_end_of_its_predecessor() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.put(STREAMS, stream(7, "two", "2026-11-02T00:00:00Z"))
    assert not cache.remove(REF, "one")
    assert not cache.put(STREAMS, stream(8))
    assert cache.get(*REF) == stream(7, "two", "2026-11-02T00:00:00Z")


def test_of_two_that_were_made_within_one_second_the_later_stays() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(7, "two"))
    assert not cache.put(STREAMS, stream(5, "one"))
    assert not cache.remove(REF, "one")
    # As the answer to a listing that began before it went, with whatever version.
    assert not cache.put(STREAMS, stream(9, "one"))
    assert cache.get(*REF) == stream(7, "two")


def test_an_answer_that_there_is_none_does_not_end_what_was_made_meanwhile() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))

    def nothing() -> None:
        cache.put(STREAMS, stream(7, "two"))

    cache.refresh(REF, nothing)
    assert cache.get(*REF) == stream(7, "two")
    assert cache.put(STREAMS, stream(8, "two"))
    cache.refresh(REF, lambda: None)
    assert cache.get(*REF) is None


def test_what_a_listing_does_not_have_is_gone_but_not_what_came_meanwhile() -> None:
    cache = Cache()
    cache.put(STREAMS, stream(5))

    def listing() -> Listing:
        newer = stream(9, "three")
        newer["metadata"]["name"] = "newer"
        cache.put(STREAMS, newer)
        return Listing([], 8)

    cache.apply_listing(STREAMS, None, listing)
    assert [each["metadata"]["name"] for each in cache.all(STREAMS, "ns")] == ["newer"]


def test_everybody_is_told_of_changes_and_of_nothing_else() -> None:
    cache, told = Cache(), []
    cache.on_change = lambda ref, found: told.append((ref.name, found["metadata"]["resourceVersion"]))
    cache.put(STREAMS, stream(1))
    cache.put(STREAMS, stream(1))
    cache.remove(REF, "other")
    cache.remove(REF)
    assert told == [("orders", "1"), ("orders", "1")]


def test_silence_is_measured_by_our_own_clock_from_the_last_change() -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])
    assert cache.text_age(REF, "one", "beat 1")[0] == 0
    now[0] = 25.0
    assert cache.text_age(REF, "one", "beat 1")[0] == 25
    assert cache.text_age(REF, "one", "beat 2")[0] == 0
    assert cache.text_age(REF, "two", "beat 2")[0] == 0


def test_only_what_follows_another_text_soon_was_said_just_then() -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])

    def news(at: float, text: str) -> bool:
        now[0] = at
        return cache.text_age(REF, "one", text)[1]

    assert not news(0, "whenever it was said")
    assert news(10, "beat 1")
    assert news(35, "beat 1")  # how old it is by now, the silence tells
    assert not news(50, "after a silence")
    assert not news(50.1, "of the same backlog")
    assert news(60, "beat 2")


def test_what_went_is_not_remembered_for_ever() -> None:
    now = [0.0]
    cache = Cache(lambda: now[0])
    cache.put(STREAMS, stream(1))
    cache.remove(REF)
    now[0] = DELETION_MEMORY_S + 1
    cache.put(STREAMS, stream(2, "two"))
    cache.remove(REF)
    assert len(cache._deletions) == 1


def test_a_kind_that_is_said_not_to_be_installed_keeps_the_objects_that_are_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A front end that answers 404 for a moment, and no deletion of thousands of streams, each of which would drain.
    cache = Cache()
    cache.put(STREAMS, stream(5))
    cache.apply_listing(STREAMS, "ns", lambda: Listing([], 0))
    assert cache.get(*REF) == stream(5)
    assert "answers 404 for the kind, but objects of it are cached" in caplog.text
    assert cache.put(STREAMS, stream(6))
    cache.remove(REF, "one", 7)
    cache.apply_listing(STREAMS, "ns", lambda: Listing([], 0))
    assert cache.get(*REF) is None
