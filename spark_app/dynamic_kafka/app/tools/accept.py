"""The tool `accept`: record that a user accepts another cluster, a data loss, another topic, or a lost state.

It writes the files that `StateLocation.accepted_identities` and `accepted_losses` read, and an audit record. The query
follows an acceptance at its next plan, and may be running. An acceptance covers exactly what the user saw: one physical
cluster, one offset of one split, or one lost state.
"""

from __future__ import annotations

import argparse
import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynamic_kafka.app.tools.audit import confirm, record
from dynamic_kafka.app.tools.planned_changes import lost_records
from dynamic_kafka.app.tools.preview import Preview, preview
from dynamic_kafka.app.tools.saved_query import SavedQuery, add_query_arguments, open_query
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import OptionError, StateMismatchError
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.sameness.identity import saved_identity
from dynamic_kafka.planning.sameness.integrity import TopicChange
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.binding import bound_state
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change, saved_changes
from dynamic_kafka.wording import counted, tool_command

HELP = "accept another cluster under an id, lost records, a deleted or re-created topic, or a lost state"
READABLE_BYTES = 60
"""The bytes of names that a file's name shows."""


@dataclass(frozen=True)
class Acceptance:
    """One acceptance.

    Attributes:
        name, wire: the name and the content of its file.
        before: the values that it replaces, for the audit record.
        meaning: its consequences, for the user.
    """

    name: str
    wire: Mapping[str, Any]
    before: Mapping[str, Any]
    meaning: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `accept`."""
    add_query_arguments(parser)
    parser.add_argument(
        "--identity",
        metavar="CLUSTER=KAFKA_ID",
        action="append",
        help="from now on, CLUSTER is the Kafka cluster with the cluster.id KAFKA_ID; it is read as a new cluster",
    )
    parser.add_argument(
        "--data-loss",
        metavar="CLUSTER/TOPIC/PARTITION",
        action="append",
        nargs="?",
        const="",
        help="continue after lost records; without a value: all losses that the plan refuses (needs app.yaml)",
    )
    parser.add_argument(
        "--topic",
        metavar="CLUSTER/TOPIC[=ID]",
        action="append",
        help="go on although this topic, whose id is checked, is missing or was re-created (with ID)",
    )
    parser.add_argument(
        "--state",
        action="store_true",
        help="continue with this stateLocation, although it does not hold the state that the query has used",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> int:
    """Show the consequences, ask, and write the acceptances.

    Raises:
        OptionError: an acceptance does not fit the clusters or the checkpoint, or the user did not agree.
    """
    query = open_query(arguments)
    if arguments.state:
        return _accept_state(query, yes=arguments.yes)
    state = query.writable_state()
    seen = preview(query.options, query.saved) if query.options else None
    amendments = state.amendments(query.id)
    document = query.saved.amended(amendments).after(query.saved.latest)
    pending = _Pending(query.saved.ranges(), query.saved.remaining(amendments))
    given = (arguments.identity, arguments.data_loss, arguments.topic)
    acceptances = _all(seen, document, pending) if given == (None, None, None) else []
    topics = changed_topics(None if given == (None, None, None) else arguments.topic or (), seen, state, document)
    acceptances += [_identity(text, seen, document, pending) for text in arguments.identity or ()]
    acceptances += _losses(arguments.data_loss or (), seen, document)
    if not (acceptances or topics):
        print("There is nothing to accept: the current plan refuses no cluster, no topic and no loss.")
        return ExitCode.DONE
    print("\n".join([*(acceptance.meaning for acceptance in acceptances), *map(meaning, topics)]))
    confirm("Accept?", yes=arguments.yes)
    for change in topics:
        wire = change.to_wire()
        audited = record(state, "accept", what=meaning(change), before={"topicId": change.expected}, after=wire)
        print(f"Accepted: {state.uri}/{save_change(state, query.id, 'accepted', change)} (recorded in {audited})")
    names = [file.name for file in state.list_folder(f"{query.id}/accepted")]
    number = max((int(name.partition("-")[0]) for name in names if name[0].isdecimal()), default=0)
    for offset, acceptance in enumerate(acceptances, start=1):
        audited = record(state, "accept", what=acceptance.meaning, before=acceptance.before, after=acceptance.wire)
        # The number sorts the files, so that the newest acceptance about a cluster is the last.
        path = f"{query.id}/accepted/{number + offset:06d}-{acceptance.name}.json"
        state.write(path, acceptance.wire)
        print(f"Accepted: {state.uri}/{path} (recorded in {audited})")
    return ExitCode.DONE


def _accept_state(query: SavedQuery, *, yes: bool) -> int:
    """Bind the state location to the query instead of the state that is lost."""
    state, lost = query.writable_state(any_state=True), query.saved.latest.state
    try:
        bound_state(state, query.saved.latest)
    except StateMismatchError:
        meaning = (
            f"From now on, the query uses {state.uri} instead of the state {lost}. Ranges that its last batch left out,"
            " and that were not read again since, are never read. Acceptances have to be made again. If you still have"
            " that folder, name it in stateLocation"
        )
    else:
        print("There is nothing to accept: the stateLocation holds the query's state.")
        return ExitCode.DONE
    print(meaning)
    confirm("Accept?", yes=yes)
    new = uuid.uuid4().hex
    audited = record(state, "accept", what=meaning, before={"state": lost}, after={"state": new})
    # The next document names the new state. Until then, the file shows what it replaces.
    state.bind(query.id, new, replaces=lost)
    print(f"Accepted: {state.uri}/{query.id}/state/{new}.json (recorded in {audited})")
    return ExitCode.DONE


@dataclass(frozen=True)
class _Pending:
    """The ranges of the pending batch: those that were planned, and those that a replay would still read."""

    planned: list[SplitRange]
    remaining: list[SplitRange]

    def consequence(self, cluster: str) -> str:
        """Return, as the end of a sentence, the consequence for the batch if this cluster is given up."""
        records = sum(part.size for part in self.planned if part.split.cluster == cluster)
        if not records:
            return ""
        text = f", and with them {counted(records, 'record')} of the pending batch"
        if all(part.split.cluster != cluster for part in self.remaining):
            return f"{text}, which has left them out"
        return f"{text}. That batch still reads them. To start the query, run {tool_command('abandon', cluster)}"


def _all(seen: Preview | None, document: OffsetDocument, pending: _Pending) -> list[Acceptance]:
    if seen is None:
        raise OptionError("add --identity, --topic or --data-loss; only with app.yaml can this be found by a plan")
    return [
        *(_identity(f"{name}={kafka_id}", seen, document, pending) for name, kafka_id in sorted(seen.swapped.items())),
        *_losses([""] if seen.refused else [], seen, document),
    ]


def _identity(text: str, seen: Preview | None, document: OffsetDocument, pending: _Pending) -> Acceptance:
    cluster, separator, kafka_id = text.rpartition("=")
    if not (separator and cluster and kafka_id):
        raise OptionError(f"--identity {text!r}: write CLUSTER=KAFKA_ID, as in the error of the query")
    saved = saved_identity(document, cluster)
    if saved is None:
        raise OptionError(f"--identity {text!r}: the checkpoint has no Kafka cluster.id of {cluster!r} to replace")
    if seen is not None:
        _check_answering(text, cluster, kafka_id, saved, seen)
    offsets = _offsets(document, cluster)
    splits = counted(len(offsets), "split")
    sentences = (
        f"From now on, cluster {cluster!r} is Kafka cluster {kafka_id} instead of {saved}.",
        f"The offsets of {splits} are deleted. The new one starts at its metadata's startingOffsets, else earliest.",
        f"Unread records of the old cluster are given up{pending.consequence(cluster)}",
    )
    meaning = " ".join(sentences)
    # The name is for people only; the file's content has the exact id of the cluster.
    name, wire = (
        f"identity-{_readable(cluster)}",
        {"kind": "identity", "id": uuid.uuid4().hex, "cluster": cluster, "kafkaId": kafka_id, "replaces": saved},
    )
    return Acceptance(name, wire, {"kafkaId": saved, "next": offsets}, meaning)


def _check_answering(text: str, cluster: str, kafka_id: str, saved: str, seen: Preview) -> None:
    """Refuse an identity that the cluster's servers do not answer with now: a wrong guess would lose offsets.

    Raises:
        OptionError: the servers answer otherwise or not at all.
    """
    if cluster in seen.answering:
        answering = seen.answering[cluster]
        if answering == kafka_id != saved:
            return
        if answering == saved:
            wrong = f"cluster {cluster!r} is still the saved one ({saved}): there is nothing to accept"
        else:
            answer = answering or "no cluster.id"
            wrong = f"the servers of cluster {cluster!r} answer with {answer}, not with {kafka_id}"
    elif cluster in seen.silent:
        wrong = f"cluster {cluster!r} does not answer, so its cluster.id is unknown: {seen.silent[cluster]}"
    else:
        wrong = f"metadata names no cluster {cluster!r}, so no servers can be asked"
    raise OptionError(f"--identity {text!r}: {wrong}; nothing was changed")


def _losses(texts: Iterable[str], seen: Preview | None, document: OffsetDocument) -> list[Acceptance]:
    acceptances: list[Acceptance] = []
    for text in texts:
        if text == "":
            if seen is None:
                raise OptionError("--data-loss without a value needs app.yaml, to ask the brokers")
            acceptances += [_loss(loss.split, seen, document) for loss in seen.refused]
            continue
        split = next((split for split in document.splits() if f"{split[0]}/{split[1]}/{split[2]}" == text), None)
        if split is None:
            raise OptionError(f"--data-loss {text!r}: the checkpoint has no such split; write CLUSTER/TOPIC/PARTITION")
        acceptances.append(_loss(split, seen, document))
    return acceptances


def _loss(split: Split, seen: Preview | None, document: OffsetDocument) -> Acceptance:
    base = seen.opened if seen and seen.opened and seen.opened.next_of(split) is not None else document
    following, epoch = base.next_of(split), base.epoch_of(split)
    loss = next((loss for loss in seen.losses if loss.split == split), None) if seen else None
    if seen is not None and seen.opened is None:
        raise OptionError(f"--data-loss {split}: no plan can be made; run `plan` and solve that first")
    if seen is not None and loss is None:
        raise OptionError(f"--data-loss {split}: its cluster has all records; nothing was changed")
    if seen is not None and loss is not None and loss.recreated and split in _still_pending(seen):
        abandon = tool_command("abandon", "/".join(split[:2]))
        raise OptionError(
            f"--data-loss {split}: {loss.reason}, and the pending batch reads it: first {abandon}; nothing changed"
        )
    if following is None:
        raise OptionError(f"--data-loss {split}: the plan does not read it; nothing was changed")
    saved = document.topic(split.cluster, split.topic)
    topic_id = loss.topic_id if loss else saved.topic_id if saved else None
    resume = loss.resume_at if loss else None
    count = lost_records(loss, following) if loss else None
    why = f": {loss.reason}" if loss else ""
    resumed = f"continues at {resume}" if resume is not None else "continues where its cluster allows"
    cost = (
        f"{counted(count, 'record', are=True)} given up"
        if count is not None
        else "the number of lost records is unknown"
    )
    kind = loss.kind(following) if loss else None
    wire = AcceptedLoss(following, topic_id, resume, document.number, epoch, kind).to_wire(split)
    meaning = f"The loss at {split} from offset {following} on is accepted{why}: {cost}, and reading {resumed}"
    name = f"data-loss-{_readable(f'{split.cluster}-{split.topic}')}-{split.partition}"
    return Acceptance(name, wire, {"next": following}, meaning)


def _still_pending(seen: Preview) -> set[Split]:
    """Return the splits that a restart would read in the pending batch, before it plans."""
    left_out = seen.left_out.left_out if seen.left_out else ()
    return {part.split for part in seen.pending} - {part.split for part in left_out}


def _offsets(document: OffsetDocument, cluster: str) -> dict[str, int | None]:
    active = [split for split in document.splits() if split.cluster == cluster]
    parked = document.parked.get(cluster)
    kept = {
        f"{name}/{partition}": offset
        for name, topic in (parked.topics.items() if parked else ())
        for partition, offset in topic.progress.next.items()
    }
    return {**kept, **{f"{split.topic}/{split.partition}": document.next_of(split) for split in active}}


def _readable(text: str) -> str:
    """Return names as a part of a file's name, which has at most 255 bytes: long ones are cut, and a hash follows."""
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in text)
    if len(plain.encode()) <= READABLE_BYTES:
        return plain
    cut = plain.encode()[:READABLE_BYTES].decode(errors="ignore")
    return f"{cut}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


