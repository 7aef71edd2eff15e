"""Commits of progress to each cluster's consumer group, for lag tools. The offset document remains the truth.

Runs on the driver: in the application's process, called by its query listener, or in the planner's process for users of
the bare source. Each cluster has a thread with its newest offsets only, so that commits never delay reading and a hung
cluster delays no other. A failed commit is counted and is not fatal.

Each commit carries a mark (`commit_marks`), which the committer checks before it commits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.errors import DynamicKafkaError, GroupInUseError, StaleCheckpointError
from dynamic_kafka.kafka.commit_marks import CommitMark, check_group
from dynamic_kafka.kafka.config import ClusterClient, config_digest
from dynamic_kafka.kafka.groups import GroupClient
from dynamic_kafka.kafka.newest_value import NewestValue
from dynamic_kafka.planning.document.progress import OffsetDocument

CHECK_S = 15.0
"""Seconds between two checks of the group for another query."""
DEADLINE_S = 30.0

log = logging.getLogger(__name__)

Offsets = Mapping[tuple[str, int], int]


@dataclass
class CommitCounts:
    """The numbers of commits of one cluster, by result."""

    succeeded: int = 0
    failed: int = 0
    last_error: str | None = None


def offsets_by_cluster(*documents: OffsetDocument) -> dict[str, dict[tuple[str, int], int]]:
    """Return the offsets to commit by cluster: the next offset of every active split, of the source furthest behind."""
    by_cluster: dict[str, dict[tuple[str, int], int]] = {}
    for document in documents:
        for cluster, progress in document.clusters.items():
            offsets = by_cluster.setdefault(cluster, {})
            for name, topic in progress.topics.items():
                for partition, offset in topic.next.items():
                    offsets[name, partition] = min(offset, offsets.get((name, partition), offset))
    return by_cluster


class GroupCommitter:
    """The committer of one query's offset documents.

    Args:
        client_of: returns the present access to a cluster. Raises KeyError for one that has left the metadata.
        allow_old_checkpoint: whether the user accepts a checkpoint that is older than the group.
    """

    def __init__(
        self, group: str, client_of: Callable[[str], ClusterClient], *, allow_old_checkpoint: bool = False
    ) -> None:
        self.group, self.client_of, self.allow_old = group, client_of, allow_old_checkpoint
        self._committers: dict[str, _ClusterCommitter] = {}
        self._left: dict[str, NewestValue[Any]] = {}  # the last commit of a cluster that left must precede a new one
        self._lock = threading.Lock()  # progress events and retries come from different threads
        self._newest: dict[str, int] = {}
        self._refused: DynamicKafkaError | None = None
        self._closed = False

    def commit(self, document: OffsetDocument, *others: OffsetDocument) -> None:
        """Queue the offsets of a document that Spark has committed. Return at once; the clusters' threads commit.

        A document is skipped if a second thread has already queued a newer one of the same query, or has closed the
        committer: Spark may report a batch after the end of its query.

        Args:
            others: the documents of the query's further sources. The mark names the first source only.

        Raises:
            GroupInUseError: another query commits to the group.
            StaleCheckpointError: the group is ahead of the query's own checkpoint.
        """
        if self._refused is not None:
            raise self._refused
        wanted = offsets_by_cluster(document, *others)
        numbers = {known.query: known.number for known in (document, *others)}
        with self._lock:
            if self._closed or any(self._newest.get(query, 0) > number for query, number in numbers.items()):
                return
            self._newest = numbers
            for cluster in set(self._committers) - set(wanted):
                self._left[cluster] = self._committers.pop(cluster).thread
                self._left[cluster].close()
            for cluster in set(wanted) - set(self._committers):
                self._committers[cluster] = _ClusterCommitter(self, cluster, self._left.pop(cluster, None))
            for cluster, offsets in wanted.items():
                mark = CommitMark(document.query, document.number, time.time_ns() // 1_000_000)
                self._committers[cluster].thread.put((offsets, mark))

    def counts(self) -> dict[str, CommitCounts]:
        return {cluster: committer.counts for cluster, committer in self._open().items()}

    def committed(self) -> dict[str, Offsets]:
        """Return the last successfully committed offsets by cluster."""
        return {cluster: committer.committed for cluster, committer in self._open().items()}

    def flush(self, timeout_s: float, *, unreachable: Collection[str] = ()) -> bool:
        """Wait until every queued commit has succeeded or failed. Return False when the time runs out.

        Args:
            unreachable: clusters that just failed; their commits are not waited for.
        """
        deadline = time.monotonic() + timeout_s
        flushed = [
            committer.thread.flush(0.0 if cluster in unreachable else max(0.0, deadline - time.monotonic()))
            for cluster, committer in self._open().items()
        ]
        return all(flushed)

    def close(self) -> None:
        """Stop each thread after its present commit. Return at once."""
        with self._lock:
            self._closed = True
            for committer in self._committers.values():
                committer.thread.close()
            self._committers.clear()

    def _open(self) -> dict[str, _ClusterCommitter]:
        with self._lock:
            return dict(self._committers)

    def refuse(self, error: DynamicKafkaError) -> None:
        """Stop all further commits with this error."""
        self._refused = error


class _ClusterCommitter:
    """The commits of one cluster. Its thread gets the newest offsets."""

    def __init__(self, owner: GroupCommitter, cluster: str, after: NewestValue[Any] | None) -> None:
        self.counts = CommitCounts()
        self.committed: Offsets = {}
        self._owner, self._cluster = owner, cluster
        self._client: tuple[str, GroupClient] | None = None
        self._checked_at: float | None = None
        self.thread = NewestValue(f"dynamic-kafka-commit-{cluster}", self._commit, self._drop_client, after=after)

    def _commit(self, wanted: tuple[Offsets, CommitMark]) -> None:
        offsets, mark = wanted
        changed = {key: offset for key, offset in offsets.items() if self.committed.get(key) != offset}
        if not changed:
            return
        try:
            client = self._connect()
            if self._checked_at is None or time.monotonic() - self._checked_at > CHECK_S:
                commits = client.committed(offsets)
                check_group(self._cluster, self._owner.group, commits, mark, allow_old=self._owner.allow_old)
                self._checked_at = time.monotonic()
            client.commit(changed, str(mark))
        except (GroupInUseError, StaleCheckpointError) as error:
            log.error("%s", error)
            self._owner.refuse(error)
        except KeyError:
            log.info("cluster %s has left the metadata: its last offsets are not committed", self._cluster)
        except Exception as error:
            self.counts.failed += 1
            if self.counts.last_error != str(error):
                log.warning("offsets of cluster %s are not committed, reading continues: %s", self._cluster, error)
            self.counts.last_error = str(error)
            self._drop_client()  # a client that lost its brokers never finds them again (see `admin.kafka_id`)
        else:
            self.counts.succeeded += 1
            self.counts.last_error = None
            self.committed = dict(offsets)

    def _connect(self) -> GroupClient:
        client = self._owner.client_of(self._cluster)
        config = client.admin_config()
        digest = config_digest(config)
        if self._client is None or self._client[0] != digest:
            self._drop_client()
            group = self._owner.group
            self._client = (digest, GroupClient(self._cluster, group, config, deadline_s=DEADLINE_S))
        return self._client[1]

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client[1].close_in_background()
