"""The deletion of state files that no start of a query can need any more. Driver; once a start, after its claim.

Every file here may be deleted or not, in any order within its kind, so a crash midway changes nothing: the next start
continues. A file is kept for `KEPT_S` in any case, since a user may restore a checkpoint from a backup.

- A driver's claim and record: once a newer driver has recorded the amendments that it obeys.
- An amendment: once the checkpoint is `KEPT_DOCUMENTS` documents past its batch. The newest one stays for ever: it
  shows that a restored checkpoint is too old.
- A list of undone amendments: once none of them exists.
- An acceptance: once a newer one is about the same cluster or split, or progress shows that it was used or is without
  use. Older ones of the same cluster or split go first: an old one must not come into force again.
- A verdict about a topic's integrity, its acceptance or its withdrawal: once the query holds no topic with the old id.
  One of a first start: once any query has started here. Another first start would ask the brokers.
- Reports of executors: once the batch is not the last one. The driver deletes those of batches by value earlier
  (`driver.replay`): each range of each batch has one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.planning.document.amendments import Amendments
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.sameness.identity import saved_identity
from dynamic_kafka.planning.sameness.integrity import TopicChange
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.folder import StateFile
from dynamic_kafka.state.store import StateLocation, apply_reports, number_of
from dynamic_kafka.state.verdicts import FIRST_START, FOLDER, Kind, saved_changes

KEPT_S = 30 * 24 * 3600.0
KEPT_DOCUMENTS = 1000
MOST = 100
"""The most files of each kind that one start deletes."""

log = logging.getLogger(__name__)


def purge(state: StateLocation, document: OffsetDocument, driver: str) -> None:
    """Delete a query's files that are void. A failure is logged: the next start tries again.

    Args:
        document: the last document of the checkpoint.
        driver: the newest driver, which has recorded the amendments that it obeys.
    """
    try:
        deleted = _Purge(state, document).run(driver)
    except DynamicKafkaError as error:
        log.warning("old files of the stateLocation stay until the next start: %s", error)
        return
    if deleted:
        log.info("deleted %d old files of query %s in the stateLocation", deleted, document.query)


class _Purge:
    def __init__(self, state: StateLocation, document: OffsetDocument) -> None:
        self._state, self._document = state, document
        self._kept_since_s = time.time() - KEPT_S
        self._deleted = 0

    def run(self, driver: str) -> int:
        for folder in ("found", "drivers"):
            files = self._state.list_folder(f"{self._document.query}/{folder}")
            self._delete(folder, (file.name for file in files if file.name < f"{driver}.json"))
        amendments = self._state.list_folder(f"{self._document.query}/amendments")
        oldest_kept = self._document.number - KEPT_DOCUMENTS
        self._delete("amendments", self._old(file for file in amendments[:-1] if number_of(file.name) < oldest_kept))
        self._delete("undone", self._without_amendments())
        self._delete("accepted", self._used_acceptances())
        last = {fingerprint(self._document), self._document.previous}
        self._delete(FOLDER, self._void_changes())
        self._delete(FOLDER, self._old(self._state.list_folder(f"{FIRST_START}/{FOLDER}")), query=FIRST_START)
        # Files of checks whose process was killed before it deleted them.
        self._delete("seen", self._old(self._state.list_folder(f"{self._document.query}/seen")))
        batches = [name for name in self._state.list_folders(f"{self._document.query}/seen") if name not in last]
        # A folder of which nothing is old is not counted: it would keep the others from their turn.
        listed = (
            (f"seen/{batch}", self._state.list_folder(f"{self._document.query}/seen/{batch}")) for batch in batches
        )
        due = ((folder, names) for folder, files in listed if (names := self._old(files)))
        for folder, names in islice(due, MOST):
            self._delete(folder, names)
        return self._deleted

    def _delete(self, folder: str, names: Iterable[str], query: str = "") -> None:
        for name in list(names)[:MOST]:
            self._state.delete(f"{query or self._document.query}/{folder}/{name}")
            self._deleted += 1

    def _old(self, files: Iterable[StateFile]) -> list[str]:
        return [file.name for file in files if file.changed_s is not None and file.changed_s < self._kept_since_s]

    def _without_amendments(self) -> list[str]:
        query = self._document.query
        old = self._old(self._state.list_folder(f"{query}/undone"))
        if not old:
            return []
        existing = self._state.digests(query)
        return [name for name, marks in self._state.undone_lists(query, old).items() if existing.isdisjoint(marks)]

    def _void_changes(self) -> list[str]:
        query = self._document.query
        old = self._old(self._state.list_folder(f"{query}/{FOLDER}"))
        if not old:
            return []
        kinds: tuple[Kind, ...] = ("verdict", "accepted", "withdrawn")
        changes = {name: change for kind in kinds for name, change in saved_changes(self._state, query, kind).items()}
        return [name for name in old if name in changes and not _is_held(self._document, changes[name])]

    def _used_acceptances(self) -> list[str]:
        folder = f"{self._document.query}/accepted"
        old = set(self._old(self._state.list_folder(folder)))
        if not old:
            return []
        # A split that an amendment took back is behind the offset that the document has.
        amendments = Amendments(self._state.amendments(self._document.query))
        apply_reports(amendments, self._state, self._document)
        progress = amendments.after(self._document)
        by_subject: dict[tuple[Any, ...], list[str]] = {}
        used = set()
        for name, wire in self._state.read_folder(folder).items():
            subject = (wire.get("kind"), wire.get("cluster"), wire.get("topic"), wire.get("partition"))
            by_subject.setdefault(subject, []).append(name)
            with self._state.explain_damage(f"{folder}/{name}"):
                if _is_used(name, wire, progress):
                    used.add(name)
        replaced = {name for names in by_subject.values() for name in names[:-1]}
        # By name, so the oldest first: the newest one of a subject goes only after all the others.
        removable = [name for name in sorted(used | replaced) if name in old]
        kept = {names[-1] for names in by_subject.values() if not old.issuperset(names)}
        return [name for name in removable if name not in kept]


def _is_held(document: OffsetDocument, change: TopicChange) -> bool:
    """Return whether the query reads, or has parked, the topic under the id from before the change.

    Its cluster may have been renamed since the document was saved, so only the topic's own id counts.
    """
    return change.expected in {topic.topic_id for topic in document.topics()}


def _is_used(name: str, wire: Mapping[str, Any], progress: OffsetDocument) -> bool:
    cluster = str(wire.get("cluster"))
    if wire.get("kind") == "identity":
        if progress.used_acceptances.get(cluster) == wire.get("id", name):
            return True
        return saved_identity(progress, cluster) in (None, wire.get("kafkaId"))
    if wire.get("kind") != "data-loss":
        return False
    split = Split(cluster, wire.get("topic", ""), wire.get("partition", -1))
    parked = progress.parked_topic(split.cluster, split.topic)
    following = {progress.next_of(split), parked.progress.next.get(split.partition) if parked else None} - {None}
    if not following:
        # A split that no plan has opened yet may need it: its explicit start had expired.
        return int(wire.get("document") or 0) < progress.number - KEPT_DOCUMENTS
    return wire.get("from") not in following
