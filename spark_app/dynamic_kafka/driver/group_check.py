"""The check of a query's consumer group, once on each cluster. Driver.

The enumerator calls it in each plan, and before it replays a batch: no query may commit to the group of another one, or
run from a checkpoint that is older than its own commits. `kafka.commit_marks` has the rules; this module asks each
cluster once, and decides how long a plan waits for the answer.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from functools import partial

from dynamic_kafka.driver.grace import GRACE_S
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.errors import ClusterError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.commit_marks import CommitMark, check_group
from dynamic_kafka.kafka.groups import Commits
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.document.progress import OffsetDocument

log = logging.getLogger(__name__)


class GroupCheck:
    """The state of the check: which clusters have been checked, and which still look the commits up.

    Attributes:
        group: the group to which the source or the application commits; None if neither does.
    """

    def __init__(self, options: SourceOptions, new_query_id: str) -> None:
        commits = options.commit_offsets or options.application_commits
        self.group = options.group_id if commits else None
        self._allow_old = options.allow_old_checkpoint
        self._own = tuple(filter(None, (options.application_queries or "").split(",")))
        # In its first run, the other sources of a query may commit under ids that are not known here. The application
        # checks each cluster before it first commits there.
        self._start_only = options.application_commits and not self._own
        self._new_query_id = new_query_id
        self._checked: set[str] = set()
        self._lookups: dict[str, Future[Commits]] = {}

    def check(self, logged: OffsetDocument, observed: LiveObservation) -> None:
        """Check the group on each cluster that answers for the first time.

        The answer of a slow cluster counts for a later plan.

        Raises:
            GroupInUseError: another query commits to the group.
            StaleCheckpointError: the group's commits are ahead of this checkpoint.
        """
        if self.group is None:
            return
        start = not (self._checked or self._lookups)
        if self._start_only and not start:
            return
        new = [cluster for cluster in observed.answers if not (cluster in self._checked or cluster in self._lookups)]
        asked = [self._look_up(cluster, self.group, observed) for cluster in new]
        # A start waits for all, since a sink may skip a batch that is read again. Later, a cluster that hangs must not
        # delay the others.
        wait(asked, timeout=None if start else GRACE_S)
        mark = CommitMark(logged.query or self._new_query_id, logged.number, 0)
        for cluster, lookup in [item for item in self._lookups.items() if item[1].done()]:
            del self._lookups[cluster]
            if cluster not in observed.subscription.clusters:
                continue
            try:
                check_group(cluster, self.group, lookup.result(), mark, allow_old=self._allow_old, own=self._own)
            except ClusterError as error:
                log.warning("cannot read the commits of group %s: %s", self.group, error)
            self._checked.add(cluster)

    def _look_up(self, cluster: str, group: str, observed: LiveObservation) -> Future[Commits]:
        topics = observed.answers[cluster].topics
        keys = [(name, partition) for name, topic in topics.items() for partition in topic.latest]
        commits = partial(ClusterAdmin.committed, group=group, partitions=keys)
        self._lookups[cluster] = observed.probes[cluster].ask(commits)
        return self._lookups[cluster]
