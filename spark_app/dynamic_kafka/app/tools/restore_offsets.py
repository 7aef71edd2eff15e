"""The tool `restore-offsets`: starting offsets for a new checkpoint, after a checkpoint was lost.

The offsets come from the application's offset changelog, or from the commits of its consumer group. The tool compares
them with the clusters, and prints metadata and options. It writes no file of Spark's: a new query with a new checkpoint
starts at these offsets.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.config.schema import Sink
from dynamic_kafka.app.internal_topics.changelog import ChangelogRecord, read_changelog
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.app.tools.formatting import shown_time
from dynamic_kafka.app.tools.restored_offsets import SavedOffsets, restore
from dynamic_kafka.app.tools.restored_text import restored_text, restored_wire
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.cluster_clients import client_of, observe_all
from dynamic_kafka.driver.metadata_services import look_up
from dynamic_kafka.errors import DynamicKafkaError, GroupInUseError, OptionError
from dynamic_kafka.kafka.commit_marks import CommitMark, check_group
from dynamic_kafka.kafka.groups import Commits, GroupClient
from dynamic_kafka.kafka.record_times import record_times
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.observation import ClusterObservation, observed_topic
from dynamic_kafka.planning.sameness.cluster_renames import carry_over
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.checkpoints import Checkpoint
from dynamic_kafka.wording import first_few

HELP = "print starting offsets for a new checkpoint, after the old one was lost"
ORIGINS = ("changelog", "group")
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
        help="the source of the offsets: the changelog (default if there is one), or the group's commits",
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
    evaluates = gathered.options.record_evaluator is not None
    restored = restore(
        saved,
        gathered.answers,
        gathered.subscription,
        delivered=gathered.commits_to_compare() if origin != "group" else {},
        left_out=arguments.leave_out,
        stops=gathered.record_times(saved.ended or {}).keys() if evaluates else None,
    )
    group = gathered.group_advice()
    if arguments.json:
        print(json.dumps({**restored_wire(saved, restored), "group": group}, indent=1, sort_keys=True))
    else:
        checkpoint = Checkpoint(config.checkpoint_of(gathered.sink))
        left = checkpoint.uri if checkpoint.planned is not None else None
        print(restored_text(saved, restored, left, evaluates=evaluates, group=group))
    return ExitCode.DONE


@dataclass
class _Gathered:
    """The metadata, the clusters' answers, and the possible sources of offsets of one query."""

    config: AppConfig
    sink: Sink
    source: int
    options: SourceOptions
    subscription: Subscription
    answers: Mapping[str, ClusterObservation]

    @classmethod
    def of(cls, config: AppConfig, sink: Sink, source: int) -> _Gathered:
        """Look the metadata up, and ask all its clusters.

        Raises:
            MetadataError, ClusterError: there is no metadata, or a cluster does not answer, or lacks a topic.
        """
        options = config.parsed_options(sink)
        subscription = look_up(options)
        return cls(config, sink, source, options, subscription, observe_all(options, subscription, earliest=True))

    def default_origin(self) -> str:
        """Return `changelog`. Raises OptionError if the application has none."""
        declared = self.config.file.internal_topics
        if declared is None or declared.offset_changelog is None:
            raise OptionError(
                f"{self.config.source} has no internalTopics.offsetChangelog: take the group's commits, --from group"
            )
        return "changelog"

    def saved(self, origin: str) -> SavedOffsets:
        """Return the offsets of one source. Raises OptionError if there are none."""
        if origin == "changelog":
            return self._of_changelog()
        saved = self._committed()
        if not saved.next:
            raise OptionError(
                f"{self.config.source}, sink {self.sink.name}: {saved.origin} have no offset of a subscribed topic"
            )
        return saved

    def commits_to_compare(self) -> Mapping[Split, int]:
        """Return the group's commits, which show what was delivered since; empty if they cannot be read."""
        try:
            return self._committed().next
        except DynamicKafkaError as error:
            log.debug("the group is not compared: %s", error)
            return {}

    def record_times(self, offsets: Mapping[Split, int]) -> dict[Split, int]:
        """Return the timestamps of the records at these offsets, of those that are still there."""
        asked: dict[str, dict[tuple[str, int], int]] = {}
        for split, offset in offsets.items():
            seen = observed_topic(self.answers, split.cluster, split.topic)
            if (
                seen is not None
                and seen.earliest.get(split.partition, offset + 1) <= offset < seen.latest[split.partition]
            ):
                asked.setdefault(split.cluster, {})[split.topic, split.partition] = offset
        timestamps: dict[Split, int] = {}
        for cluster, wanted in asked.items():
            config = client_of(self.options, self.subscription, cluster).consumer_config()
            times = record_times(cluster, config, wanted, DEADLINE_S)
            timestamps |= {Split(cluster, *key): at_ms for key, at_ms in times.items()}
        return timestamps

    def group_advice(self) -> str:
        """Return what a new query with the same consumer group has to wait for; empty if it commits to none."""
        if not self.options.commit_offsets:
            return ""
        try:
            for cluster, commits in self._commits.items():
                check_group(cluster, str(self.options.group_id), commits, CommitMark("", 0, 0), allow_old=False)
        except GroupInUseError as error:
            return f"With the same consumer group, a start is refused now: {error}."
        except DynamicKafkaError as error:
            return f"It is not known whether the consumer group is in use: {error}."
        return f"The new query may keep the consumer group {self.options.group_id!r}."

    @cached_property
    def _commits(self) -> Mapping[str, Commits]:
        group = self.options.group_id
        if group is None:
            raise OptionError(f"{self.config.source}: sink {self.sink.name!r} has no consumer group (kafka.group.id)")
        commits: dict[str, Commits] = {}
        for cluster, answer in self.answers.items():
            partitions = [(topic, p) for topic, seen in answer.topics.items() for p in seen.latest]
            config = client_of(self.options, self.subscription, cluster).admin_config()
            client = GroupClient(cluster, group, config, deadline_s=DEADLINE_S)
            try:
                commits[cluster] = client.committed(partitions)
            finally:
                client.close_in_background()
        return commits

    def _committed(self) -> SavedOffsets:
        every = {
            Split(cluster, *key): offset
            for cluster, commits in self._commits.items()
            for key, (offset, _) in commits.items()
        }
        return SavedOffsets(f"the commits of group {self.options.group_id!r}", every)

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
        app, sink, source = self.config.name, self.sink.name, self.source
        own = [
            document
            for document in every
            if (document.application, document.sink, document.source) == (app, sink, source)
        ]
        if not own:
            there = first_few(sorted({f"{document.application}/{document.sink}" for document in every})) or "none"
            raise OptionError(
                f"changelog {topic!r} has no record of application {app!r}, sink {sink!r}, source {source};"
                f" it has: {there}"
            )
        return max(own, key=lambda known: (known.written_ms, known.document.number))
