"""What a person lets go of, unread, by an annotation of the subscription. Pure.

A release counts once: for what drains when it is first seen. It is noted in the status and then spent, so that one
that is left standing lets go of nothing that is removed later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafkastream_operator.core.document import Key
from kafkastream_operator.models.subscription import MAX_RELEASES, RELEASE_CHARACTERS


def releases_of(annotation: str) -> frozenset[str]:
    """The releases that an annotation has: `cluster` or `cluster/topic`, each with `@…` behind it or without, so that
    the same may be released again."""
    found = {each.strip() for each in annotation.split(",")}
    return frozenset(sorted(each for each in found if 0 < len(each) <= RELEASE_CHARACTERS)[:MAX_RELEASES])


def let_go(releases: Iterable[str], spent: Iterable[str], draining: Iterable[Key]) -> Mapping[Key, str]:
    """{what is let go: why} of what drains already."""
    fresh = set(releases) - set(spent)
    return {key: "released by hand" for key in draining if _named(key, fresh)}


def in_vain(releases: Iterable[str], spent: Iterable[str], draining: Collection[Key]) -> tuple[str, ...]:
    """The releases that are new and name nothing that drains: a slip of the pen, or too early, or too late."""
    fresh = set(releases) - set(spent)
    return tuple(sorted(fresh - {each for key in draining for each in _named(key, fresh)}))


def spent_on(key: Key, releases: Iterable[str], spent: Iterable[str]) -> str:
    """The release that stands there for a topic and counts no more; "" if none does."""
    return next(iter(sorted(_named(key, set(releases) & set(spent)))), "")


def _named(key: Key, releases: Iterable[str]) -> list[str]:
    names = (key.cluster, str(key))
    return [each for each in releases if each in names or each.rpartition("@")[0] in names]
