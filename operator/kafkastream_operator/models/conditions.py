"""Kubernetes conditions: a lasting fact about a resource, since when it holds, why, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from kafkastream_operator.models.fields import Moment, StatusPart
from kafkastream_operator.models.reasons import Status, status_of

MESSAGE_CHARACTERS = 4096
"""The longest message that is written; a longer one is cut."""


class Condition(StatusPart):
    """One condition of a resource.

    Attributes:
        type: the name of the condition, such as `Ready`.
        status: whether the condition holds: `True`, `False`, or `Unknown`.
        reason: the cause of this status in one word; docs/reference/conditions.md lists all with their remedies.
        message: the cause in full, and what to do about it.
        observed_generation: the generation of the spec that this condition is about.
        last_transition_time: the time since which the status has had this value.
    """

    type: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z]*$")]
    status: Status
    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z]*$")]
    message: Annotated[str, Field(max_length=MESSAGE_CHARACTERS)] = ""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    last_transition_time: Moment


def condition(kind: str, reason: str, message: str = "") -> Condition:
    """Return a condition with the status of its reason; `settled` fills in its time and generation.

    Raises:
        KeyError: `models.reasons` has no row for the reason.
    """
    return Condition(
        type=kind,
        status=status_of(kind, reason),
        reason=reason,
        message=message[:MESSAGE_CHARACTERS],
        last_transition_time="",
    )


def settled(
    wanted: Iterable[Condition], before: Iterable[Condition], *, generation: int, now: str
) -> tuple[Condition, ...]:
    """Return the wanted conditions, sorted by type, with their generation.

    A condition whose status has not changed since `before` keeps its transition time; any other one gets `now`.
    """
    known = {old_condition.type: old_condition for old_condition in before}
    done = []
    for new in wanted:
        old = known.get(new.type)
        since = old.last_transition_time if old is not None and old.status == new.status else now
        done.append(new.model_copy(update={"last_transition_time": since, "observed_generation": generation}))
    return tuple(sorted(done, key=lambda new: new.type))
