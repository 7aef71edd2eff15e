"""The checks of a finished run, and `report.json`. A run without problems is a success.

It runs after the driver has ended, on the sink, Spark's checkpoint and the journal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo import sink
from demo.driver import COMPLETED, Starts, explain_starts
from demo.journal import Journal
from demo.proof import Delivered, Return, Verdict, check_return, prove, wrong_ending
from demo.settings import DISCOVERY_S, TOPIC, TRIGGER_S, Settings
from demo.stage import Stage
from dynamic_kafka.planning.document.progress import OffsetDocument

CHANGES_DUE = 4
KILLS_DUE = 2


@dataclass(frozen=True)
class Report:
    """All results of a run.

    Attributes:
        returns: {cluster: how each partition continued} of the clusters that were added back.
        aggregate: {cluster: records} in the second query's windows on event time.
        late: rows in these windows that came late. Spark drops a row that is too late, so it is in no window.
        restarts_confirmed: restarts for changes that the operator has confirmed.
        left_behind: files in the sink's folder that no batch has committed; readers ignore them.
        written: records by cluster and second of the story, by Kafka's timestamps.
        readable: (seconds since the story's beginning, rows by cluster) of each batch of the sink.
    """

    settings: Settings
    journal: Journal
    verdict: Verdict
    returns: Mapping[str, Sequence[Return]]
    aggregate: Mapping[str, int]
    late: int
    starts: int
    restarts_for_changes: int
    restarts_confirmed: int
    left_behind: int
    written: Mapping[str, Mapping[int, int]]
    readable: Sequence[tuple[float, Mapping[str, int]]]
    problems: Sequence[str]

    @property
    def holds(self) -> bool:
        """Return whether the run kept every promise."""
        return not self.problems


def examine(stage: Stage) -> Report:
    """Read the sink from its first batch, and check everything."""
    reader = sink.Sink(stage.sink.folder)
    batches = list(reader.follow())
    rows = [row for batch in batches for row in sink.read(batch)]
    verdict = prove(stage.producers.confirmed(), rows)
    documents = [document for _, document in stage.parquet.documents()]
    returns = {
        cluster: check_return(rows, cluster, parked, since) for cluster, parked, since in find_returns(documents)
    }
    journal, aggregate, late = stage.journal, stage.counted(), sum(stage.late().values())
    starts = explain_starts(stage.driver.pods)
    confirmed = confirmed_restarts(starts, stage.plane.confirmed)
    problems = [
        *wrong_records(verdict),
        *wrong_totals(verdict, "its broker counts", journal.broker_ends),
        *wrong_totals(verdict, "the windows on event time have", aggregate),
        *wrong_lateness(late),
        *wrong_returns(journal, returns),
        *wrong_run(journal, stage.settings),
        *wrong_starts(starts, confirmed, stage.settings),
        *wrong_drains(journal),
        *_wrong_end(stage),
    ]
    # Spark's reader begins with the newest compact entry. It must find the same files.
    if sorted(reader.committed_files()) != sorted(file for batch in batches for file in batch.files):
        problems.append("the entries of the sink's log differ from its compact entries")
    return Report(
        settings=stage.settings,
        journal=journal,
        verdict=verdict,
        returns=returns,
        aggregate=aggregate,
        late=late,
        starts=len(stage.driver.pods),
        restarts_for_changes=starts.restarts_for_changes,
        restarts_confirmed=confirmed,
        left_behind=reader.left_behind(),
        written=_by_second(rows, journal.began),
        readable=[(at - journal.began, counts) for at, counts in stage.batches.values()],
        problems=problems,
    )


def _wrong_end(stage: Stage) -> list[str]:
    ending = stage.journal.ending
    if ending is None:
        return ["the job did not end by itself"]
    ends = {name: stage.producers.ends(name) for name in stage.members}
    return wrong_ending(ending.stop_records, ends, in_order=ending.in_order)


def find_returns(documents: Iterable[OffsetDocument]) -> list[tuple[str, dict[int, int], int]]:
    """Return (cluster, its parked offsets, the first batch after its return) of each cluster that was added back.

    The parked offsets are from the last document without the cluster; empty if there are none.
    """
    returns = []
    known: set[str] = set()
    before = OffsetDocument()
    for batch, document in enumerate(documents):
        for cluster in sorted(set(document.clusters) - set(before.clusters)):
            if cluster in known:
                parked = before.parked.get(cluster)
                topic = parked.topics.get(TOPIC) if parked else None
                returns.append((cluster, dict(topic.progress.next) if topic else {}, batch))
        known |= set(document.clusters)
        before = document
    return returns


def wrong_records(verdict: Verdict) -> list[str]:
    """Return the problems of the comparison record by record."""
    counts = {
        "records were lost": verdict.lost,
        "rows are duplicates": verdict.duplicated,
        "rows are of records that were never produced": verdict.unknown,
        "rows have another place than their record": verdict.misplaced,
        "offsets are missing between others": verdict.gaps,
    }
    problems = [f"{count:,} {what}" for what, count in counts.items() if count]
    if not verdict.produced:
        problems.append("no record was produced")
    return [*problems, *verdict.examples]


def wrong_totals(verdict: Verdict, who: str, counts: Mapping[str, int]) -> list[str]:
    """Return the clusters whose second count differs; `who` is the subject of the message."""
    return [
        f"{cluster}: {produced:,} records were produced, {who} {counts.get(cluster, 0):,}"
        for cluster, (produced, _) in verdict.per_cluster.items()
        if counts.get(cluster, 0) != produced
    ]


def wrong_lateness(late: int) -> list[str]:
    """Return the problem of late rows."""
    return [f"{late:,} rows were late"] if late else []


def wrong_returns(journal: Journal, returns: Mapping[str, Sequence[Return]]) -> list[str]:
    """Return the clusters that did not resume exactly at their parked offsets."""
    problems = []
    for change in journal.changes:
        if change.kind == "return" and not returns.get(change.cluster):
            problems.append(f"{change.cluster} was added back, but its offsets were not parked")
    for cluster, splits in returns.items():
        problems += [f"{cluster} did not resume at its parked offset: {split}" for split in splits if not split.exact]
    return problems


def confirmed_restarts(starts: Starts, confirmed: Mapping[str, str]) -> int:
    """Return how many restarts for changes the operator has confirmed; `confirmed` is {revision: method}."""
    return sum(confirmed.get(revision) == "Restart" for revision in starts.for_changes)


def wrong_starts(starts: Starts, confirmed: int, settings: Settings) -> list[str]:
    """Return the problems of the driver's starts: needless ones, and restarts that were not confirmed."""
    if settings.strategy == "live":
        restarts = starts.restarts_for_changes
        return [f"the driver was started {restarts} times for another reason than a kill"] if restarts else []
    problems = []
    if not starts.for_changes:
        problems.append("no change restarted the driver")
    if confirmed < len(starts.for_changes):
        problems.append(
            f"the operator has confirmed only {confirmed} of {len(starts.for_changes)} restarts for changes"
        )
    if starts.unexplained:
        problems.append(f"the driver was started {starts.unexplained} times without a change or a kill")
    return problems


def wrong_drains(journal: Journal) -> list[str]:
    """Return the problems of the drains.

    A removed cluster must be read to its end before it is reported as safe. The final content of the sink cannot show
    this, since a cluster that was added back is read on. A run without an early removal does not test the drain at all.
    """
    early = [drain for drain in journal.drains if drain.unread > 0 and drain.written_after > 0]
    problems = [] if early else ["no cluster was removed while it had unread records and producers"]
    for drain in journal.drains:
        if drain.left is None:
            problems.append(f"{drain.cluster} was removed, but never reported safe to shut down")
        elif drain.left:
            problems.append(f"{drain.cluster} was reported safe to shut down with {drain.left:,} records unread")
    return problems


def wrong_run(journal: Journal, settings: Settings) -> list[str]:
    """Return missing changes and kills, and first records that came too late."""
    problems = []
    if len(journal.changes) < CHANGES_DUE:
        problems.append(f"only {len(journal.changes)} metadata changes; at least {CHANGES_DUE} were due")
    if len(journal.kills) < KILLS_DUE:
        problems.append(f"only {len(journal.kills)} kills; at least {KILLS_DUE} were due")
    median, bound = journal.median_first_record_s, settings.first_record_bound_s
    if median is None or median > bound:
        took = "never" if median is None else f"after {median:.1f} s (median)"
        problems.append(f"the first record of an added cluster came {took}; the limit is {bound:g} s")
    return problems


def write_json(report: Report, path: Path) -> None:
    """Write `report.json`."""
    path.write_text(json.dumps(as_json(report), indent=2) + "\n")


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON. Times `at` are ISO 8601 in UTC; `at_seconds` count from the story's beginning."""
    journal, verdict = report.journal, report.verdict

    def at(moment: float) -> dict[str, Any]:
        return {
            "at": datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds"),
            "at_seconds": _rounded(moment - journal.began),
        }

    return {
        "holds": report.holds,
        "problems": list(report.problems),
        "produced": verdict.produced,
        "delivered": verdict.delivered,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "unknown": verdict.unknown,
        "misplaced": verdict.misplaced,
        "offset_gaps": verdict.gaps,
        "late": report.late,
        "kills": len(journal.kills),
        "changes": [
            {
                "what": change.what,
                **at(change.at),
                "clusters": list(change.clusters),
                "seconds_in_force": _rounded(change.in_force_s),
                "seconds_to_first_record": _rounded(change.first_record_s),
            }
            for change in journal.changes
        ],
        "strategy": report.settings.strategy,
        "restarts_for_changes": report.restarts_for_changes,
        "restarts_confirmed": report.restarts_confirmed,
        "driver_starts": report.starts,
        "median_seconds_to_first_record": _rounded(journal.median_first_record_s),
        "allowed_seconds_to_first_record": report.settings.first_record_bound_s,
        "discovery_interval_seconds": DISCOVERY_S,
        "trigger_seconds": TRIGGER_S,
        "drains": [
            {
                "cluster": drain.cluster,
                "removed_at_seconds": _rounded(drain.removed - journal.began),
                "unread_at_removal": drain.unread,
                "written_after_removal": drain.written_after,
                "unread_when_safe": drain.left,
                "seconds_to_drained": _rounded(drain.drained_s),
                "seconds_to_safe": _rounded(drain.safe_s),
                "waited_for": list(drain.waited_for),
            }
            for drain in journal.drains
        ],
        "kill_details": [
            {
                **at(kill.at),
                "moment": kill.wanted,
                "found": kill.found,
                "processes": kill.processes,
                "seconds_to_next_batch": _rounded(kill.recovered_s),
            }
            for kill in journal.kills
        ],
        "clusters": {
            cluster: {
                "produced": produced,
                "delivered": delivered,
                "broker_end_offsets": journal.broker_ends.get(cluster),
                "aggregate": report.aggregate.get(cluster),
            }
            for cluster, (produced, delivered) in verdict.per_cluster.items()
        },
        "returns": {cluster: [asdict(split) for split in splits] for cluster, splits in report.returns.items()},
        "ending": _ending(journal),
        "uncommitted_files_left_by_kills": report.left_behind,
        "batches": len(report.readable),
        "seed": report.settings.seed,
        "duration": report.settings.duration,
        "story_seconds": _rounded(journal.ended - journal.began),
    }


def _ending(journal: Journal) -> dict[str, Any] | None:
    ending = journal.ending
    if ending is None:
        return None
    return {
        "by_itself_after": "end of day",
        "application": COMPLETED,
        "exit_code_0": ending.in_order,
        "seconds_to_completed": _rounded(ending.took_s),
        "stop_records": ending.stop_records,
    }


def _by_second(rows: Iterable[Delivered], began: float) -> dict[str, dict[int, int]]:
    counts: dict[str, Counter[int]] = {}
    for row in rows:
        counts.setdefault(row.cluster, Counter())[int((row.written_at - began) // 1)] += 1
    return {cluster: dict(by_second) for cluster, by_second in sorted(counts.items())}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
