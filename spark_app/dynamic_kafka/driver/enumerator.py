"""The enumerator: it plans the batches of one query over all clusters, and makes their read tasks. Driver.

`spark.stream_reader` and `spark.batch_reader` make one per query, and call `latest`, then `tasks`, for each batch, one
call at a time. A plan goes from the outside in:

1. `latest` plans, and keeps a run that ends by itself from ending early (`_before_the_end`).
2. `_plan` repeats the plan: with the last good metadata, without a cluster that fails, with newer metadata.
3. `_plan_observed` makes one plan of one observation (`observer`): `plan_once` runs the pure functions of `planning`.

This module only puts the steps in order. A decision about offsets belongs to `planning`, the choice of the metadata and
clusters to `observer`, everything about a batch that Spark has logged to `replay`.

If the process dies in here, nothing is lost. The only writes are amendments, before their batch runs (`replay`), and a
document counts only once Spark has logged it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from dynamic_kafka.driver.changed_topics import recorded_verdicts, refuse_standing
from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.driver.group_check import GroupCheck
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.driver.observer import Observer
from dynamic_kafka.driver.offset_resolution import answer_question, topics_with_ids
from dynamic_kafka.driver.read_tasks import make_tasks
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.driver.status import PlanStatus, new_notes
from dynamic_kafka.errors import ClusterError, TopicIntegrityError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.kafka.commits import GroupCommitter
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.advance import Limits, Plan
from dynamic_kafka.planning.checks import RevisionRejectedError, missing_id_warnings
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import Column, OffsetDocument
from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.observation import Observation
from dynamic_kafka.planning.plan import Planned, plan_batch
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import Question, run_steps
from dynamic_kafka.planning.splits import SplitRange
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.wording import first_few

log = logging.getLogger(__name__)


class Enumerator:
    """Planner of the batches of one query.

    Creating one does no I/O: Spark makes a reader twice, once only to send it to executors. The first call that needs
    metadata starts the discovery.

    Args:
        evaluation: the user's code of the tasks, for a batch that Spark has not read to its end.
    """

    def __init__(self, options: SourceOptions, evaluation: Evaluation | None = None) -> None:
        self.options, self._evaluation = options, evaluation
        self.status = PlanStatus()
        self.observer = Observer(options, self.status)
        # A batch read has no checkpoint to keep a state for.
        location = options.state_location if options.mode == "streaming" else None
        self.state = StateLocation(location) if location else None
        self.replays = Replays(options, self.state, self.observer.observe, self._ask, self._find_ends)
        self._query = uuid.uuid4().hex
        self.group_check = GroupCheck(options, self._query)
        self._committer: GroupCommitter | None = None
        self._targets: Targets | None = None
        self._planned: Planned | None = None
        self._waited_for: frozenset[str] = frozenset()
        self._topic_ends: dict[str, dict[str, Column]] = {}
        self._last_batch_at: float | None = None
        self._latest = OffsetDocument()

    def latest(self, start: Mapping[str, Any], *, unlimited: bool = False) -> Mapping[str, Any]:
        """Return the next offset document after `start`, or exactly `start` when there is nothing to do.

        Args:
            unlimited: `Trigger.Once` takes everything, whatever the rate options say.
        """
        logged = decode(start)
        self._restore(logged)
        if logged.over:
            self._latest = logged
            return start
        self.replays.batch_ended(logged)
        with recorded_verdicts(self.state, logged.query):
            plan = self._plan(logged, unlimited)
            if plan.document.over and (why := self.observer.incomplete_metadata()):
                plan, self.status.waits_for = Plan(logged), why  # a later plan decides
            if plan.document is logged:
                plan = self._before_the_end(plan, unlimited)
        self._latest = plan.document
        if plan.document is logged:
            return start
        if plan.document.over:
            log.info("all splits have reached their stop records: the query is over, and reads nothing any more")
        if plan.admitted or logged.is_initial:
            self._last_batch_at = time.monotonic()
        saved = encode(plan.document)  # before `planned`, which takes the fingerprint from it
        self.replays.planned(logged, plan.document)
        return saved

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
        """Return the read tasks of the batch between two documents, planned just now or by an earlier run."""
        first, last = decode(start), decode(end)
        self._restore(last)
        if last.over:
            return []  # its clusters may be gone
        if self.group_check.group is not None and not self.replays.is_settled(first, last):
            # A restored backup usually has a pending batch, which would be delivered again before the first plan.
            self.group_check.check(last, self.observer.observe(last))
        with recorded_verdicts(self.state, last.query):
            ranges = self.replays.ranges(first, last)
        # A batch that this process has planned has the ids of the metadata in force: it needs no answers.
        observation = self.replays.observation or Observation(self.observer.in_force().subscription, {})
        driver, ended = self.replays.incarnation.name, self.replays.amendments.stop_records_of(last)
        # The clock of other times says nothing about these.
        clock = first.clock_ms if (first.by_value is None) == (last.by_value is None) else None
        return make_tasks(self.options, observation, last, ranges, clock_ms=clock, driver=driver, ended=ended)

    def _find_ends(self, document: OffsetDocument, ranges: list[SplitRange], seen: Observation) -> None:
        """Read ranges as tasks do, which report where they end, and drop the rows. Raises as `read_range`."""
        # Imported here: nearly no planner reads records.
        from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS
        from dynamic_kafka.executor.reading.range_reader import read_range

        driver, ended = self.replays.incarnation.name, self.replays.amendments.stop_records_of(document)
        try:
            for task in make_tasks(self.options, seen, document, ranges, driver=driver, ended=ended):
                for _ in read_range(task, self._evaluation):
                    pass
        finally:
            CONSUMERS.close()

    def prepare_available_now(self) -> None:
        """Fix the present ends as targets: a run of `Trigger.AvailableNow` reads up to there and no further."""
        observed = self.observer.observe(None)  # the next plan or replay judges the clusters that do not answer
        self.observer.freeze()
        self._targets = Targets(assigned=bool(self.options.single and self.options.single.assign))
        self._targets.fix(observed.answers)

    def committed(self, end: Mapping[str, Any]) -> None:
        """Commit a batch's offsets to the clusters' groups in the background. Raises as `GroupCommitter.commit` does.

        Spark reports a batch when it constructs the next, and never reports the last one. So the bundled application
        commits from its listener instead.
        """
        group = self.options.group_id
        if not self.options.commit_offsets or group is None:
            return
        if self._committer is None:
            self._committer = GroupCommitter(
                group,
                lambda cluster: client_of(self.options, self.observer.in_force().subscription, cluster),
                allow_old_checkpoint=self.options.allow_old_checkpoint,
            )
        # The ranges that the batch left out are not read.
        self._committer.commit(self.replays.amendments.after(decode(end)))

    def report(self) -> dict[str, Any]:
        """Return the summary for Spark's progress event."""
        progress = self.replays.amendments.after(self._latest)
        return self.status.summary(self._latest, finished=progress.finished)

    def stop(self) -> None:
        """End discovery and drop the clients. Never waits for a cluster or a metadata service."""
        self.observer.stop()
        if self._committer is not None:
            self._committer.close()

    def end(self) -> None:
        """Stop, and wait a moment until a user's metadata service is closed: the process ends right after."""
        self.stop()
        self.observer.wait_closed()

    def _ask(self, question: Question, seen: Observation) -> Any:
        probes = seen.probes if isinstance(seen, LiveObservation) else {}
        return answer_question(question, probes=probes, state=self.state, options=self.options)

    def _restore(self, saved: OffsetDocument) -> None:
        if saved.bounded:
            self.observer.freeze()
        if not self.replays.is_restored:
            # Before the claim: a start that ends must not replace the driver that runs.
            have_ids = partial(topics_with_ids, self.options)
            refuse_standing(self.state, [saved], self.options, lambda: self.observer.in_force().subscription, have_ids)
        self.replays.begin(saved)

    def _plan(self, logged: OffsetDocument, unlimited: bool, *, everyone: bool = False) -> Plan:
        """Observe and plan, until a plan stands.

        If the metadata does not fit its clusters, the last good metadata is in force again. If a topic is another one,
        the newest metadata may name its id: it is looked up once more. If a cluster fails meanwhile that need not
        answer, the plan is made without it.
        """
        may_look_again = True
        observed: LiveObservation | None = None
        while True:
            try:
                if observed is None:
                    observed = self.observer.observe(logged, everyone=everyone)
                return self._plan_observed(logged, observed, unlimited)
            except RevisionRejectedError as rejected:
                # The query ends if no other metadata was good: this is the first, or the cluster itself has changed.
                if not self.observer.reject(str(rejected.error)):
                    raise rejected.error from None
                observed = None
            except TopicIntegrityError:
                if not (may_look_again and self.observer.look_again()):
                    raise
                may_look_again, observed = False, None
            except ClusterError as error:
                if observed is None:
                    raise  # a cluster that must answer: the observer has explained it
                if error.cluster not in observed.answers:
                    raise self.observer.explained({error.cluster: error}) from None
                newer = self.observer.note_failures({error.cluster: error}, observed)
                observed = None if newer else observed.without(error.cluster)

    def _before_the_end(self, plan: Plan, unlimited: bool) -> Plan:
        """Keep a run that ends by itself from ending before all its topics are read.

        A bounded run waits for them. Spark ends a run of `Trigger.AvailableNow` at the first plan without news, so
        there a cluster that is still to be read has to answer now, and describe its topics.

        Raises:
            ClusterError: it does not.
        """
        unread = self._still_to_read(plan)
        if unread and self._targets is not None:
            try:
                return self._last_plan(plan, unlimited)
            except ClusterError as error:
                why = error.message
                text = f"{why}. The run of Trigger.AvailableNow is not complete without it: start it again"
                raise type(error)(error.cluster, text) from None
        stalled = unread.keys() & self.status.stalled.keys()
        if stalled - self._waited_for:
            log.warning("the bounded run waits for %s", ", ".join(sorted(stalled)))
        self._waited_for = frozenset(stalled)
        return plan

    def _last_plan(self, plan: Plan, unlimited: bool) -> Plan:
        again = self._plan(plan.document, unlimited, everyone=True)
        unread = self._still_to_read(again) if again.document is plan.document else {}
        for cluster, topics in unread.items():
            text = f"lists {first_few(topics)}, but does not describe all of it (it is being created or moved)"
            if self.options.alignment_max_drift_ms is not None:
                text += ", or has a record that is newer than this driver's own time (docs/how-to/time.md)"
            raise ClusterError(cluster, text)
        return again

    def _still_to_read(self, plan: Plan) -> dict[str, list[str]]:
        assert self._planned is not None
        wanted = {cluster: named.topics for cluster, named in self._planned.wanted.items()}
        progress = self.replays.amendments.after(plan.document)
        return still_to_read(progress, wanted, self._planned.answers, self._targets)

    def _plan_observed(self, logged: OffsetDocument, observed: LiveObservation, unlimited: bool) -> Plan:
        if self._targets is not None:
            self._targets.fix(observed.answers)
        self._planned = planned = self.plan_once(self.plan_input(logged, observed, unlimited=unlimited), observed)
        self.observer.adopt(observed)
        for cluster, answer in observed.answers.items():
            self._topic_ends.setdefault(cluster, {}).update({name: seen.latest for name, seen in answer.topics.items()})
        self.group_check.check(logged, observed)
        self.status.note([*planned.notes, *new_notes(planned.reconciled.new)])
        # Executors may take less than planned by the times of records.
        by_value = self.options.timestamp_assigner is not None
        self.status.lag = planned.plan.lag if by_value else planned.plan.left
        self.status.waits_for = planned.waits_for
        self.status.aligned = planned.aligned
        return planned.plan

    def plan_input(self, logged: OffsetDocument, observed: LiveObservation, *, unlimited: bool = False) -> PlanInput:
        """Return the input of a plan; the tool `plan` uses it too."""
        return PlanInput(
            options=self.options,
            logged=logged,
            progress=self.replays.amendments.after(logged),
            observation=observed,
            now_ms=time.time_ns() // 1_000_000,
            limits=self._limits(unlimited),
            new_query_id=self._query,
            state=self.replays.incarnation.state_id,
            read_before=frozenset(self.observer.read_before),
            new_revision=observed.new_revision,
            incomplete_metadata=self.status.incomplete_metadata,
            topic_ends=self._topic_ends,
            alignment=self.status.aligned.memory,
        )

    def plan_once(self, given: PlanInput, observed: LiveObservation) -> Planned:
        """Plan, and answer the plan's questions. Writes nothing, but logs warnings; the tool `plan` uses it too."""
        answer = partial(answer_question, probes=observed.probes, state=self.state, options=self.options)
        # Before the plan, which may fail: a query that fails at each start still logs the clusters without an id.
        self.status.warn(missing_id_warnings(given))
        planned = run_steps(plan_batch(given), answer)
        self.status.warn(planned.warnings)
        return planned

    def _limits(self, unlimited: bool) -> Limits:
        targets = self._targets.ends if self._targets is not None else None
        if unlimited:
            return Limits(targets=targets)
        waited = float("inf") if self._last_batch_at is None else (time.monotonic() - self._last_batch_at) * 1000
        return Limits(
            max_offsets=self.options.max_offsets_per_trigger,
            # A run that ends must not wait for records that may never arrive.
            min_offsets=None if targets is not None else self.options.min_offsets_per_trigger,
            max_delay_ms=self.options.max_trigger_delay_ms,
            waited_ms=int(min(waited, 1e15)),
            targets=targets,
        )
