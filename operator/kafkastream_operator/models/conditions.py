"""Conditions, as Kubernetes has them: what is true of a resource, since when, why, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from kafkastream_operator.models.fields import Moment, Part

MESSAGE_CHARACTERS = 4096


class Condition(Part):
    """One condition.

    Attributes:
        type: what is said.
        status: whether it is so.
        reason: why, in one word.
        message: why, and what to do.
        observed_generation: of the spec that it speaks of.
        last_transition_time: since when it is so.
    """

    type: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z]*$")]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z]*$")]
    message: Annotated[str, Field(max_length=MESSAGE_CHARACTERS)] = ""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    last_transition_time: Moment


def condition(kind: str, status: bool | None, reason: str, message: str = "") -> Condition:
    """A condition whose moment and generation `settled` fills in."""
    word: Literal["True", "False", "Unknown"] = "Unknown" if status is None else "True" if status else "False"
    return Condition(
        type=kind, status=word, reason=reason, message=message[:MESSAGE_CHARACTERS], last_transition_time=""
    )


def settled(
    wanted: Iterable[Condition], before: Iterable[Condition], *, generation: int, now: str
) -> tuple[Condition, ...]:
    """The wanted conditions, each with the moment since which its status holds, sorted by type."""
    known = {each.type: each for each in before}
    done = []
    for each in wanted:
        old = known.get(each.type)
        since = old.last_transition_time if old is not None and old.status == each.status else now
        done.append(each.model_copy(update={"last_transition_time": since, "observed_generation": generation}))
    return tuple(sorted(done, key=lambda each: each.type))
