"""The mark in each commit to a consumer group, and the check of a group by the marks in it.

The mark is the text `dynamic-kafka/1 <query> <document number> <milliseconds>`. It reveals a second query with the same
group, and a checkpoint that is older than the group (decision 009). Runs on the driver, for
the committer and the enumerator.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from dynamic_kafka.errors import GroupInUseError, StaleCheckpointError
from dynamic_kafka.kafka.groups import Commits

MARK = "dynamic-kafka/1"
IN_USE_MS = 60_000
"""A commit of another query younger than this means that the query is still running."""

log = logging.getLogger(__name__)


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
        """Return the mark in a commit's text, or None if another program made the commit."""
        parts = text.split(" ")
        if len(parts) != 4 or parts[0] != MARK or not parts[2].isdecimal() or not parts[3].isdecimal():
            return None
        return cls(parts[1], int(parts[2]), int(parts[3]))


def check_group(
    cluster: str, group: str, commits: Commits, mark: CommitMark, *, allow_old: bool, own: Collection[str] = ()
) -> None:
    """Check a group's commits on one cluster before committing to it.

    Args:
        mark: the query and the number of its present document.
        allow_old: whether the user accepts a checkpoint that is older than the group.
        own: the ids of the other sources of the same Spark query, whose marks are no other query's.

    Raises:
        GroupInUseError: another query has committed within the last minute. A mark more than a minute in the future
            is a warning instead: otherwise one wrong clock would block the group until that time.
        StaleCheckpointError: this query has committed a later document than the one in its checkpoint.
    """
    now_ms = time.time_ns() // 1_000_000
    # Partitions that were committed together have equal marks.
    for other in filter(None, map(CommitMark.parse, {text: None for _, text in commits.values()})):
        age_ms = now_ms - other.at_ms
        foreign = other.query not in (mark.query, *own)
        if foreign and age_ms < -IN_USE_MS:
            log.warning(
                "query %s committed to group %r of cluster %r %d s in the future, which counts as old: correct the"
                " drivers' clocks; if it still runs, give each query its own kafka.group.id",
                *(other.query, group, cluster, -age_ms // 1000),
            )
        elif foreign and age_ms < IN_USE_MS:
            user, ago, rest = other.query, max(0, age_ms) // 1000, (IN_USE_MS - age_ms) // 1000 + 1
            raise GroupInUseError(
                f"query {user} uses group {group!r} of {cluster!r}, last {ago} s ago: set another kafka.group.id, or"
                f" end that query and wait {rest} s"
            )
        if other.query == mark.query and other.number > mark.number and not allow_old:
            raise StaleCheckpointError(
                f"the checkpoint is at document {mark.number}, but group {group!r} of cluster {cluster!r} has"
                f" commits of its document {other.number}: the checkpoint was restored from a backup. Restore the newer"
                " one, or, without a file sink, set allowOldCheckpoint=true"
            )
