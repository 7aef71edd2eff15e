"""The questions that a plan asks its caller.

Planning does no I/O. A plan is a generator: it yields a question, the caller sends the answer, and the plan continues.
The driver answers from Kafka and the state location (`driver.offset_resolution`), the simulations of the tests from
their simulated clusters. The caller may raise instead of answering; that ends the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery

T = TypeVar("T")

Topics = frozenset[tuple[str, str]]
"""Topics, each as (cluster id, topic)."""


@dataclass(frozen=True)
class AcceptedIdentitiesQuestion:
    """Which other physical clusters has a user accepted? Answer: {cluster id: `AcceptedIdentity`}.

    The answer leaves out acceptances that `progress` names as void. Plans are frequent, and the state may be an object
    store. So a plan asks once, and only if a cluster starts as new or is not the saved one, or if two ids name one
    physical cluster. It also asks if a cluster is opened while another one is `unconfirmed`.
    """

    progress: OffsetDocument


@dataclass(frozen=True)
class AcceptedLossesQuestion:
    """Which data losses has a user accepted for this query? Answer: {split: `AcceptedLoss`}.

    A plan asks only if records are lost and `failOnDataLoss` is set.
    """

    query: str


@dataclass(frozen=True)
class AcceptedTopicsQuestion:
    """Which deleted or re-created topics has a user accepted for this query? Answer: a set of `TopicChange`.

    A plan asks only if a topic that it reads has another id than the saved one, or is missing.
    """

    query: str


@dataclass(frozen=True)
class OffsetsQuestion:
    """Which offsets answer these queries? Answer: {split: offset}, for every split.

    Attributes:
        ends: the observed end of each split. A split without a record as new as its timestamp starts there: an end
            that is fetched later would skip the records that were produced in between.
    """

    queries: Mapping[Split, OffsetQuery]
    ends: Mapping[Split, int]


@dataclass(frozen=True)
class HighWatermarksQuestion:
    """Where do the logs end for readers of uncommitted records? Answer: {split: high watermark}.

    Attributes:
        splits: the splits whose next offset lies past the observed end.
        new: those of `splits` that have never been read. The answer covers them on every cluster. It covers the others
            only on clusters that are read with `read_committed`, where the observed end is the last stable offset.
    """

    splits: frozenset[Split]
    new: frozenset[Split]


@dataclass(frozen=True)
class AbsentTopicsQuestion:
    """Which of these topics do the brokers of their clusters really lack? Answer: a set of (cluster id, topic).

    One broker may have old metadata. A plan asks before it treats a topic with progress as deleted. The caller raises
    ClusterError if a cluster lacks no topic, but refuses to describe it.
    """

    topics: Topics


@dataclass(frozen=True)
class HomeIdQuestion:
    """Which `cluster.id` does the home of the application's own topics report? Answer: the id, or None.

    A plan asks only if metadata names a topic as the application has one, the home has servers of its own, and the
    options do not name its id.
    """


@dataclass(frozen=True)
class DisputedIdsQuestion:
    """To which of these topics does a broker give another id, or none? Answer: a set of (cluster id, topic).

    One broker may have old metadata, with the id of an earlier topic of the name. A plan asks before it takes a topic
    for another one, and a start before it withdraws a verdict.

    Attributes:
        ids: {(cluster id, topic): the id that one broker gives it}.
    """

    ids: Mapping[tuple[str, str], str]


class EpochCheck(NamedTuple):
    """The question about one split, whose partition had a new leader since the epoch `saved`.

    `end` is the end of its log, or its next offset if an open transaction hides that one.
    """

    topic_id: str | None
    saved: int
    newest: int
    end: int


@dataclass(frozen=True)
class EpochEndsQuestion:
    """Where do the records of the saved leader epochs end? Answer: {split: offset}.

    The offset is the end of the last epoch that is not newer than `EpochCheck.saved`. If it lies before the split's
    next offset, the log was truncated there, and holds other records behind it. A split has no answer if its log is the
    same up to `EpochCheck.end`, or if the broker does not report the end.
    """

    checks: Mapping[Split, EpochCheck]


class TimedOffset(NamedTuple):
    """A record: its offset, and its time in milliseconds since the epoch."""

    offset: int
    time_ms: int


@dataclass(frozen=True)
class RecordTimesQuestion:
    """Which records have these times? Answer: {split: `TimedOffset`}, without the splits that have no such record.

    Attributes:
        since_ms: {split: the time that the record is the first one not to be older than}. With None, it is the newest
            record of the log instead.
    """

    since_ms: Mapping[Split, int | None]


Question = (
    AcceptedIdentitiesQuestion
    | AcceptedLossesQuestion
    | AcceptedTopicsQuestion
    | OffsetsQuestion
    | HighWatermarksQuestion
    | AbsentTopicsQuestion
    | DisputedIdsQuestion
    | EpochEndsQuestion
    | HomeIdQuestion
    | RecordTimesQuestion
)

Steps = Generator[Question, Any, T]
"""A computation that yields questions, receives their answers, and returns T."""


def run_steps(steps: Steps[T], answer: Callable[[Question], Any]) -> T:
    """Return the result of `steps`, with each question answered by `answer`, which may raise to end them."""
    reply: Any = None
    while True:
        try:
            question = steps.send(reply)
        except StopIteration as finished:
            result: T = finished.value
            return result
        reply = answer(question)
