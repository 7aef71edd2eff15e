"""`import-checkpoint`: from the checkpoint of a query on Spark's own `kafka` source to starting offsets for ours.

Reads the old checkpoint, and changes nothing in it. Spark saves `{"topic": {"0": next offset}}` per batch; the end of
the last committed batch is where the old query has got to, exactly.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from dynamic_kafka.app.exit_codes import ExitCode
from dynamic_kafka.app.query.checkpoints import Batches, Checkpoint, Logged, our_document
from dynamic_kafka.app.tools.audit import record, stamp, who
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import OffsetDocumentError, OptionError

HELP = "make starting offsets of the checkpoint of a query on Spark's own kafka source"

Offsets = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Imported:
    """What was found: `batch` is the one whose end the offsets are; `source` its place among the query's sources."""

    batches: Batches
    batch: int
    source: str
    offsets: Offsets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `import-checkpoint`."""
    parser.add_argument("checkpoint", metavar="SPARK_KAFKA_CHECKPOINT", help="the old query's checkpointLocation")
    parser.add_argument("--cluster", metavar="ID", required=True, help="the id of the cluster in your metadata")
    parser.add_argument(
        "--source", metavar="N", help="which source of the query (0 is the first), where it has several"
    )
    parser.add_argument(
        "--after-pending", action="store_true", help="start behind the pending batch: its records are in the sink"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the metadata's YAML to a file")
    parser.add_argument("--state-location", metavar="URI", help="also keep an audit record in this stateLocation")


def run(arguments: argparse.Namespace) -> int:
    """Read, print the recipe, write what was asked for."""
    checkpoint = Checkpoint(arguments.checkpoint)
    imported = read_imported(checkpoint, arguments.source, after_pending=arguments.after_pending)
    print(recipe(checkpoint.uri, arguments.cluster, imported))
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
    """Where the old query has got to.

    Raises:
        OptionError: nothing was committed yet, or it is not said which source is meant.
        OffsetDocumentError: the checkpoint is of another source, or damaged.
    """
    batches = checkpoint.batches()
    if batches.planned is None:
        raise OptionError(f"{checkpoint.uri} holds no batch of a Spark query: give its checkpointLocation")
    if after_pending and batches.pending is None:
        raise OptionError(f"{checkpoint.uri}: no batch is pending; leave --after-pending out")
    batch = batches.planned if after_pending else batches.committed
    if batch is None:
        raise OptionError(
            f"{checkpoint.uri}: batch {batches.planned} was planned, and none was committed: nothing tells where the"
            " query has got to. Let it finish a batch, or start anew with the startingOffsets it had"
        )
    chosen = _kafka_source(checkpoint.offsets(batch), source, checkpoint.uri)
    return Imported(batches, batch, chosen[0], chosen[1])


def recipe(uri: str, cluster: str, imported: Imported) -> str:
    """What a person does with the offsets, step by step."""
    records = sum(len(partitions) for partitions in imported.offsets.values())
    topics = ", ".join(sorted(imported.offsets))
    option = json.dumps({cluster: imported.offsets}, sort_keys=True)
    single = json.dumps(imported.offsets, sort_keys=True)
    return f"""\
{uri}: batch {imported.batch}, source {imported.source}: {records} partitions of {topics}
{_pending_text(imported)}
1. Stop the old query, and run this again if it has run since.

2. Say where to start, in one of two ways. Either in the metadata, for the cluster {cluster!r}; a partition that is not
   named here starts at earliest, as Spark's source starts partitions that are added:

{_indented(_metadata_yaml(imported.offsets))}
   or as the option of the new query, which has to name every partition (-2 is earliest):

     startingOffsets  {option}

   With `kafka.bootstrap.servers` and `subscribe`, the single-cluster form, it is Spark's own:

     startingOffsets  {single}

3. Start the new query with a new checkpoint, and a sink that goes on: a Parquet folder with the old query's
   `_spark_metadata` takes no batch 0 of another query, so give it a new folder.

4. Check it before it runs: `python -m dynamic_kafka.app plan app.yaml` counts the records that it would read.

5. Once its first batch is committed, take the offsets out of the metadata: they were said of these topics, and would
   also be where partitions begin that are added later, or a topic that takes the name of a deleted one."""


def _pending_text(imported: Imported) -> str:
    pending = imported.batches.pending
    if pending is None:
        return "All planned batches are committed: the offsets are exact.\n"
    if imported.batch == pending:
        return (
            f"Batch {pending} is pending, and the offsets begin behind it, as asked: what its sink has not got of it is"
            " lost.\n"
        )
    return (
        f"Batch {pending} is pending: it was planned and never committed. The offsets are the end of batch"
        f" {imported.batch}, so its records are read again.\nThat is exact if no part of batch {pending} has reached"
        " the sink. To be certain, start the old query once more, let it finish the\nbatch, stop it, and run this"
        f" again. If the sink has all of batch {pending} (a Parquet folder: `_spark_metadata/{pending}` exists), use"
        " --after-pending.\n"
    )


def _kafka_source(logged: tuple[Logged, ...], source: str | None, uri: str) -> tuple[str, Offsets]:
    found = {each.name: offsets for each in logged if (offsets := _spark_offsets(each.text)) is not None}
    if source is not None:
        found = {name: offsets for name, offsets in found.items() if name == source}
    if len(found) == 1:
        return next(iter(found.items()))
    if any(each.text is not None and our_document(each.text) is not None for each in logged) and not found:
        raise OffsetDocumentError(f"{uri} is a checkpoint of dynamic-kafka already: just go on with it")
    if not found:
        wanted = f"source {source}" if source is not None else "no source"
        raise OptionError(f"{uri}: {wanted} of the query is Spark's `kafka` source; it has {len(logged)} sources")
    listed = "; ".join(f"{name}: {', '.join(sorted(offsets))}" for name, offsets in found.items())
    raise OptionError(f"{uri}: the query has several Kafka sources, choose one with --source: {listed}")


def _spark_offsets(text: str | None) -> Offsets | None:
    """Spark's own form: topics, partitions, offsets; None for anything else."""
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
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from None
