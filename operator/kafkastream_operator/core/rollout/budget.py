"""The budget of restarts: how many are in flight at a time, in which order they come, and what pauses them. Pure.

Everything follows from the statuses of the subscriptions and from their applications, so an operator that starts anew
goes on with the same order. `handlers.restarts` collects them, and lets one restart begin at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from dynamic_kafka.contract.exit_codes import MEANINGS, ExitCode
from dynamic_kafka.contract.kubernetes_names import RELEASE_ROLLOUT_ANNOTATION
from dynamic_kafka.wording import first_few
from kafkastream_operator.core.application import Application
from kafkastream_operator.core.timestamps import parse
from kafkastream_operator.models.stream import RolloutRules
from kafkastream_operator.models.subscription import Rollout, SubscriptionStatus

OVER = frozenset({"", "NotRunning", "Paused", "Rejected", "RestartRequired", MEANINGS[ExitCode.TOPIC_INTEGRITY].reason})
"""Reasons of `RolledOut` with which a patch is not waited for: no driver starts by itself, or one has started. Or a
person has paused the subscription, or has to correct it ("": the condition is gone), which may take days."""
WAITING = frozenset({"RollingOut", "Reverted", "Queued", "RolloutPaused"})
"""Reasons of `RolledOut` with which a restart that is not patched yet waits for its turn."""


class Limits(NamedTuple):
    """How many restarts may be in flight."""

    in_all: int
    per_namespace: int


class StreamKey(NamedTuple):
    """A stream of a namespace."""

    namespace: str
    stream: str


FAILS_WITHIN = timedelta(minutes=10)
"""The failures of an application are those of its restart if the first of them comes within this time after it was
confirmed."""
STOPPED = frozenset({"Suspended", "Completed", "Absent"})
"""States in which an application does not run because its user wants that, or because it is done."""
Rules = Mapping[StreamKey, RolloutRules]


@dataclass(frozen=True)
class Restart:
    """The restart of one subscription, as its status and its application show it.

    Attributes:
        since: since when it waits, if it does.
        again: its patch was made before, and was lost or removed.
        hangs: it is in flight, and no driver has come for longer than a restart should take.
        in_flight: its driver is restarted, and has not reported yet.
        failed_at: when its driver failed last, or when the operator gave it up; None if it has not failed, or if the
            failure pauses no other restart any more.
        confirmed_at: None if it is not confirmed, if it has failed, or if its driver has yet to report.
    """

    namespace: str
    name: str
    streams: frozenset[StreamKey]
    token: str
    since: datetime
    waiting: bool = False
    in_flight: bool = False
    hangs: bool = False
    again: bool = False
    failed_at: datetime | None = None
    confirmed_at: datetime | None = None

    @property
    def order(self) -> tuple[bool, datetime, str, str]:
        """The order of the restarts: those begun before come first, then those that wait for longest."""
        return not self.again, self.since, self.namespace, self.name


@dataclass(frozen=True)
class Turn:
    """The place of a waiting restart in the order.

    Attributes:
        place: from 1.
        of: how many restarts wait.
        hindrance: what it waits for; "" if it may begin now.
        paused: it waits since another restart has failed.
    """

    restart: Restart
    place: int
    of: int
    hindrance: str = ""
    paused: bool = False


def restart_of(
    namespace: str,
    name: str,
    streams: Collection[str],
    status: SubscriptionStatus,
    application: Application | None,
    *,
    released: str = "",
) -> Restart | None:
    """Return the restart of a subscription; None if its last roll-out is none.

    Args:
        streams: the streams of its document.
        released: the revision whose restart a person has released: the others no longer wait for it.
    """
    rollout = status.rollout
    if rollout is None or rollout.method != "Restart":
        return None
    reasons = {condition.type: condition.reason for condition in status.conditions}
    pending, reason = rollout.phase == "Pending", reasons.get("RolledOut", "")
    confirmed, reports = rollout.phase == "Confirmed", reasons.get("Reporting") != "AwaitsReport"
    # A spec that cannot be read keeps its old roll-out, which goes no further.
    waiting = pending and reason in WAITING and reasons.get("StreamsResolved") != "InvalidSubscription"
    is_released = released == rollout.token
    failed_at = _failed_at(status, rollout, application) if not is_released else None
    return Restart(
        namespace,
        name,
        frozenset(StreamKey(namespace, stream) for stream in streams),
        rollout.token,
        parse(rollout.at),
        waiting=waiting,
        in_flight=(rollout.phase == "Patched" and reason not in OVER and not is_released)
        or (confirmed and not reports and failed_at is None and not is_released)
        or (application is not None and is_unrecorded(rollout, application))
        or (application is not None and waiting and _restarts_for_another(rollout, application)),
        hangs=rollout.phase == "Patched" and reason == "Starting",
        again=rollout.attempts > 0,
        failed_at=failed_at,
        confirmed_at=parse(rollout.at) if confirmed and reports and failed_at is None else None,
    )


def turns(restarts: Iterable[Restart], rules: Rules, limits: Limits) -> list[Turn]:
    """Return the turns of all waiting restarts, in their order.

    A restart that hangs keeps its place among those of its streams and of its namespace: the change, or a quota that is
    used up, may hang the next one, too. It holds up no other namespace.

    Args:
        rules: the rules of the streams; a stream without an entry has the default.
    """
    known = list(restarts)
    pauses = _pauses(known, rules)
    # By stream, by namespace, and in all (None).
    used: dict[StreamKey | str | None, list[Restart]] = defaultdict(list)

    def take_place(restart: Restart) -> None:
        for key in (*restart.streams, restart.namespace, *(() if restart.hangs else (None,))):
            used[key].append(restart)

    for turn in sorted((turn for turn in known if turn.in_flight), key=lambda turn: turn.order):
        take_place(turn)
    order = sorted((turn for turn in known if turn.waiting), key=lambda turn: turn.order)
    all_turns = []
    for place, turn in enumerate(order, 1):
        own = int(turn.in_flight)  # its last patch for an earlier revision still has its effect
        parallel = {key: _rule(rules, key).max_parallel or limits.per_namespace for key in turn.streams}
        full = [key for key, most in parallel.items() if len(used[key]) - own >= most]
        causes = [pauses[key] for key in sorted(turn.streams) if key in pauses and pauses[key][1] != turn]
        hindrance = ""
        if causes:
            hindrance = _paused_by(*causes[0])
        elif len(used[None]) - own >= limits.in_all:
            hindrance = _full(f"--max-restarts allows ({limits.in_all})", used[None], turn)
        elif len(used[turn.namespace]) - own >= limits.per_namespace:
            allows = f"--max-restarts-per-namespace allows ({limits.per_namespace})"
            hindrance = _full(allows, used[turn.namespace], turn)
        elif full:
            key = min(full)
            name = "rollout.maxParallel" if _rule(rules, key).max_parallel else "--max-restarts-per-namespace"
            hindrance = _full(f"{name} of stream {key.stream} allows ({parallel[key]})", used[key], turn)
        elif not own:
            take_place(turn)
        all_turns.append(Turn(turn, place, len(order), hindrance, bool(causes)))
    return all_turns


def _rule(rules: Rules, key: StreamKey) -> RolloutRules:
    return rules.get(key) or RolloutRules()


def _pauses(restarts: Iterable[Restart], rules: Rules) -> Mapping[StreamKey, tuple[StreamKey, Restart]]:
    """Return {stream whose last finished restart has failed: the stream and that restart}."""
    last: dict[StreamKey, tuple[datetime, Restart]] = {}
    for restart in restarts:
        ended = restart.failed_at or restart.confirmed_at
        if ended is None:
            continue
        for key in restart.streams:
            if key not in last or last[key][0] < ended:
                last[key] = ended, restart
    return {
        key: (key, restart)
        for key, (_, restart) in last.items()
        if restart.failed_at is not None and _rule(rules, key).pause_on_failure
    }


def _full(allows: str, others: Collection[Restart], waiting: Restart) -> str:
    """Say that no further restart may begin. Subscriptions of other namespaces are counted, not named."""
    names = [other.name for other in others if other.namespace == waiting.namespace]
    elsewhere = f"{len(others) - len(names)} in other namespaces" if len(names) < len(others) else ""
    holders = " and ".join(filter(None, (first_few(names, 5), elsewhere)))
    return (
        f"as many restarts are in flight or about to begin as {allows}: {holders}. If one hangs, release it:"
        f" `kubectl annotate --overwrite kss/NAME {RELEASE_ROLLOUT_ANNOTATION}=TOKEN` (its status.rollout.token)."
        " See docs/reference/operator-behaviour.md#a-wave-of-restarts"
    )


def _paused_by(key: StreamKey, failed: Restart) -> str:
    return (
        f"the restart of subscription {failed.name} for stream {key.stream} has failed. Correct that or release"
        f" it: `kubectl annotate --overwrite kss/{failed.name} {RELEASE_ROLLOUT_ANNOTATION}={failed.token}`."
        " See docs/reference/operator-behaviour.md#a-wave-of-restarts"
    )


def _failed_at(status: SubscriptionStatus, rollout: Rollout, application: Application | None) -> datetime | None:
    """Return when the restart failed last; None if its failure pauses no other.

    It does not if its driver has run long enough since, if a newer document is there for its next driver, or if the
    application is stopped or deleted. A restart that was given up, and is tried again, pauses them until it succeeds.
    """
    newest = status.rendered
    if newest is not None and rollout.token != newest.token:
        return None
    if application is None or application.life in STOPPED:
        return None
    if rollout.phase == "Failed" or (rollout.phase != "Confirmed" and _is_retried(status, rollout)):
        return parse(rollout.at)
    failure, since = status.failure, status.restarted_at
    if rollout.phase == "Pending" or failure is None or not failure.count or since is None:
        return None
    failed_at, first = parse(failure.at), parse(failure.since or failure.at)
    if application.life == "Failed" and first < parse(since):
        return None  # it had failed before, so this says nothing about the revision
    of_this_restart = rollout.phase != "Confirmed" or first <= parse(rollout.at) + FAILS_WITHIN
    return failed_at if of_this_restart and failed_at >= parse(since) else None


def _is_retried(status: SubscriptionStatus, rollout: Rollout) -> bool:
    """Return whether the operator tries this roll-out again since a user has asked for it."""
    return status.retried.partition("@")[0] == rollout.token


def is_unrecorded(before: Rollout, application: Application) -> bool:
    """Return whether an operator died between its patch and the status: the spec has the patch, the status does not."""
    pending = (before.method, before.phase) == ("Restart", "Pending")
    return pending and (application.token, application.attempt) == (before.token, before.attempts + 1)


def _restarts_for_another(rollout: Rollout, application: Application) -> bool:
    """Return whether the last patch was for an earlier revision, and its driver is not there yet."""
    earlier = bool(application.attempt) and application.token not in ("", rollout.token)
    return earlier and application.life in ("Starting", "Failing")
