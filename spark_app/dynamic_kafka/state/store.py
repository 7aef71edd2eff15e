"""The state location: a query's amendments, acceptances and drivers, beside Spark's checkpoint.

Driver and tools. Each file is written once, before the step that needs it (`state.folder`).
`state.purge` deletes files that no start can need any more.

Files of one query, in `<stateLocation>/<query>`:

    state/<id>.json
    drivers/<number>-<mark>.json
    found/<number>-<mark>.json
    amendments/<number>-<start>-<end>-<mark>.json
    undone/<mark>.json
    accepted/<number>-<what>.json
    seen/<batch>/<kind>-<mark>.json
    seen/<batch>/<kind>-<mark>.<driver>.json

`state` binds the folder to the query's offset documents. `drivers` has the drivers that have started on the checkpoint,
`found` the amendments and stop records that each of them obeys. `seen` has reports of executors, `integrity` verdicts
about topics (`state.verdicts`). The tools' records are `<stateLocation>/audit/<time>-<tool>.json`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from dynamic_kafka.errors import DynamicKafkaError, OffsetDocumentError
from dynamic_kafka.planning.document.amendments import Amendment, Amendments
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.folder import RANGE_END, STOP_RECORD, TOPIC_ID, Seen, StateFolder

log = logging.getLogger(__name__)

_NUMBERED = re.compile(r"(\d{12})-.*")


@dataclass(frozen=True)
class _Record:
    """The amendments of documents from `since` on that a driver found when it started.

    Attributes:
        batch: fingerprint of the last document that it found; empty in a record of an earlier release.
        stop_records: those that executors had found in the batch that ends with that document.
    """

    driver: str
    since: int
    found: frozenset[str]
    batch: str = ""
    stop_records: tuple[StopRecord, ...] = ()

    def accepts(self, amendment: Amendment) -> bool:
        """Return whether an amendment applies: not if a driver wrote it that had been replaced by this one before.

        Amendments of earlier batches always apply. They matter only to a checkpoint that was restored from a backup.
        """
        earlier = amendment.number < self.since or not amendment.driver
        return earlier or amendment.driver >= self.driver or amendment.digest in self.found


class Reported(NamedTuple):
    """A batch that executors have reported about.

    Attributes:
        number: of its end document; 0 in reports of an earlier release.
        has_ends: whether a report is about the end of a range.
    """

    number: int
    has_ends: bool


class StateLocation(StateFolder):
    """The files of all queries that use one `stateLocation`."""

    def state_ids(self, query: str) -> dict[str, str]:
        """Return the ids of the query's state here, each with the id of the lost state that it replaces, or "".

        A damaged file counts as absent, after a warning: the query then refuses the folder until the user restores the
        file, or gives the state up (`accept --state`).
        """
        folder = f"{query}/state"
        ids = {}
        for file in self.list_folder(folder):
            try:
                for wire in self.read_folder(folder, [file.name]).values():
                    with self.explain_damage(f"{folder}/{file.name}"):
                        ids[str(wire["id"])] = str(wire.get("replaces", ""))
            except OffsetDocumentError as damage:
                log.warning("%s; until then its state counts as absent", damage)
        return ids

    def bind(self, query: str, state: str, *, replaces: str = "") -> None:
        """Record that this folder holds the query's state `state`.

        Each id is a file of its own: two drivers that bind one folder at the same time do not overwrite each other.

        Args:
            replaces: the id of the state that a user gave up (`accept --state`).
        """
        more = {"replaces": replaces} if replaces else {}
        self.write(f"{query}/state/{state}.json", {"version": 1, "id": state} | more)

    def amendments(self, query: str, since: int = 0) -> list[Amendment]:
        """Return the amendments of a query that apply, by batch; those of one batch in any order.

        Those that a user's restored checkpoint made void are left out, and those of a driver that was replaced before
        it wrote them (`state.incarnation`).

        Args:
            since: leave out those of documents before this number.
        """
        folder, saved = f"{query}/amendments", []
        names = [file.name for file in self.list_folder(folder) if number_of(file.name) >= since]
        for name, wire in self.read_folder(folder, names).items():
            with self.explain_damage(f"{folder}/{name}"):
                saved.append(Amendment.from_wire(wire))
        if not saved:
            return []
        undone, newest = self.undone(query), self._newest_record(query)
        return [amendment for amendment in saved if amendment.digest not in undone and newest.accepts(amendment)]

    def digests(self, query: str) -> set[str]:
        """Return the digests of all amendments of a query, void ones too."""
        folder, marks = f"{query}/amendments", set()
        for name, wire in self.read_folder(folder).items():
            with self.explain_damage(f"{folder}/{name}"):
                marks.add(Amendment.from_wire(wire).digest)
        return marks

    def save_amendment(self, amendment: Amendment) -> None:
        """Make an amendment durable. Its batch may run only after this."""
        content = amendment.to_wire()
        # One batch may need several, one for each replay that found more ranges to leave out.
        mark = hashlib.sha256(json.dumps(content["leftOut"]).encode()).hexdigest()[:8]
        # A driver that was replaced must not write over the amendment of the next one.
        mark += f"-{amendment.driver}" if amendment.driver else ""
        name = f"{amendment.number:012d}-{amendment.start}-{amendment.end}-{mark}.json"
        self.write(f"{amendment.query}/amendments/{name}", content)

    def undo_amendments(self, query: str, undone: Collection[Amendment]) -> None:
        """Make these void: a user restored a checkpoint from before their batches. The same may be made again later."""
        marks = sorted(amendment.digest for amendment in undone)
        name = hashlib.sha256("".join(marks).encode()).hexdigest()[:16]
        self.write(f"{query}/undone/{name}.json", {"version": 1, "amendments": marks})

    def undone(self, query: str) -> set[str]:
        """Return the digests of the amendments that `undo_amendments` made void."""
        return set().union(*self.undone_lists(query).values())

    def undone_lists(self, query: str, names: Collection[str] | None = None) -> dict[str, set[str]]:
        """Return {file name: digests} of the files of `undo_amendments`; `names` as in `read_folder`."""
        lists = {}
        for name, wire in self.read_folder(f"{query}/undone", names).items():
            with self.explain_damage(f"{query}/undone/{name}"):
                lists[name] = set(map(str, wire["amendments"]))
        return lists

    def stop_records(self, end: OffsetDocument, reports: Iterable[Seen] | None = None) -> list[StopRecord]:
        """Return where executors have ended ranges of the batch that ends with a document.

        If the newest driver started on this very document, reports for drivers before it count only if it found them:
        it has read the batch without the others. Among reports of several drivers, that of the newest one counts.

        Args:
            reports: the reports about the batch, if the caller has them already.
        """
        if not end.query:
            return []
        batch = fingerprint(end)
        seen = self.seen(end.query, batch) if reports is None else reports
        stop_reports = sorted(
            (report for report in seen if report.kind in (STOP_RECORD, RANGE_END)), key=lambda report: report.driver
        )
        if not stop_reports:
            return []
        newest = self._newest_record(end.query)
        known, since = (newest.stop_records, newest.driver) if newest.batch == batch else ((), "")
        later = (
            StopRecord(
                split,
                int(content["offset"]),
                content.get("topicId"),
                content.get("ends", "split"),
                content.get("time"),
            )
            for _, split, content, driver in stop_reports
            if driver >= since
        )
        return list({record.split: record for record in (*known, *later)}.values())

    def reports_of(self, end: OffsetDocument) -> tuple[list[Seen], list[StopRecord], list[Split]]:
        """Return the reports about the batch that ends with a document.

        Returns:
            All of them; where executors have ended ranges; and the splits of which they have read nothing, since
            another topic has the name.
        """
        reports = self.seen(end.query, fingerprint(end)) if end.query else []
        unread = [report.split for report in reports if report.kind == TOPIC_ID]
        return reports, self.stop_records(end, reports), unread

    def delete_reports(self, query: str, batch: str) -> None:
        """Delete the reports of executors about a batch. A failure is logged: `state.purge` tries again."""
        try:
            self.delete_folder(f"{query}/seen/{batch}")
        except DynamicKafkaError as error:
            log.warning("old reports of executors stay for now: %s", error)

    def reported(self, query: str, but: Collection[str] = ()) -> dict[str, Reported]:
        """Return {fingerprint of the end document: …} of the batches that executors have reported about.

        All reports about a batch have the same number, so one of each is read.

        Args:
            but: the batches to leave out.
        """
        found = {}
        for batch in self.list_folders(f"{query}/seen"):
            folder = f"{query}/seen/{batch}"
            if batch in but or not (files := self.list_folder(folder)):
                continue
            for file in reversed(files):
                if content_by_name := self.read_folder(folder, [file.name], skip_damaged=True):
                    with self.explain_damage(f"{folder}/{file.name}"):
                        number = int(content_by_name[file.name].get("number", 0))
                    has_ends = any(other.name.startswith(RANGE_END) for other in files)
                    found[batch] = Reported(number, has_ends)
                    break
        return found

    def save_record(
        self,
        document: OffsetDocument,
        driver: str,
        amendments: Collection[Amendment],
        stop_records: Collection[StopRecord] = (),
    ) -> None:
        """Record what a driver found when it started on a checkpoint's last document.

        Args:
            amendments: those of this and later documents.
            stop_records: those of the batch that ends with the document.
        """
        record = {
            "version": 1,
            "since": document.number,
            "amendments": sorted(amendment.digest for amendment in amendments),
            "batch": fingerprint(document),
            # Without what only batches by value have: those are of this release.
            "stopRecords": [
                [*split, offset, topic_id, *((ends, time_ms) if ends != "split" else ())]
                for split, offset, topic_id, ends, time_ms in stop_records
            ],
        }
        self.write(f"{document.query}/found/{driver}.json", record)

    def _newest_record(self, query: str) -> _Record:
        folder = f"{query}/found"
        newest = [file.name for file in self.list_folder(folder)][-1:]
        for name, wire in self.read_folder(folder, newest).items():
            with self.explain_damage(f"{folder}/{name}"):
                digests = frozenset(map(str, wire["amendments"]))
                ended = (StopRecord(Split(*entry[:3]), *entry[3:]) for entry in wire.get("stopRecords", ()))
                batch = str(wire.get("batch", ""))
                return _Record(name.removesuffix(".json"), int(wire["since"]), digests, batch, tuple(ended))
        return _Record("", 0, frozenset())

    def accepted_identities(self, progress: OffsetDocument) -> dict[str, AcceptedIdentity]:
        """Return the physical clusters that a user accepted, by cluster id.

        Acceptances that `progress` names as void are left out. The newest one of a cluster id voids the others.
        """
        if not progress.query:
            return {}
        newest, used = self._accepted(progress.query)[0], progress.used_acceptances
        return {cluster: accepted for cluster, accepted in newest.items() if used.get(cluster) != accepted.id}

    def accepted_losses(self, query: str) -> dict[Split, AcceptedLoss]:
        """Return the data losses that a user accepted, the newest of each split."""
        return self._accepted(query)[1]

    def _accepted(self, query: str) -> tuple[dict[str, AcceptedIdentity], dict[Split, AcceptedLoss]]:
        folder = f"{query}/accepted"
        identities: dict[str, AcceptedIdentity] = {}
        losses: dict[Split, AcceptedLoss] = {}
        for name, wire in self.read_folder(folder).items():
            with self.explain_damage(f"{folder}/{name}"):
                if wire["kind"] == "identity":
                    given = AcceptedIdentity(str(wire["kafkaId"]), wire.get("replaces"), str(wire.get("id", name)))
                    identities[str(wire["cluster"])] = given
                elif wire["kind"] == "data-loss":
                    split = Split(str(wire["cluster"]), str(wire["topic"]), int(wire["partition"]))
                    losses[split] = AcceptedLoss.from_wire(wire)
                else:
                    raise ValueError(f"kind {wire['kind']!r} is unknown")
        return identities, losses


def apply_reports(amendments: Amendments, state: StateLocation, end: OffsetDocument) -> list[Seen]:
    """Let amendments have the reports of executors about the batch that ends with a document. Return the reports."""
    reports, stop_records, unread = state.reports_of(end)
    amendments.with_stop_records(end, stop_records, unread)
    return reports


def number_of(name: str) -> int:
    """Return the number that a file's name begins with, a document's or a driver's; 0 if it has none."""
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else 0
