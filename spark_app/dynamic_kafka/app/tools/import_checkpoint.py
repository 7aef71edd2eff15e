"""The tool `import-checkpoint`: convert a checkpoint of Spark's own `kafka` source to starting offsets for ours.

It reads the old checkpoint and changes nothing in it. Spark saves `{"topic": {"0": next offset}}` per batch. The end of
the last committed batch is the exact progress of the old query.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from dynamic_kafka.app.tools.audit import record, stamp, who
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import OffsetDocumentError, OptionError
from dynamic_kafka.state.checkpoints import Batches, Checkpoint, Logged, our_document
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.wording import counted

HELP = "convert a checkpoint of Spark's own kafka source to starting offsets"

Offsets = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Imported:
    """The offsets of one source in a checkpoint.

    Attributes:
        batch: the batch whose end the offsets are.
        newest: the newest batch of which the checkpoint has any trace.
        source: the source's place among the query's sources.
        offsets: {topic: {partition: next offset}}.
    """

    batches: Batches
    batch: int
    newest: int
    source: str
    offsets: Offsets

    @property
    def has_gap(self) -> bool:
        """Whether the checkpoint lacks more than the commit of one batch, so the sink may have any part of the rest."""
        return self.newest != self.batches.planned or self.newest - self.committed > 1

    @property
    def committed(self) -> int:
        """The last committed batch; -1 if there is none."""
        return -1 if self.batches.committed is None else self.batches.committed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `import-checkpoint`."""
    parser.add_argument("checkpoint", metavar="SPARK_KAFKA_CHECKPOINT", help="the old query's checkpointLocation")
    parser.add_argument("--cluster", metavar="ID", required=True, help="the id of the cluster in your metadata")
    parser.add_argument(
        "--source", metavar="N", help="the source that is meant, if the query has several (0 is the first)"
    )
    parser.add_argument(
        "--after-pending", action="store_true", help="start behind the pending batch, because the sink has its records"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the metadata's YAML to a file")
    parser.add_argument("--state-location", metavar="URI", help="also write an audit record to this stateLocation")


def run(arguments: argparse.Namespace) -> int:
    """Read the checkpoint, print the steps to take, and write the files that were asked for."""
    checkpoint = Checkpoint(arguments.checkpoint)
    imported = read_imported(checkpoint, arguments.source, after_pending=arguments.after_pending)
    print(steps_text(checkpoint.uri, arguments.cluster, imported))
    if arguments.state_location:
        path = record(
            StateLocation(arguments.state_location),
            "import-checkpoint",
            what=f"starting offsets for cluster {arguments.cluster} from batch {imported.batch} of {checkpoint.uri}",
            before={"checkpoint": checkpoint.uri, "batch": imported.batch, "source": imported.source},
            after={arguments.cluster: imported.offsets},
        )
        print(f"\nRecorded in {arguments.state_location}/{path}")
    if arguments.output:
        origin = f"# From batch {imported.batch} of {checkpoint.uri}, by {who()} at {stamp()}.\n"
        _write(Path(arguments.output), origin + _metadata_yaml(imported.offsets))
        print(f"\nWritten to {arguments.output}")
    return ExitCode.DONE


def read_imported(checkpoint: Checkpoint, source: str | None, *, after_pending: bool = False) -> Imported:
    """Read the progress of the old query.

    Args:
        source: the source's place; needed only if the query has several Kafka sources.
        after_pending: whether to take the end of the pending batch.

    Raises:
        OptionError: no batch is committed, or several sources are possible and none was chosen.
        OffsetDocumentError: the checkpoint belongs to another kind of source, or is damaged.
    """
    batches = checkpoint.batches()
    if batches.planned is None:
        raise OptionError(f"{checkpoint.uri} holds no batch of a Spark query: give its checkpointLocation")
    if after_pending and batches.pending is None:
        raise OptionError(f"{checkpoint.uri}: no batch is pending; remove --after-pending")
    batch = batches.planned if after_pending else batches.committed
    if batch is None:
        raise OptionError(
            f"{checkpoint.uri}: no batch is committed yet. Let the query finish one, or reuse its startingOffsets"
        )
    chosen = _kafka_source(checkpoint.offsets(batch), source, checkpoint.uri)
    # A query that runs plans a batch before it commits it. So commits are listed first here: one without offsets shows
    # that these were lost.
    committed, planned = checkpoint.committed, checkpoint.planned
    newest = committed if committed is not None and committed > (planned or 0) else batches.planned
    return Imported(batches, batch, newest, chosen[0], chosen[1])


def steps_text(uri: str, cluster: str, imported: Imported) -> str:
    """Return the steps by which a user starts the new query at these offsets."""
    partitions = counted(sum(map(len, imported.offsets.values())), "partition")
    topics = ", ".join(sorted(imported.offsets))
    option = json.dumps({cluster: imported.offsets}, sort_keys=True)
    single = json.dumps(imported.offsets, sort_keys=True)
    pending = _pending_text(imported)
    paragraphs = (
        f"{uri}: batch {imported.batch}, source {imported.source}: {partitions} of {topics}\n{pending}",
        "1. Stop the old query. If it has run since, run this tool again.\n",
        f"2. Set the offsets in the metadata of cluster {cluster!r} (unlisted partitions start at earliest):\n",
        _indented(_metadata_yaml(imported.offsets)),
        "   or as an option of the new query, which has to list every partition (-2 is earliest):\n",
        f"     startingOffsets  {option}\n",
        "   With `kafka.bootstrap.servers` and `subscribe` (a single cluster), the option is as in Spark:\n",
        f"     startingOffsets  {single}\n",
        "3. Give the query a new checkpoint, and a file sink a new folder: in the old one, batch 0 is lost.\n",
        "4. First run `python -m dynamic_kafka.app plan app.yaml`: it counts the records to be read.\n",
        "5. After its first committed batch, remove the offsets from the metadata. Later partitions and"
        " re-created topics\n   would start there, too.",
    )
    return "\n".join(paragraphs)


def _pending_text(imported: Imported) -> str:
    pending = imported.batches.pending
    if imported.has_gap:
        return _gap_text(imported)
    if pending is None:
        return "All planned batches are committed: the offsets are exact.\n"
    if imported.batch == pending:
        return f"Batch {pending} is pending, and the offsets begin behind it: records that its sink lacks are lost.\n"
    lines = (
        f"Batch {pending} is pending, and is read again: the offsets are the end of batch {imported.batch}.",
        "That is exact if the sink has none of it. To be certain, let the old query finish it and rerun this.",
        f"If the sink has all of it (a Parquet folder has `_spark_metadata/{pending}`), use --after-pending.",
    )
    return "\n".join((*lines, ""))


def _gap_text(imported: Imported) -> str:
    first, newest, planned = imported.committed + 1, imported.newest, imported.batches.planned
    unknown = f"batches {first} to {newest}" if newest > first else f"batch {first}"
    batch = imported.batch
    text = f"Offsets or commits of {unknown} are missing: the sink may have any of it. A restart does not help.\n"
    if batch != imported.committed:
        return f"{text}The offsets begin behind batch {batch}: records of {unknown} that the sink lacks are lost.\n"
    has_all = f", or use --after-pending if the sink has all of batch {planned}"
    after = has_all if imported.batches.pending is not None else ""
    return (
        f"{text}Records of the sink behind the offsets below (the end of batch {batch}) come twice: delete them"
        f" there{after}.\n"
    )


def _kafka_source(logged: tuple[Logged, ...], source: str | None, uri: str) -> tuple[str, Offsets]:
    kafka_sources = {
        logged_source.name: offsets
        for logged_source in logged
        if (offsets := _spark_offsets(logged_source.text)) is not None
    }
    if source is not None:
        kafka_sources = {name: offsets for name, offsets in kafka_sources.items() if name == source}
    if len(kafka_sources) == 1:
        return next(iter(kafka_sources.items()))
    if (
        any(logged_source.text is not None and our_document(logged_source.text) is not None for logged_source in logged)
        and not kafka_sources
    ):
        raise OffsetDocumentError(f"{uri} is already a checkpoint of dynamic-kafka: continue with it")
    if not kafka_sources:
        wanted = f"source {source}" if source is not None else "no source"
        raise OptionError(
            f"{uri}: {wanted} of the query is Spark's `kafka` source; it has {counted(len(logged), 'source')}"
        )
    listed = "; ".join(f"{name}: {', '.join(sorted(offsets))}" for name, offsets in kafka_sources.items())
    raise OptionError(f"{uri}: the query has several Kafka sources, choose one with --source: {listed}")


def _spark_offsets(text: str | None) -> Offsets | None:
    """Parse an offset of Spark's own source; return None for any other text."""
    try:
        wire = json.loads(text or "null")
    except json.JSONDecodeError:
        return None
    if not isinstance(wire, dict) or not wire:
        return None
    for partitions in wire.values():
        if not isinstance(partitions, dict) or not partitions:
            return None
        if not all(key.isdecimal() and type(offset) is int for key, offset in partitions.items()):
            return None
    return {
        topic: dict(sorted(partitions.items(), key=lambda item: int(item[0]))) for topic, partitions in wire.items()
    }


def _metadata_yaml(offsets: Offsets) -> str:
    return str(yaml.safe_dump({"startingOffsets": {t: dict(p) for t, p in offsets.items()}}, sort_keys=True))


def _indented(text: str) -> str:
    return "".join(f"     {line}\n" for line in text.splitlines())


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OptionError(f"{path} exists and is left as it is: give another file to -o, or delete this one") from None
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from None
