"""The tool `plan`: show the next start of a query, with the current metadata or an edit of it.

Asks the brokers, writes nothing. The query may be running.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dynamic_kafka.app.failures import code_of
from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.app.tools.planned_changes import Change, changes
from dynamic_kafka.app.tools.preview import Preview, Refusal, preview
from dynamic_kafka.app.tools.saved_query import SavedQuery, add_query_arguments, open_query
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import OptionError, StaleCheckpointError
from dynamic_kafka.planning.advance import Plan
from dynamic_kafka.planning.splits import Split

HELP = "show the next start with the current metadata: splits added, parked, resumed, refused, and records"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan`."""
    add_query_arguments(parser, only_app=True)
    parser.add_argument(
        "--metadata", metavar="FILE", help="plan with this document instead of the one in force: try an edit beforehand"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Plan and print; return the exit code with which a start of the application would end.

    It is 4 if the query would refuse to start, that of the first cluster that fails it, or 0.
    """
    query, seen = _open_and_preview(arguments)
    assert query.options is not None
    planned = changes(seen)
    if arguments.json:
        print(json.dumps(_wire(query, seen, planned), indent=1))
    else:
        print(_text(query, seen, planned))
    if seen.refusals:
        return code_of(seen.refusals[0].error)
    if seen.refused:
        return ExitCode.REFUSED
    if seen.fatal:
        return code_of(next(iter(seen.fatal.values())))
    return ExitCode.DONE


def _open_and_preview(arguments: argparse.Namespace) -> tuple[SavedQuery, Preview]:
    while True:
        query = _with_metadata(open_query(arguments, may_be_new=True), arguments.metadata)
        assert query.options is not None
        seen = preview(query.options, query.saved, delivered=_is_delivered(query))
        # A running query may have committed to its group after its checkpoint was read here: then read it again.
        old = any(isinstance(refusal.error, StaleCheckpointError) for refusal in seen.refusals)
        if not old or query.checkpoint.batches() == query.saved.batches:
            break
    error = query.old_checkpoint()
    return query, seen if error is None else replace(seen, refusals=(Refusal(None, error), *seen.refusals))


def _is_delivered(query: SavedQuery) -> bool:
    """Return whether the file sink has the pending batch; a folder that cannot be opened here counts as one without."""
    try:
        return query.sink_has_pending_batch()
    except OptionError:
        return False


def _with_metadata(query: SavedQuery, path: str | None) -> SavedQuery:
    """Return the query with another metadata document. The subscription stays.

    Raises:
        OptionError: the query reads a single cluster without metadata, or there is no such document.
    """
    assert query.options is not None
    if path is None:
        return query
    if query.options.single is not None:
        raise OptionError(f"{query.name}: it reads a single cluster, without metadata: leave out --metadata")
    if not Path(path).exists():
        raise OptionError(f"--metadata: {path} does not exist; give the path of the edited metadata document")
    options = replace(query.options, service="file", metadata_path=path, metadata_revision=None)
    return replace(query, name=f"{query.name}, with {path}", options=options)


def _text(query: SavedQuery, seen: Preview, planned: list[Change]) -> str:
    latest = query.saved.latest
    began = f"document {latest.number} of query {latest.query}" if latest.number else "not started yet"
    parts = [f"{query.name}: {began}", _pending_text(query, seen)]
    rows = [(c.action, c.cluster, c.topic, c.splits, c.records, c.text) for c in planned]
    parts.append(
        table(("action", "cluster", "topic", "splits", "records", "what"), rows) if rows else "Nothing is read."
    )
    parts += [f"Refused: {refusal.error}" for refusal in seen.refusals if refusal.cluster is None]
    if latest.over:
        parts.append("All splits have reached their stop records: the query is over, and reads nothing any more.")
    elif seen.plan is not None and not seen.refusals and not seen.refused:
        parts.append(_next_text(seen, seen.plan))
    return "\n\n".join(part for part in parts if part)


def _next_text(seen: Preview, plan: Plan) -> str:
    silent = ", ".join(seen.silent)
    if silent and (not seen.observed.answers or seen.fatal):
        return f"The number of waiting records is unknown: {silent} did not answer."
    rest = f"; those of {silent} are not counted" if silent else ""
    return f"The next batch would take {plan.admitted} of {sum(plan.lag.values())} waiting records{rest}."


def _pending_text(query: SavedQuery, seen: Preview) -> str:
    batch = query.saved.batches.pending
    if batch is None:
        return ""
    left_out = (
        {part.split: seen.left_out.reasons[part.split.cluster] for part in seen.left_out.left_out}
        if seen.left_out
        else {}
    )
    rows = [
        (*part.split, part.start, part.end, _replay_text(part.split, left_out, seen.unreadable))
        for part in seen.pending
    ]
    head = f"Batch {batch} is pending: a query that runs finishes it, a restart runs it first."
    if _is_delivered(query):
        return f"{head} The sink has it already, so none of it is read again."
    if not rows:
        return f"{head} It reads nothing from this source."
    return f"{head}\n{table(('cluster', 'topic', 'partition', 'from', 'to', 'what'), rows)}"


def _replay_text(split: Split, left_out: Mapping[Split, str], unreadable: Mapping[Split, str]) -> str:
    if split in left_out:
        return f"left out: {left_out[split]}"
    return unreadable.get(split, "read again")


def _wire(query: SavedQuery, seen: Preview, planned: list[Change]) -> dict[str, Any]:
    return {
        "target": query.name,
        "query": query.saved.latest.query,
        "document": query.saved.latest.number,
        "pending": {
            "batch": query.saved.batches.pending,
            "ranges": [[*part.split, part.start, part.end] for part in seen.pending],
            "leftOut": [[*p.split, p.start, p.end] for p in seen.left_out.left_out] if seen.left_out else [],
            "reasons": dict(seen.left_out.reasons) if seen.left_out else {},
            "gone": [[*split, what] for split, what in seen.unreadable.items()],
        },
        "changes": [asdict(change) for change in planned],
        "refusals": [{"cluster": refusal.cluster, "text": str(refusal.error)} for refusal in seen.refusals],
        "silent": {cluster: str(error) for cluster, error in seen.silent.items()},
        "lag": dict(seen.plan.lag) if seen.plan else {},
        "nextBatch": seen.plan.admitted if seen.plan else None,
    }
