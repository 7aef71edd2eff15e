"""The tool `restore-offsets`: starting offsets for a new checkpoint, after a checkpoint was lost.

The offsets come from the application's offset changelog, from the commits of its consumer group, or from the rows of
its Parquet sink. The tool compares them with the clusters, and prints metadata and options. It writes no file of
Spark's: a new query with a new checkpoint starts at these offsets.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.config.schema import Sink
from dynamic_kafka.app.exit_codes import ExitCode
from dynamic_kafka.app.internal_topics.changelog import ChangelogRecord, read_changelog
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.app.query.checkpoints import Checkpoint
from dynamic_kafka.app.tools.delivered_rows import delivered_ends
from dynamic_kafka.app.tools.formatting import shown_time
from dynamic_kafka.app.tools.restored_offsets import SavedOffsets, restore
from dynamic_kafka.app.tools.restored_text import restored_text, restored_wire
from dynamic_kafka.driver.cluster_clients import client_of, observe_all
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.errors import DynamicKafkaError, OptionError
from dynamic_kafka.kafka.groups import GroupClient
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.renames import carry_over
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few

HELP = "print starting offsets for a new checkpoint, after the old one was lost"
ORIGINS = ("changelog", "group", "sink")
DEADLINE_S = 60.0

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `restore-offsets`."""
    parser.add_argument("app", metavar="APP.YAML", help="the application's file")
    parser.add_argument("--sink", metavar="NAME", help="the sink whose query is meant, if app.yaml has several")
    parser.add_argument(
        "--source", metavar="N", type=int, default=0, help="the source, if its query has several (0: the first)"
    )
    parser.add_argument(
        "--from",
        dest="origin",
        choices=ORIGINS,
        help="the source of the offsets: the offset changelog (default if there is one), the commits of the consumer"
        " group, or the rows of the Parquet sink",
    )
    parser.add_argument(
        "--leave-out",
        metavar="CLUSTER[/TOPIC]",
        action="append",
        default=[],
        help="let this cluster or topic start at its first record; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the offsets and what starting there means, and return the exit code."""
    config = load_config(arguments.app)
    gathered = _Gathered.of(config, config.sink(arguments.sink), arguments.source)
    origin = arguments.origin or gathered.default_origin()
    saved = gathered.saved(origin)
    restored = restore(
        saved,
        gathered.answers,
        gathered.subscription,
        delivered=gathered.evidence(origin),
        rows=gathered.rows() if origin != "sink" else None,
        left_out=arguments.leave_out,
    )
    if arguments.json:
        print(json.dumps(restored_wire(saved, restored), indent=1, sort_keys=True))
    else:
        checkpoint = Checkpoint(config.checkpoint_of(gathered.sink))
        print(restored_text(saved, restored, checkpoint.uri if checkpoint.planned is not None else None))
    return ExitCode.DONE


@dataclass
class _Gathered:
    """The metadata, the clusters' answers, and the possible sources of offsets of one query."""

    config: AppConfig
    sink: Sink
    source: int
    subscription: Subscription
    answers: Mapping[str, ClusterObservation]

    @classmethod
    def of(cls, config: AppConfig, sink: Sink, source: int) -> _Gathered:
        """Look the metadata up, and ask all its clusters.

        Raises:
            MetadataError, ClusterError: there is no metadata, or a cluster does not answer, or lacks a topic.
        """
        options = config.parsed_options(sink)
        discovery = make_discovery(options, once=True)
        discovery.start()
        subscription = discovery.current().subscription
        discovery.stop()
        return cls(config, sink, source, subscription, observe_all(options, subscription, earliest=True))

    def default_origin(self) -> str:
        """Return `changelog`. Raises OptionError if the application has none."""
        declared = self.config.file.internal_topics
        if declared is None or declared.offset_changelog is None:
            raise OptionError(
                f"{self.config.source} has no internalTopics.offsetChangelog: choose the source of the offsets with"
                " --from group or --from sink"
            )
        return "changelog"

    def saved(self, origin: str) -> SavedOffsets:
        """Return the offsets of one source. Raises OptionError if there are none."""
        if origin == "changelog":
            return self._of_changelog()
        found = self._committed() if origin == "group" else self.rows(required=True)
        if not found:
            what = f"the group {self._group()!r} has no commits" if origin == "group" else "the sink has no rows"
            raise OptionError(f"{self.config.source}, sink {self.sink.name}: {what} of the subscribed topics")
        what = f"the commits of group {self._group()!r}" if origin == "group" else f"the rows in {self.sink.folder}"
        return SavedOffsets(what, found)

    def evidence(self, origin: str) -> list[Mapping[Split, int]]:
        """Return what the other sources show about deliveries."""
        found: list[Mapping[Split, int] | None] = []
        if origin != "group" and self._group() is not None:
            found.append(self._committed())
        if origin != "sink":
            found.append(self.rows())
        return [each for each in found if each is not None]

    def rows(self, *, required: bool = False) -> Mapping[Split, int] | None:
        """Return the offset after the last row of each split; None if the sink is no readable Parquet sink."""
        try:
            if self.sink.format_name != "parquet" or self.sink.folder is None:
                raise OptionError(f"{self.config.source}: sink {self.sink.name!r} writes no Parquet files")
            if required and "retention" in map(str.lower, self.sink.options):
                raise OptionError(
                    f"{self.config.source}: the log of sink {self.sink.name!r} forgets old files (option retention), and"
                    " with them the offsets of quiet partitions: choose another source with --from"
                )
            return self._present_ids(delivered_ends(self.sink.folder))
        except DynamicKafkaError as error:
            if required:
                raise
            log.debug("the sink's rows are not compared: %s", error)
            return None

    def _present_ids(self, found: Mapping[Split, int]) -> dict[Split, int]:
        """Return rows under the present id of their cluster, where metadata says `renamedFrom`."""
        former = {each.renamed_from: name for name, each in self.subscription.clusters.items() if each.renamed_from}
        return {split._replace(cluster=former.get(split.cluster, split.cluster)): end for split, end in found.items()}

    def _group(self) -> str | None:
        return self.config.parsed_options(self.sink).group_id

    def _committed(self) -> dict[Split, int]:
        options, group = self.config.parsed_options(self.sink), self._group()
        if group is None:
            raise OptionError(f"{self.config.source}: sink {self.sink.name!r} has no consumer group (kafka.group.id)")
        found: dict[Split, int] = {}
        for cluster, answer in self.answers.items():
            partitions = [(topic, p) for topic, seen in answer.topics.items() for p in seen.latest]
            config = client_of(options, self.subscription, cluster).admin_config()
            client = GroupClient(cluster, group, config, deadline_s=DEADLINE_S)
            try:
                commits = client.committed(partitions)
            finally:
                client.close_in_background()
            found |= {Split(cluster, topic, p): offset for (topic, p), (offset, _) in commits.items()}
        return found

    def _of_changelog(self) -> SavedOffsets:
        self.default_origin()
        declared = self.config.file.internal_topics
        assert declared is not None and declared.offset_changelog is not None
        home = find_home(self.config, declared, lambda: self.subscription)
        topic = declared.offset_changelog
        record = self._newest(read_changelog(home, topic, deadline_s=declared.timeout / 1000), topic)
        document, _ = carry_over(record.document, self.subscription.clusters, self.answers)
        when = shown_time(record.written_ms)
        return SavedOffsets.of(document, f"the changelog {topic!r}, query {record.document.query}, written {when}")

    def _newest(self, records: Iterator[ChangelogRecord], topic: str) -> ChangelogRecord:
        """Return the newest record of this query. An earlier query of the same sink has records of its own."""
        every = list(records)
        own = [
            each
            for each in every
            if (each.application, each.sink, each.source) == (self.config.name, self.sink.name, self.source)
        ]
        if not own:
            there = sorted({f"{each.application}/{each.sink}" for each in every})
            raise OptionError(
                f"the changelog {topic!r} has no record of application {self.config.name!r}, sink {self.sink.name!r},"
                f" source {self.source}; it has records of: {first_few(there) or 'none'}"
            )
        return max(own, key=lambda each: (each.written_ms, each.document.number))
