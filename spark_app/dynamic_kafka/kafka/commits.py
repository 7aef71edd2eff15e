"""Commit progress to each cluster's consumer group, for observers: aside, never holding up reading.

Runs on the driver: in the application's own process, from its query listener, or (for users of the bare source) in the
planner's. One thread a cluster, each with its newest offsets only: a cluster that hangs holds up no other, and a commit
that fails is counted, not fatal. The offset document is the truth; what is committed here is for lag tools.

Each commit carries the text `dynamic-kafka/1 <query> <document number> <milliseconds>`: it tells a second query that
uses the same group, and a checkpoint that is older than the group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import DynamicKafkaError, GroupInUseError, StaleCheckpointError
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.kafka.groups import Commits, GroupClient
from dynamic_kafka.planning.progress import OffsetDocument

MARK = "dynamic-kafka/1"
IN_USE_MS = 60_000
"""Another query's commit younger than this means that it is still running."""
CHECK_S = 15.0
"""How often the group is looked at for another query."""
DEADLINE_S = 30.0

log = logging.getLogger(__name__)

Offsets = Mapping[tuple[str, int], int]


@dataclass
class CommitCounts:
    """What commits came to, per cluster."""

    succeeded: int = 0
    failed: int = 0
    last_error: str | None = None


@dataclass(frozen=True)
class CommitMark:
    """The text that a commit carries."""

    query: str
    number: int
    at_ms: int

    def __str__(self) -> str:
        return f"{MARK} {self.query} {self.number} {self.at_ms}"

    @classmethod
    def parse(cls, text: str) -> CommitMark | None:
        """Read a mark back; None for commits that are not ours."""
        parts = text.split(" ")
        if len(parts) != 4 or parts[0] != MARK or not parts[2].isdecimal() or not parts[3].isdecimal():
            return None
        return cls(parts[1], int(parts[2]), int(parts[3]))


def offsets_by_cluster(document: OffsetDocument) -> dict[str, dict[tuple[str, int], int]]:
    """What to commit per cluster: the next offset of every active split."""
    return {
        cluster: {(name, p): offset for name, topic in progress.topics.items() for p, offset in topic.next.items()}
        for cluster, progress in document.clusters.items()
    }


