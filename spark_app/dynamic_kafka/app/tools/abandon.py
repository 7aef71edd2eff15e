"""`abandon`: leave ranges of the pending batch out, once, by an amendment. Nothing is deleted.

For a batch that cannot be read any more and that metadata alone does not let go: the splits go back to the start of
their ranges, and are read from there when their cluster can be read again. The query must be stopped: one that runs has
decided already what its batch reads, and would commit a batch with the very ranges that the amendment says it left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from dynamic_kafka.app.exit_codes import ExitCode
from dynamic_kafka.app.tools.audit import confirm, record
from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.app.tools.saved_query import SavedQuery, add_query_arguments, open_query
from dynamic_kafka.errors import OptionError, PendingRangesError
from dynamic_kafka.planning.amendments import Amendment, Amendments
from dynamic_kafka.planning.identity import saved_identity
from dynamic_kafka.planning.splits import SplitRange

HELP = "leave a cluster's ranges out of the pending batch of a stopped query; its splits go back to their start"
SETTLED_S = 60.0
"""A query that logged or committed a batch this recently may be running still."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `abandon`."""
    add_query_arguments(parser)
    parser.add_argument("what", metavar="CLUSTER[/TOPIC[/PARTITION]]", help="whose ranges to leave out")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--stopped", action="store_true", help="the query is stopped for certain, although it wrote a moment ago"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show what it means, ask, write.

    Raises:
        OptionError: no such range is pending, the query seems to run, or nobody said yes.
    """
    target = open_query(arguments)
    state = target.writable_state()
    left_out = _chosen(target, arguments.what, state.amendments(target.query))
    _refuse_running(target, stopped=arguments.stopped)
    rows = [(*part.split, part.start, part.end, part.size) for part in left_out]
    print(f"Left out of pending batch {target.saved.batches.pending}:")
    print(table(("cluster", "topic", "partition", "from", "to", "records"), rows))
    print(_meaning(left_out, _others(target, state.accepted_identities(target.query))))
    confirm("Abandon these ranges?", yes=arguments.yes)
    made = _amendment(target, left_out)
    after = Amendments([made]).after(target.saved.latest)
    audited = record(
        state,
        "abandon",
        what=f"left {arguments.what} out of pending batch {target.saved.batches.pending}",
        before={str(part.split): target.saved.latest.next_of(part.split) for part in left_out},
        after={str(part.split): after.next_of(part.split) for part in left_out},
    )
    state.save_amendment(made)
    if target.checkpoint.batches() != target.saved.batches:
        raise PendingRangesError(
            f"{target.name}: the query was running: it has planned or committed a batch since. It did not obey this"
            f" amendment, and would read the ranges again at its next start. Stop it, and delete the newest file in"
            f" {state.uri}/{target.query}/amendments"
        )
    print(f"Abandoned: {len(left_out)} ranges (recorded in {state.uri}/{audited}). Start the query again.")
    return ExitCode.DONE


def _others(target: SavedQuery, accepted: Mapping[str, str]) -> set[str]:
    """The clusters that are known to be other ones by now."""
    saved = {cluster: saved_identity(target.saved.latest, cluster) for cluster in accepted}
    return {cluster for cluster, kafka_id in accepted.items() if saved[cluster] not in (None, kafka_id)}


def _meaning(left_out: tuple[SplitRange, ...], others: set[str]) -> str:
    given_up = sum(part.size for part in left_out if part.split.cluster in others)
    kept = sum(part.size for part in left_out) - given_up
    told = []
    if given_up:
        told.append(f"{given_up} records are given up: another Kafka cluster was accepted in place of theirs.")
    if kept:
        told.append(
            f"These splits go back to the start of their ranges: {kept} records are read when their cluster can be read"
            " again. If an earlier attempt of this batch reached the sink, they are then delivered a second time."
            " If the servers are another Kafka cluster by now, or the topic was re-created, they are given up."
        )
    return " ".join([*told, "The query must be stopped."])


def _chosen(target: SavedQuery, what: str, amendments: list[Amendment]) -> tuple[SplitRange, ...]:
    saved = target.saved
    if saved.batches.pending is None:
        raise OptionError(f"{target.name}: no batch is pending; what was committed cannot be abandoned")
    ranges = saved.remaining(amendments)
    # Compared whole, since ids and names may hold any separator.
    chosen = tuple(
        part
        for part in ranges
        if what in (part.split.cluster, "/".join(part.split[:2]), f"{'/'.join(part.split[:2])}/{part.split.partition}")
    )
    if not chosen:
        there = ", ".join(sorted({f"{part.split.cluster}/{part.split.topic}" for part in ranges})) or "none"
        raise OptionError(f"{target.name}: the pending batch has no range of {what!r}; its ranges are of: {there}")
    return chosen


def _refuse_running(target: SavedQuery, *, stopped: bool) -> None:
    quiet = target.checkpoint.quiet_s()
    if quiet < SETTLED_S and not stopped:
        raise OptionError(
            f"{target.name}: the query wrote to its checkpoint {quiet:.0f} s ago and may be running: stop it first. If"
            f" it is stopped for certain, add --stopped, or wait {SETTLED_S:.0f} s"
        )


def _amendment(target: SavedQuery, left_out: tuple[SplitRange, ...]) -> Amendment:
    end = target.saved.latest
    reasons = {part.split.cluster: "abandoned" for part in left_out}
    return Amendment(end.query, end.number, *target.saved.key, left_out, reasons, time.time_ns() // 1_000_000)  # type: ignore[arg-type]
