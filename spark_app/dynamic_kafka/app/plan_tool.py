"""`plan`: what this metadata would do to this checkpoint. Asks the brokers, writes nothing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from dynamic_kafka.app.changes import Change, changes
from dynamic_kafka.app.exit_codes import ExitCode, code_of
from dynamic_kafka.app.preview import Preview, preview
from dynamic_kafka.app.tables import table
from dynamic_kafka.app.target import Target, add_target, open_target

HELP = "show what the metadata would do to the checkpoint: splits added, parked, resumed, refused, with record counts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plan`."""
    add_target(parser, only_app=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Plan and print. Returns the code that the application would end with: 4 if the query would refuse to go on, that
    of the first cluster that fails it, else 0."""
    target = open_target(arguments, may_be_new=True)
    assert target.options is not None
    seen = preview(target.options, target.saved)
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


def _text(target: Target, seen: Preview, found: list[Change]) -> str:
    saved = target.saved
    began = f"document {saved.latest.number} of query {saved.latest.query}" if saved.latest.number else "not begun yet"
    parts = [f"{target.name}: {began}", _pending_text(target, seen)]
    rows = [(c.action, c.cluster, c.topic, c.splits, c.records, c.text) for c in found]
    parts.append(
        table(("action", "cluster", "topic", "splits", "records", "what"), rows) if rows else "Nothing is read."
    )
    parts += [f"Refused: {refusal.error}" for refusal in seen.refusals if refusal.cluster is None]
    if seen.plan is not None and not seen.refusals and not seen.refused:
        lag = sum(seen.plan.lag.values())
        parts.append(f"The next batch would take {seen.plan.admitted} of {lag} waiting records.")
    return "\n\n".join(part for part in parts if part)


def _pending_text(target: Target, seen: Preview) -> str:
    if target.saved.batches.pending is None:
        return ""
    gone = (
        {part.split: seen.left_out.reasons[part.split.cluster] for part in seen.left_out.left_out}
        if seen.left_out
        else {}
    )
    rows = [
        (*part.split, part.start, part.end, f"left out: {gone[part.split]}" if part.split in gone else "read again")
        for part in seen.pending
    ]
    head = f"Batch {target.saved.batches.pending} is pending: a restart runs it first."
    if not rows:
        return f"{head} It reads nothing from this source."
    return f"{head}\n{table(('cluster', 'topic', 'partition', 'from', 'to', 'what'), rows)}"


def _wire(target: Target, seen: Preview, found: list[Change]) -> dict[str, Any]:
    return {
        "target": target.name,
        "query": target.saved.latest.query,
        "document": target.saved.latest.number,
        "pending": {
            "batch": target.saved.batches.pending,
            "ranges": [[*part.split, part.start, part.end] for part in seen.pending],
            "leftOut": [[*p.split, p.start, p.end] for p in seen.left_out.left_out] if seen.left_out else [],
            "reasons": dict(seen.left_out.reasons) if seen.left_out else {},
        },
        "changes": [asdict(change) for change in found],
        "refusals": [{"cluster": refusal.cluster, "text": str(refusal.error)} for refusal in seen.refusals],
        "silent": {cluster: str(error) for cluster, error in seen.silent.items()},
        "lag": dict(seen.plan.lag) if seen.plan else {},
        "nextBatch": seen.plan.admitted if seen.plan else None,
    }
