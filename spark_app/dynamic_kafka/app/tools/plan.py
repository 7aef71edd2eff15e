"""`plan`: what this metadata would do to this checkpoint. Asks the brokers, writes nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from dynamic_kafka.app.exit_codes import ExitCode, code_of
from dynamic_kafka.app.tools.changes import Change, changes
from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.app.tools.preview import Preview, Refusal, preview
from dynamic_kafka.app.tools.saved_query import SavedQuery, add_query_arguments, open_query
from dynamic_kafka.errors import StaleCheckpointError
from dynamic_kafka.planning.plan import Plan
from dynamic_kafka.planning.splits import Split

HELP = "show what the metadata would do to the checkpoint: splits added, parked, resumed, refused, with record counts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plan`."""
    add_query_arguments(parser, only_app=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Plan and print. Returns the code that the application would end with: 4 if the query would refuse to go on, that
    of the first cluster that fails it, else 0."""
    target, seen = _look(arguments)
    assert target.options is not None
    found = changes(seen)
    if arguments.json:
        print(json.dumps(_wire(target, seen, found), indent=1))
    else:
        print(_text(target, seen, found))
    if seen.refusals:
        return code_of(seen.refusals[0].error)
    if seen.refused:
        return ExitCode.REFUSED
    if seen.silent and target.options.cluster_failure_policy == "fail":
        return code_of(next(iter(seen.silent.values())))
    return ExitCode.DONE


def _look(arguments: argparse.Namespace) -> tuple[SavedQuery, Preview]:
    """What is saved, and what a start would make of it."""
    while True:
        target = open_query(arguments, may_be_new=True)
        assert target.options is not None
        seen = preview(target.options, target.saved, delivered=target.has_pending())
        # A running query has committed to its group what this look at the checkpoint did not see yet.
        old = any(isinstance(refusal.error, StaleCheckpointError) for refusal in seen.refusals)
        if not old or target.checkpoint.batches() == target.saved.batches:
            break
    error = target.old_checkpoint()
    return target, seen if error is None else replace(seen, refusals=(Refusal(None, error), *seen.refusals))


def _text(target: SavedQuery, seen: Preview, found: list[Change]) -> str:
    saved = target.saved
    began = f"document {saved.latest.number} of query {saved.latest.query}" if saved.latest.number else "not begun yet"
    parts = [f"{target.name}: {began}", _pending_text(target, seen)]
    rows = [(c.action, c.cluster, c.topic, c.splits, c.records, c.text) for c in found]
    parts.append(
        table(("action", "cluster", "topic", "splits", "records", "what"), rows) if rows else "Nothing is read."
    )
    parts += [f"Refused: {refusal.error}" for refusal in seen.refusals if refusal.cluster is None]
    if seen.plan is not None and not seen.refusals and not seen.refused:
        parts.append(_next_text(target, seen, seen.plan))
    return "\n\n".join(part for part in parts if part)


def _next_text(target: SavedQuery, seen: Preview, plan: Plan) -> str:
    silent = ", ".join(seen.silent)
    if silent and (not seen.observed.answers or (target.options and target.options.cluster_failure_policy == "fail")):
        return f"How many records are waiting is not known: {silent} did not answer."
    rest = f"; how many wait on {silent} is not known" if silent else ""
    return f"The next batch would take {plan.admitted} of {sum(plan.lag.values())} waiting records{rest}."


def _pending_text(target: SavedQuery, seen: Preview) -> str:
    if target.saved.batches.pending is None:
        return ""
    gone = (
        {part.split: seen.left_out.reasons[part.split.cluster] for part in seen.left_out.left_out}
        if seen.left_out
        else {}
    )
    rows = [(*part.split, part.start, part.end, _fate(part.split, gone, seen.gone)) for part in seen.pending]
    head = f"Batch {target.saved.batches.pending} is pending: a restart runs it first."
    if target.has_pending():
        return f"{head} The sink has it already: nothing of it is read again."
    if not rows:
        return f"{head} It reads nothing from this source."
    return f"{head}\n{table(('cluster', 'topic', 'partition', 'from', 'to', 'what'), rows)}"


def _fate(split: Split, left_out: Mapping[Split, str], gone: Mapping[Split, str]) -> str:
    if split in left_out:
        return f"left out: {left_out[split]}"
    return gone.get(split, "read again")


def _wire(target: SavedQuery, seen: Preview, found: list[Change]) -> dict[str, Any]:
    return {
        "target": target.name,
        "query": target.saved.latest.query,
        "document": target.saved.latest.number,
        "pending": {
            "batch": target.saved.batches.pending,
            "ranges": [[*part.split, part.start, part.end] for part in seen.pending],
            "leftOut": [[*p.split, p.start, p.end] for p in seen.left_out.left_out] if seen.left_out else [],
            "reasons": dict(seen.left_out.reasons) if seen.left_out else {},
            "gone": [[*split, what] for split, what in seen.gone.items()],
        },
        "changes": [asdict(change) for change in found],
        "refusals": [{"cluster": refusal.cluster, "text": str(refusal.error)} for refusal in seen.refusals],
        "silent": {cluster: str(error) for cluster, error in seen.silent.items()},
        "lag": dict(seen.plan.lag) if seen.plan else {},
        "nextBatch": seen.plan.admitted if seen.plan else None,
    }
