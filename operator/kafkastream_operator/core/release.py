"""Releases: topics that a user lets go of unread, by an annotation of the subscription. Pure.

A release counts once, for the topics that drain when the operator first sees it. The status then records it as spent. A
release that stays in the annotation therefore lets go of nothing that is removed later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dynamic_kafka.contract.kubernetes_names import RELEASE_ANNOTATION
from kafkastream_operator.core.document import Key
from kafkastream_operator.models.subscription import MAX_RELEASES, RELEASE_CHARACTERS, SubscriptionStatus


def releases_of(annotation: str) -> frozenset[str]:
    """Return the releases in an annotation, which separates them by commas.

    Each is `cluster` or `cluster/topic`. It may end in `@` and any text, so that the same topic can be released again.
    """
    releases = {entry.strip() for entry in annotation.split(",")}
    return frozenset(sorted(entry for entry in releases if 0 < len(entry) <= RELEASE_CHARACTERS)[:MAX_RELEASES])


def released_topics(releases: Iterable[str], spent: Iterable[str], draining: Iterable[Key]) -> Mapping[Key, str]:
    """Return {draining topic that a new release names: the reason for its Event}."""
    new = set(releases) - set(spent)
    by_topic = {key: sorted(_naming(key, new)) for key in draining}
    return {key: f"released by hand{_note(names[0])}" for key, names in by_topic.items() if names}


def noted_release(name: str, note: str) -> str:
    """Return the release of a cluster or topic with a note, without the characters that separate releases."""
    plain = " ".join(note.replace("@", " at ").replace(",", ";").split())
    return f"{name}@{plain}"[:RELEASE_CHARACTERS]


def with_releases(annotations: Mapping[str, str], spent: Collection[str], entries: Iterable[str]) -> str:
    """Return the annotation with more releases, as `key=value`, and without those that have counted already."""
    known = releases_of(annotations.get(RELEASE_ANNOTATION, "")) - set(spent)
    return f"{RELEASE_ANNOTATION}={','.join((*sorted(known), *entries))}"


def draining_in(stream: str, status: SubscriptionStatus) -> list[Key]:
    """Return the topics that drain in a stream, sorted."""
    return sorted({Key(topic.cluster, topic.topic) for topic in status.draining if topic.stream == stream})


def unused(releases: Iterable[str], spent: Iterable[str], draining: Collection[Key]) -> tuple[str, ...]:
    """Return the new releases that name nothing that drains: misspelt, too early or too late."""
    new = set(releases) - set(spent)
    return tuple(sorted(new - {entry for key in draining for entry in _naming(key, new)}))


def spent_release_of(key: Key, releases: Iterable[str], spent: Iterable[str]) -> str:
    """Return the release that names this topic and has counted already; "" if there is none."""
    return next(iter(sorted(_naming(key, set(releases) & set(spent)))), "")


def _note(release: str) -> str:
    _, at, note = release.rpartition("@")
    return f": {note}" if at and note else ""


def _naming(key: Key, releases: Iterable[str]) -> list[str]:
    names = (key.cluster, str(key))
    return [release for release in releases if release in names or release.rpartition("@")[0] in names]