# -- accept topics ------------------------------------------------------------------------------------------


def changed_topics(
    texts: Sequence[str] | None, seen: Preview | None, state: StateLocation, document: OffsetDocument
) -> list[TopicChange]:
    """Return the changes to accept.

    Args:
        texts: the values of `--topic`; None for all changes that the current plan refuses.
        seen: the preview of the next start; None if only the checkpoint is known: then recorded verdicts count.
        document: the progress of the query.

    Raises:
        OptionError: a text names no change, or one that only metadata can accept.
    """
    known = _newest(seen.changed if seen is not None else _recorded(state, document))
    if texts is None:
        return [change for change in known if not change.pinned]
    return sorted({change for text in texts for change in _changes(text, known, offline=seen is None)})


def meaning(change: TopicChange) -> str:
    """Return the consequences of an acceptance, for the user."""
    if not change.found:
        return f"The {change}. That is accepted: its offsets are parked, and its unread records are given up"
    return f"The {change}. That is accepted: the new topic is read from its first record, in all its partitions"


def _recorded(state: StateLocation, document: OffsetDocument) -> list[TopicChange]:
    verdicts = []
    for verdict in saved_changes(state, document.query, "verdict").values():
        reading = document.topic(verdict.cluster, verdict.topic)
        if verdict.pinned or (reading is not None and reading.topic_id == verdict.expected):
            verdicts.append(verdict)
    return verdicts


