"""`accept`: a person's word that a cluster id is another Kafka cluster from now on, or that lost records are lost.

Writes what `StateLocation.accepted_identities` and `accepted_losses` read, and an audit record; the query obeys at its
next plan, running or not. An acceptance names exactly what a person saw: one physical cluster, one offset of one split.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.app.exit_codes import ExitCode
from dynamic_kafka.app.tools.audit import confirm, record
from dynamic_kafka.app.tools.changes import lost_records
from dynamic_kafka.app.tools.preview import Preview, preview
from dynamic_kafka.app.tools.saved_query import add_query_arguments, open_query
from dynamic_kafka.errors import OptionError
from dynamic_kafka.planning.amendments import Amendments
from dynamic_kafka.planning.identity import saved_identity
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split, SplitRange

HELP = "accept another physical cluster under a cluster's id, or the loss of records; recorded in the stateLocation"


@dataclass(frozen=True)
class Acceptance:
    """One thing to accept: the file's name and content, what it replaces, and what it means in a sentence."""

    name: str
    wire: Mapping[str, Any]
    before: Mapping[str, Any]
    meaning: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `accept`."""
    add_query_arguments(parser)
    parser.add_argument(
        "--identity",
        metavar="CLUSTER=KAFKA_ID",
        action="append",
        help="this cluster id is answered by the Kafka cluster of that cluster.id from now on, and starts as new",
    )
    parser.add_argument(
        "--data-loss",
        metavar="CLUSTER/TOPIC/PARTITION",
        action="append",
        nargs="?",
        const="",
        help="go on behind the records that are gone; without a value all losses that the current plan refuses"
        " (needs app.yaml)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> int:
    """Show what it means, ask, write.

    Raises:
        OptionError: nothing to accept, or nobody said yes.
    """
    target = open_query(arguments)
    state = target.writable_state()
    seen = preview(target.options, target.saved) if target.options else None
    amendments = state.amendments(target.query)
    document = Amendments(amendments).after(target.saved.latest)
    pending = _Pending(target.saved.ranges(), target.saved.remaining(amendments))
    found = _all(seen, document, pending) if arguments.identity is None and arguments.data_loss is None else []
    found += [_identity(text, seen, document, pending) for text in arguments.identity or ()]
    found += _losses(arguments.data_loss or (), seen, document)
    if not found:
        print("There is nothing to accept: the current plan refuses no cluster and no loss.")
        return ExitCode.DONE
    print("\n".join(acceptance.meaning for acceptance in found))
    confirm("Accept?", yes=arguments.yes)
    number = len(state.read_folder(f"{target.query}/accepted"))
    for offset, acceptance in enumerate(found, start=1):
        audited = record(state, "accept", what=acceptance.meaning, before=acceptance.before, after=acceptance.wire)
        # Numbered, so that the newest of several words about one cluster is the last by name.
        path = f"{target.query}/accepted/{number + offset:06d}-{acceptance.name}.json"
        state.write(path, acceptance.wire)
        print(f"Accepted: {state.uri}/{path} (recorded in {audited})")
    return ExitCode.DONE


@dataclass(frozen=True)
class _Pending:
    """The pending batch: what it was planned to read, and what it is still to read."""

    planned: list[SplitRange]
    remaining: list[SplitRange]

    def told(self, cluster: str) -> str:
        """What becomes of it when this cluster is given up."""
        records = sum(part.size for part in self.planned if part.split.cluster == cluster)
        if not records:
            return ""
        told = f", and with it {records} records of the pending batch"
        if all(part.split.cluster != cluster for part in self.remaining):
            return f"{told}, which has left them out"
        return (
            f"{told}. That batch still reads them, so the query will not start before they are left out:"
            f" `python -m dynamic_kafka.app abandon app.yaml {cluster}`"
        )


def _all(seen: Preview | None, document: OffsetDocument, pending: _Pending) -> list[Acceptance]:
    if seen is None:
        raise OptionError("say what to accept, --identity or --data-loss; only with app.yaml can the plan tell")
    return [
        *(_identity(f"{name}={found}", seen, document, pending) for name, found in sorted(seen.swapped.items())),
        *_losses([""] if seen.refused else [], seen, document),
    ]


def _identity(text: str, seen: Preview | None, document: OffsetDocument, pending: _Pending) -> Acceptance:
    cluster, found, kafka_id = text.rpartition("=")
    if not (found and cluster and kafka_id):
        raise OptionError(f"--identity {text!r}: write CLUSTER=KAFKA_ID, as the refusal names it")
    saved = saved_identity(document, cluster)
    if saved is None:
        raise OptionError(f"--identity {text!r}: the checkpoint knows no Kafka cluster.id of {cluster!r} to replace")
    if seen is not None:
        _check_answering(text, cluster, kafka_id, saved, seen)
    offsets = _offsets(document, cluster)
    meaning = (
        f"Cluster {cluster!r} is Kafka cluster {kafka_id} from now on, instead of {saved}: the offsets of"
        f" {len(offsets)} splits are forgotten, and all that the new cluster holds is read from the start, unless its"
        f" metadata says otherwise. What the old one held behind these offsets and was not read is given up"
        f"{pending.told(cluster)}"
    )
    # Unquoted ids may hold anything; the wire says which cluster it is about.
    name = f"identity-{_plain(cluster)}"
    return Acceptance(
        name,
        {"kind": "identity", "cluster": cluster, "kafkaId": kafka_id},
        {"kafkaId": saved, "next": offsets},
        meaning,
    )


def _check_answering(text: str, cluster: str, kafka_id: str, saved: str, seen: Preview) -> None:
    """Only what the cluster's servers really answer now may be accepted: a word on a guess would lose offsets."""
    if cluster in seen.answering:
        answering = seen.answering[cluster]
        if answering == kafka_id != saved:
            return
        if answering == saved:
            wrong = f"cluster {cluster!r} is still the saved one ({saved}): there is nothing to accept"
        else:
            found = answering or "no cluster.id"
            wrong = f"the servers of cluster {cluster!r} answer with {found}, not with {kafka_id}"
    elif cluster in seen.silent:
        wrong = f"cluster {cluster!r} does not answer, so who it is cannot be told: {seen.silent[cluster]}"
    else:
        wrong = f"metadata names no cluster {cluster!r}: nobody answers for it"
    raise OptionError(f"--identity {text!r}: {wrong}; nothing was changed")


