"""The tool `abandon`: leave ranges of the pending batch out, by an amendment. Nothing is deleted.

It is for a pending batch that can no longer be read, when a change of the metadata does not help. The splits go back to
the start of their ranges, and are read from there when their cluster can be read again. The query must be stopped. A
running query has already fixed the ranges of its batch, and would commit them despite the amendment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from dynamic_kafka.app.tools.audit import confirm, record
from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.app.tools.saved_query import SavedQuery, add_query_arguments, open_query
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import OptionError, PendingRangesError
from dynamic_kafka.planning.document.amendments import Amendment, Amendments
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity, is_another, saved_identity
from dynamic_kafka.planning.splits import SplitRange
from dynamic_kafka.state.sink_log import SINK_LOG
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.wording import counted

HELP = "leave a cluster's ranges out of the pending batch of a stopped query, to be read again later"
SETTLED_S = 60.0
"""A query that started, planned or committed a batch within this time may still be running."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `abandon`."""
    add_query_arguments(parser)
    parser.add_argument("what", metavar="CLUSTER[/TOPIC[/PARTITION]]", help="the ranges to leave out")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--stopped",
        action="store_true",
        help="the query is stopped, although it started or wrote to its checkpoint a moment ago",
    )
    parser.add_argument(
        "--undelivered",
        action="store_true",
        help="the file sink lacks the pending batch, although this tool cannot open the sink's folder",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the consequences, ask, and write the amendment.

    Raises:
        OptionError: no such range is pending, the sink has the batch or may have it, the query may be running, or the
            user did not agree.
        PendingRangesError: the query was running after all.
    """
    query = open_query(arguments)
    state = query.writable_state()
    _refuse_delivered(query, undelivered=arguments.undelivered)
    left_out = _chosen(query, arguments.what, state.amendments(query.id))
    _refuse_running(query, state, stopped=arguments.stopped)
    rows = [(*part.split, part.start, part.end, part.size) for part in left_out]
    print(f"Left out of pending batch {query.saved.batches.pending}:")
    print(table(("cluster", "topic", "partition", "from", "to", "records"), rows))
    print(_meaning(left_out, _others(query, state.accepted_identities(query.saved.latest))))
    confirm("Abandon these ranges?", yes=arguments.yes)
    made = _amendment(query, left_out)
    after = Amendments([made]).after(query.saved.latest)
    audited = record(
        state,
        "abandon",
        what=f"left {arguments.what} out of pending batch {query.saved.batches.pending}",
        before={str(part.split): query.saved.latest.next_of(part.split) for part in left_out},
        after={str(part.split): after.next_of(part.split) for part in left_out},
    )
    state.save_amendment(made)
    if query.checkpoint.batches() != query.saved.batches:
        folder = f"{state.uri}/{query.id}/amendments"
        raise PendingRangesError(
            f"{query.name}: the query runs, and would repeat the ranges at its next start: stop it, and first delete"
            f" the newest file in {folder}"
        )
    print(f"Abandoned: {counted(len(left_out), 'range')} (recorded in {state.uri}/{audited}). Start the query.")
    return ExitCode.DONE


def _others(query: SavedQuery, accepted: Mapping[str, AcceptedIdentity]) -> set[str]:
    """Return the clusters for which the user has accepted another Kafka cluster."""
    saved = {cluster: saved_identity(query.saved.latest, cluster) for cluster in accepted}
    return {
        cluster
        for cluster, word in accepted.items()
        if is_another(saved[cluster], word.kafka_id) and word.covers(saved[cluster], word.kafka_id)
    }


def _meaning(left_out: tuple[SplitRange, ...], others: set[str]) -> str:
    given_up = sum(part.size for part in left_out if part.split.cluster in others)
    kept = sum(part.size for part in left_out) - given_up
    sentences = []
    if given_up:
        lost = counted(given_up, "record", are=True)
        sentences.append(f"{lost} given up: another Kafka cluster was accepted in place of theirs.")
    if kept:
        again = counted(kept, "record", are=True)
        sentences += (
            f"The splits go back to the start of their ranges: {again} read when their cluster can be read again.",
            "The records come twice if this batch reached the sink. With app.yaml, a file sink is checked.",
            "If the servers are another Kafka cluster by now, or the topic was re-created, they are given up.",
        )
    return " ".join([*sentences, "The query must be stopped."])


def _chosen(query: SavedQuery, what: str, amendments: list[Amendment]) -> tuple[SplitRange, ...]:
    saved = query.saved
    if saved.batches.pending is None:
        raise OptionError(f"{query.name}: no batch is pending; a committed batch cannot be abandoned")
    ranges = saved.remaining(amendments)
    # Whole names are compared, since ids and names may contain `/`.
    chosen = tuple(
        part
        for part in ranges
        if what in (part.split.cluster, "/".join(part.split[:2]), f"{'/'.join(part.split[:2])}/{part.split.partition}")
    )
    if not chosen:
        there = ", ".join(sorted({f"{part.split.cluster}/{part.split.topic}" for part in ranges})) or "none"
        raise OptionError(f"{query.name}: the pending batch has no range of {what!r}; it has ranges of {there}")
    return chosen


def _refuse_delivered(query: SavedQuery, *, undelivered: bool) -> None:
    """Refuse a batch that the file sink has. Spark commits it without a read, so nothing would be left out of it.

    Args:
        undelivered: the user has looked: the sink lacks the batch. It counts only where this tool cannot look.
    """
    batch = query.saved.batches.pending
    try:
        delivered = query.sink_has_pending_batch()
    except OptionError as error:
        if undelivered:
            return
        raise OptionError(
            f"{query.name}: {error}. Abandoned ranges come twice if the sink has them. Look into its {SINK_LOG}:"
            f" if it has neither batch {batch} nor a later one, add --undelivered"
        ) from None
    if delivered:
        raise OptionError(
            f"{query.name}: its file sink has batch {batch}: abandoned ranges would come twice. Start the query"
        )


def _refuse_running(query: SavedQuery, state: StateLocation, *, stopped: bool) -> None:
    """Refuse a query that may run. A driver that has just started may write to the checkpoint only after its batch."""
    if stopped:
        return
    remedy = f"If it is certainly stopped, add --stopped or wait {SETTLED_S:.0f} s"
    folder = f"{query.id}/drivers"
    for file in state.list_folder(folder)[-1:]:
        age = max(time.time() - file.changed_s, 0.0) if file.changed_s is not None else 0.0
        if age < SETTLED_S:
            host = state.read_folder(folder, [file.name]).get(file.name, {}).get("host", "unknown")
            raise OptionError(
                f"{query.name}: a driver started {age:.0f} s ago on {host} and may be running: stop it first. {remedy}"
            )
    quiet = query.checkpoint.quiet_s()
    if quiet < SETTLED_S:
        raise OptionError(
            f"{query.name}: it wrote to its checkpoint {quiet:.0f} s ago and may be running: stop it first. {remedy}"
        )


def _amendment(query: SavedQuery, left_out: tuple[SplitRange, ...]) -> Amendment:
    end = query.saved.latest
    reasons = {part.split.cluster: "abandoned" for part in left_out}
    return Amendment(end.query, end.number, *query.saved.key, left_out, reasons, time.time_ns() // 1_000_000)  # type: ignore[arg-type]