def _newest(changes: Sequence[TopicChange]) -> list[TopicChange]:
    """Leave out that a topic is missing if it was found to be another one, too: it is there again."""
    there = {replace(change, found="") for change in changes if change.found}
    return [change for change in changes if change not in there]


def _changes(text: str, known: Sequence[TopicChange], *, offline: bool) -> list[TopicChange]:
    name, _, given = text.partition("=")
    of_topic = [change for change in known if f"{change.cluster}/{change.topic}" == name]
    fits = [change for change in of_topic if given == "" or saved_topic_id(given) == change.found]
    if not fits:
        where = "it did not change to this id" if of_topic else "it has not changed"
        if offline:  # the topic may have been re-created since
            where = "no run has recorded such a change; give app.yaml, to ask the brokers"
        now = "; ".join(str(change) for change in known) or "no topic has changed"
        raise OptionError(
            f"--topic {text!r}: {where} ({now}); write CLUSTER/TOPIC or CLUSTER/TOPIC=ID. Nothing was done"
        )
    if pinned := next((change for change in fits if change.pinned), None):
        raise OptionError(
            f"--topic {text!r}: metadata pin the id, and only metadata accept another one. {pinned.remedy}"
        )
    # Re-created twice: a verdict about the id between would end the next start, although that id never comes back.
    return [*fits, *(change for change in of_topic if not change.pinned and change not in fits)]