def _losses(texts: Iterable[str], seen: Preview | None, document: OffsetDocument) -> list[Acceptance]:
    found: list[Acceptance] = []
    for text in texts:
        if text == "":
            if seen is None:
                raise OptionError("--data-loss without a value needs app.yaml, for the brokers to be asked")
            found += [_loss(loss.split, seen, document) for loss in seen.refused]
            continue
        split = next((each for each in document.splits() if f"{each[0]}/{each[1]}/{each[2]}" == text), None)
        if split is None:
            raise OptionError(f"--data-loss {text!r}: the checkpoint has no such split; write CLUSTER/TOPIC/PARTITION")
        found.append(_loss(split, seen, document))
    return found


def _loss(split: Split, seen: Preview | None, document: OffsetDocument) -> Acceptance:
    following = (seen.opened.next_of(split) if seen and seen.opened else None) or document.next_of(split)
    epoch = (seen.opened if seen and seen.opened else document).epoch_of(split)
    loss = next((each for each in seen.losses if each.split == split), None) if seen else None
    if seen is not None and seen.opened is None:
        raise OptionError(f"--data-loss {split}: no plan can be made; `plan` says why, and that comes first")
    if seen is not None and loss is None:
        raise OptionError(f"--data-loss {split}: nothing is lost there, says its cluster; nothing was changed")
    if seen is not None and loss is not None and loss.recreated and split in _still_pending(seen):
        raise OptionError(
            f"--data-loss {split}: {loss.reason}, and the pending batch reads it still: leave its range out first, with"
            f" `python -m dynamic_kafka.app abandon app.yaml {'/'.join(split[:2])}`, then accept; nothing was changed"
        )
    saved = document.topic(split.cluster, split.topic)
    topic_id = loss.topic_id if loss else saved.topic_id if saved else None
    resume = loss.resume_at if loss else None
    count = lost_records(loss, following) if loss else None
    why = f": {loss.reason}" if loss else ""
    goes_on = f"goes on at {resume}" if resume is not None else "goes on where its cluster lets it"
    cost = f"{count} records are given up" if count is not None else "how many records that costs cannot be told"
    wire = {
        "kind": "data-loss",
        "cluster": split.cluster,
        "topic": split.topic,
        "partition": split.partition,
        "topicId": topic_id,
        "from": following,
        "to": resume,
        "document": document.number,
        "epoch": epoch,
    }
    meaning = f"The loss at {split} from offset {following} on is accepted{why}: {cost}, and reading {goes_on}"
    name = f"data-loss-{_plain(split.cluster)}-{_plain(split.topic)}-{split.partition}"
    return Acceptance(name, wire, {"next": following}, meaning)


def _still_pending(seen: Preview) -> set[Split]:
    """The splits that a restart would read first, before it plans."""
    left_out = seen.left_out.left_out if seen.left_out else ()
    return {part.split for part in seen.pending} - {part.split for part in left_out}


def _offsets(document: OffsetDocument, cluster: str) -> dict[str, int | None]:
    active = [split for split in document.splits() if split.cluster == cluster]
    parked = document.parked.get(cluster)
    kept = {
        f"{name}/{partition}": offset
        for name, topic in (parked.topics.items() if parked else ())
        for partition, offset in topic.next.items()
    }
    return {**kept, **{f"{split.topic}/{split.partition}": document.next_of(split) for split in active}}


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in text)