class GroupCommitter:
    """Commits the documents of one query.

    Args:
        group: the consumer group.
        client_of: how to reach a cluster now; raises KeyError for one that metadata no longer names.
        allow_old_checkpoint: the user's override for a checkpoint that is older than the group.
    """

    def __init__(
        self, group: str, client_of: Callable[[str], ClusterClient], *, allow_old_checkpoint: bool = False
    ) -> None:
        self._group, self._client_of, self._allow_old = group, client_of, allow_old_checkpoint
        self._lanes: dict[str, _Lane] = {}
        self._lock = threading.Lock()  # progress events and retries come from different threads
        self._newest: tuple[str, int] | None = None
        self._refused: DynamicKafkaError | None = None

    def commit(self, document: OffsetDocument) -> None:
        """Hand over a committed document. Never waits, never raises for a cluster's sake. One that is older than
        another of its query, which a second thread has handed over meanwhile, is passed over.

        Raises:
            GroupInUseError: another query commits to the group.
            StaleCheckpointError: the group is ahead of the query's own checkpoint.
        """
        if self._refused is not None:
            raise self._refused
        wanted = offsets_by_cluster(document)
        with self._lock:
            if self._newest is not None and self._newest[0] == document.query and self._newest[1] > document.number:
                return
            self._newest = (document.query, document.number)
            for cluster in set(self._lanes) - set(wanted):
                self._lanes.pop(cluster).close()
            for cluster in set(wanted) - set(self._lanes):
                self._lanes[cluster] = _Lane(self, cluster)
            for cluster, offsets in wanted.items():
                mark = CommitMark(document.query, document.number, time.time_ns() // 1_000_000)
                self._lanes[cluster].put(offsets, mark)

    def counts(self) -> dict[str, CommitCounts]:
        """What commits came to, for the clusters that are active."""
        return {cluster: lane.counts for cluster, lane in self._open().items()}

    def committed(self) -> dict[str, Offsets]:
        """The offsets that were last committed with success, per cluster."""
        return {cluster: lane.committed for cluster, lane in self._open().items()}

    def flush(self, timeout_s: float, *, unreachable: Collection[str] = ()) -> bool:
        """Wait until everything handed over is committed or has failed; False when time ran out.

        Args:
            unreachable: clusters that just failed: nobody waits for their commits.
        """
        deadline = time.monotonic() + timeout_s
        flushed = [
            lane.flush(0.0 if cluster in unreachable else max(0.0, deadline - time.monotonic()))
            for cluster, lane in self._open().items()
        ]
        return all(flushed)

    def close(self) -> None:
        """End the threads after what they are doing. Never waits."""
        with self._lock:
            for lane in self._lanes.values():
                lane.close()
            self._lanes.clear()

    def _open(self) -> dict[str, _Lane]:
        with self._lock:
            return dict(self._lanes)

    def refuse(self, error: DynamicKafkaError) -> None:
        """Remember why nothing is committed any more."""
        self._refused = error

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    def reach(self, cluster: str) -> ClusterClient:
        """How to reach a cluster now."""
        return self._client_of(cluster)

    def check(self, cluster: str, commits: Commits, mark: CommitMark) -> None:
        """Look at the group's commits for another query, and for a later self."""
        check_group(cluster, self._group, commits, mark, allow_old=self._allow_old)


def check_group(cluster: str, group: str, commits: Commits, mark: CommitMark, *, allow_old: bool) -> None:
    """Look at what a group has committed on one cluster before committing to it.

    Args:
        mark: the query, and the document that it is at.
        allow_old: the user's override for a checkpoint that is older than the group.

    Raises:
        GroupInUseError: another query has committed within the last minute.
        StaleCheckpointError: this query has committed a later document than its checkpoint knows.
    """
    now_ms = time.time_ns() // 1_000_000
    for _, text in commits.values():
        other = CommitMark.parse(text)
        if other is None:
            continue
        if other.query != mark.query and now_ms - other.at_ms < IN_USE_MS:
            raise GroupInUseError(
                f"query {other.query} commits to consumer group {group!r} of cluster {cluster!r}, last"
                f" {(now_ms - other.at_ms) // 1000} s ago: give each query a group of its own (kafka.group.id; in"
                f" the application a sink's groupId). If"
                f" that query has ended, start again in {IN_USE_MS // 1000} s"
            )
        if other.query == mark.query and other.number > mark.number and not allow_old:
            raise StaleCheckpointError(
                f"the checkpoint is at document {mark.number}, but group {group!r} of cluster {cluster!r} has"
                f" commits of its document {other.number}: the checkpoint was restored from a backup. Restore the newer"
                " one, or set allowOldCheckpoint=true to read again what came after it; not with a file sink, which"
                " skips the batches that it has by number, new records among them"
            )


class _Lane:
    """The thread and the newest offsets of one cluster."""

    def __init__(self, owner: GroupCommitter, cluster: str) -> None:
        self.counts = CommitCounts()
        self.committed: Offsets = {}
        self._owner, self._cluster = owner, cluster
        self._changed = threading.Condition()
        self._next: tuple[Offsets, CommitMark] | None = None
        self._busy = self._closed = False
        self._client: tuple[str, GroupClient] | None = None
        self._checked_at: float | None = None
        threading.Thread(target=self._run, name=f"dynamic-kafka-commit-{cluster}", daemon=True).start()

    def put(self, offsets: Offsets, mark: CommitMark) -> None:
        with self._changed:
            # Older offsets that still wait are overtaken: only the newest matter.
            self._next = (offsets, mark)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._next is None and not self._busy, timeout_s)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._next is not None or self._closed)
                if self._next is None:
                    break
                offsets, mark = self._next
                self._next, self._busy = None, True
            self._commit(offsets, mark)
        self._drop_client()

    def _commit(self, offsets: Offsets, mark: CommitMark) -> None:
        changed = {key: offset for key, offset in offsets.items() if self.committed.get(key) != offset}
        if not changed:
            return
        try:
            client = self._connect()
            if self._checked_at is None or time.monotonic() - self._checked_at > CHECK_S:
                self._owner.check(self._cluster, client.committed(offsets), mark)
                self._checked_at = time.monotonic()
            client.commit(changed, str(mark))
        except (GroupInUseError, StaleCheckpointError) as error:
            log.error("%s", error)
            self._owner.refuse(error)
        except KeyError:
            log.info("cluster %s is no longer named by metadata: its last offsets are not committed", self._cluster)
        except Exception as error:
            self.counts.failed += 1
            if self.counts.last_error != str(error):
                log.warning("offsets of cluster %s are not committed, reading goes on: %s", self._cluster, error)
            self.counts.last_error = str(error)
            self._drop_client()  # one that has lost its brokers finds none again (see `admin.kafka_id`)
        else:
            self.counts.succeeded += 1
            self.counts.last_error = None
            self.committed = dict(offsets)

    def _connect(self) -> GroupClient:
        client = self._owner.reach(self._cluster)
        config = client.admin_config()
        digest = client.digest(config)
        if self._client is None or self._client[0] != digest:
            self._drop_client()
            group = self._owner.group
            self._client = (digest, GroupClient(self._cluster, group, config, deadline_s=DEADLINE_S))
        return self._client[1]

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client[1].close_in_background()
