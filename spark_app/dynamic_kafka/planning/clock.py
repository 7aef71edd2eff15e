"""The clock of a stream: a time that all its active splits have passed, and how far a batch may read beyond it. Pure.

Spark's watermark follows the newest row of all, so the rows of a cluster that lags would be late. Alignment prevents
that. It chooses a **goal** for each batch: a time that each active split passes if the batch reads it to its end. The
**horizon** is the goal and `watermarkAlignmentMaxDrift`. Each split is read up to its first record that is as new as
that. So after the batch, all rows that were read are older than the horizon, and no unread one is older than the goal:
the goal is the clock then. The offset document holds it, and it never goes back.

Spark applies its watermark from the batches before. So a batch may span days, as long as it has the rows of all splits
up to its goal. Where a rate limit does not allow that, the goal is set back, at most to the clock.

Times are those of Kafka's records. A broker answers two questions about them: which record is the newest, and which is
the first that is not older than some time. Between two plans, memory holds only since when splits have nothing to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation, observed_topic
from dynamic_kafka.planning.questions import RecordTimesQuestion, Steps, TimedOffset
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few

FUTURE_MS = 3_600_000
"""A record that is newer than the driver's own time by more than this has a wrong time. Its split is not aligned, and
does not hold the clock, until the record leaves the log."""
_PARTS = 4
"""A search finds a goal to this part of the drift."""


@dataclass(frozen=True)
class Memory:
    """What one plan leaves for the next one of the same process.

    Attributes:
        read_since: {split: when a plan first saw that it has nothing to read, milliseconds since the epoch}. Others
            have unread records, or may have some.
        newest: the newest records of the logs, where brokers named them.
        span_ms: how far the goal of the last batch was ahead of the clock; 0 before the first.
    """

    read_since: Mapping[Split, int] = field(default_factory=dict)
    newest: Mapping[Split, TimedOffset] = field(default_factory=dict)
    span_ms: int = 0


@dataclass(frozen=True)
class Aligned:
    """The outcome of `align`.

    Attributes:
        clock_ms: the clock before the batch, milliseconds since the epoch; None if no split has a time, or without
            alignment.
        goal_ms: the clock after it, if each split takes what `room` and its end allow.
        room: {split: the most offsets that it may take}; splits that are not in here may take any number.
        held_by: the split that holds the clock; None if none does.
        beyond: the splits with a record from beyond `FUTURE_MS`.
    """

    clock_ms: int | None = None
    goal_ms: int | None = None
    room: Mapping[Split, int] = field(default_factory=dict)
    held_by: Split | None = None
    beyond: tuple[Split, ...] = ()
    memory: Memory = field(default_factory=Memory)


NOT_ALIGNED = Aligned()


class _Place(NamedTuple):
    """Where an active split stands: its next offset, and the end of what it may read; None if it does not answer."""

    following: int
    end: int | None

    @property
    def unread(self) -> int:
        return 0 if self.end is None else self.end - self.following


class _Search:
    """The questions of one plan about times.

    Attributes:
        places: the splits that are aligned; one that turns out to have no time, or a wrong one, leaves.
        newest: the newest record of each log, where its broker named it. It does not while that record may still be
            taken back: in an open transaction, or until enough replicas have it. That of the last plan is right for a
            split that has read all since: nobody asks again.
    """

    def __init__(
        self, places: dict[Split, _Place], newest: Mapping[Split, TimedOffset], *, latest_ms: int, grain_ms: int
    ) -> None:
        self.places, self.latest_ms, self.grain_ms = places, latest_ms, grain_ms
        self._unread = sum(place.unread for place in places.values())
        read = {split: place for split, place in places.items() if not place.unread and split in newest}
        self.newest = {split: newest[split] for split, place in read.items() if newest[split].offset < place.following}
        self._beyond: set[Split] = set()

    @property
    def beyond_found(self) -> tuple[Split, ...]:
        """The splits with a record from beyond `latest_ms`, in order."""
        return tuple(sorted(self._beyond))

    def count(self, room: Mapping[Split, int]) -> int:
        """Return how many offsets a batch may take: these, and all of the splits that are not aligned."""
        return sum(room.values()) + self._unread - sum(place.unread for place in self.places.values())

    def begin(self, holding: Iterable[Split], clock_ms: int | None) -> Steps[dict[Split, int | None]]:
        """Return the clock for each holding split whose log has a record.

        Without one, that is the time of the first record; None where nobody answers.
        """
        asked = [split for split in holding if self.places[split].end is not None]
        self.newest |= yield from self._ask({split: None for split in asked if split not in self.newest})
        doubtful = {
            split: 0
            for split in asked
            if split in self.places
            if clock_ms is None or not (self.places[split].unread or split in self.newest)
        }
        firsts = yield from self._ask(doubtful)
        for split in doubtful:
            if split not in firsts:
                self.places.pop(split, None)
        return {
            split: firsts[split].time_ms if clock_ms is None and split in firsts else clock_ms
            for split in holding
            if split in self.places
        }

    def ends(self, clocks: Mapping[Split, int], ceiling_ms: int) -> Steps[dict[Split, int]]:
        """Return the newest time that each split has before its end, to the grain, and only up to the ceiling."""
        low, high = dict(clocks), {}
        for split, clock_ms in clocks.items():
            newest = self.newest.get(split)
            if newest is not None and self._is_inside(split, newest):
                low[split] = max(clock_ms, newest.time_ms)
            elif self.places[split].end is not None:
                high[split] = min(newest.time_ms if newest is not None else self.latest_ms, ceiling_ms)
        # Most ends lie just before the newest record, which a producer has written since.
        asked = {split: top - self.grain_ms for split, top in high.items() if top - low[split] > self.grain_ms}
        while asked:
            records = yield from self._ask(asked)
            for split, time_ms in asked.items():
                if self._is_inside(split, records.get(split)):
                    low[split] = records[split].time_ms
                else:
                    high[split] = time_ms
            wide = [split for split in asked if high[split] - low[split] > self.grain_ms]
            asked = {split: (low[split] + high[split]) // 2 for split in wide}
        return {split: time_ms for split, time_ms in low.items() if split in self.places}

    def room(self, horizon_ms: int) -> Steps[dict[Split, int]]:
        """Return how many offsets each split has before its first record that is as new as the horizon."""
        unread = {split: place for split, place in self.places.items() if place.unread}
        cuts = yield from self._ask(
            {
                split: horizon_ms
                for split in unread
                if split not in self.newest or self.newest[split].time_ms >= horizon_ms
            }
        )
        return {
            split: min(place.unread, max(0, cuts[split].offset - place.following)) if split in cuts else place.unread
            for split, place in unread.items()
            if split in self.places
        }

    def _ask(self, since_ms: Mapping[Split, int | None]) -> Steps[Mapping[Split, TimedOffset]]:
        """Ask for records by their times. From a record beyond `latest_ms` on, its split is not aligned any more."""
        asked = {split: since for split, since in since_ms.items() if split in self.places}
        records: Mapping[Split, TimedOffset] = (yield RecordTimesQuestion(asked)) if asked else {}
        for split, record in records.items():
            if record.time_ms > self.latest_ms:
                self._beyond.add(split)
                del self.places[split]
        return {split: record for split, record in records.items() if split in self.places}

    def _is_inside(self, split: Split, record: TimedOffset | None) -> bool:
        """Return whether a record lies before the end of what its split may read."""
        end = self.places[split].end if split in self.places else None
        return record is not None and end is not None and record.offset < end


def align(
    progress: OffsetDocument,
    answers: Mapping[str, ClusterObservation],
    memory: Memory,
    *,
    drift_ms: int,
    idle_ms: int,
    now_ms: int,
    limits: Limits,
) -> Steps[Aligned]:
    """Choose the goal of the next batch, and return how far it may read.

    Args:
        progress: with new splits opened; it has the clock of the last document.
        memory: of the last plan; empty after a start.
        drift_ms: `watermarkAlignmentMaxDrift`.
        idle_ms: `idleTimeout`.
    """
    places = dict(_places(progress, answers, limits.targets))
    read_since = dict(_read_since(places, memory, now_ms))
    holding = [split for split in places if split not in read_since or now_ms - read_since[split] < idle_ms]
    search = _Search(places, memory.newest, latest_ms=now_ms + FUTURE_MS, grain_ms=max(1, drift_ms // _PARTS))
    found = yield from search.begin(holding, progress.clock_ms)
    clocks = {split: time_ms for split, time_ms in found.items() if time_ms is not None}
    if len(clocks) < len(found):
        # A cluster does not answer, and there is no clock yet: any record of the others might be too new.
        held_by = min(found.keys() - clocks.keys())
        return Aligned(
            room=dict.fromkeys(places, 0),
            held_by=held_by,
            beyond=search.beyond_found,
            memory=Memory(read_since, search.newest),
        )
    clock = min(clocks.values(), default=progress.clock_ms)
    if clock is None:
        return Aligned(beyond=search.beyond_found, memory=Memory(read_since, search.newest))
    goal = yield from _goal(search, clocks, clock, drift_ms=drift_ms, limit=limits.max_offsets, span_ms=memory.span_ms)
    return Aligned(
        goal.clock_ms,
        goal.time_ms,
        goal.room,
        min(goal.ends, key=lambda split: (goal.ends[split], split), default=None),
        search.beyond_found,
        Memory(read_since, search.newest, max(goal.time_ms - clock, drift_ms)),
    )


class _Goal(NamedTuple):
    """The goal of a batch, and what follows from it: see `Aligned`."""

    clock_ms: int
    time_ms: int
    room: Mapping[Split, int]
    ends: Mapping[Split, int]


def _goal(
    search: _Search, clocks: Mapping[Split, int], clock: int, *, drift_ms: int, limit: int | None, span_ms: int
) -> Steps[_Goal]:
    """Choose the greatest goal that all holding splits reach, and whose rows a rate limit allows.

    With a rate limit, it looks first near the clock: a backlog takes many batches, and each has about the same span.
    """
    while True:
        ceiling = search.latest_ms if limit is None or not span_ms else min(clock + 2 * span_ms, search.latest_ms)
        ends = yield from search.ends(clocks, ceiling)
        most = goal = max(clock, min(ceiling, min(ends.values(), default=clock)))
        room = yield from search.room(goal + drift_ms)
        is_most = goal < ceiling - search.grain_ms or ceiling == search.latest_ms
        if limit is None or is_most or 2 * search.count(room) > limit:
            break
        span_ms *= 2
    if limit is None or search.count(room) <= limit:
        return _Goal(clock, goal, room, ends)
    low, low_room = clock, (yield from search.room(clock + drift_ms))
    while goal - low > search.grain_ms and 2 * search.count(low_room) < limit:
        middle = (low + goal) // 2
        room = yield from search.room(middle + drift_ms)
        if search.count(room) > limit:
            goal = middle
        else:
            low, low_room = middle, room
    if not any(low_room.values()):
        # No unread record is older than this, and the next ones are too many for one batch.
        clock = low = min(low + drift_ms, most)
        low_room = yield from search.room(low + drift_ms)
    return _Goal(clock, low, low_room, ends)


def time_warnings(aligned: Aligned) -> dict[tuple[str, ...], str | None]:
    """Return the warning about splits with a record from beyond `FUTURE_MS`, None without any."""
    text = (
        f"{first_few(aligned.beyond, 5)} has a record that is more than an hour newer than this driver's own time:"
        " such a split is not aligned, until that record leaves its log"
    )
    return {("future",): text if aligned.beyond else None}


def _places(
    progress: OffsetDocument, answers: Mapping[str, ClusterObservation], targets: Mapping[Split, int] | None
) -> Iterator[tuple[Split, _Place]]:
    """Yield the splits that still have something to read, or may have: not finished, and not at their target."""
    for cluster, reading in progress.clusters.items():
        for name, topic in reading.topics.items():
            seen = observed_topic(answers, cluster, name)
            latest = seen.latest if seen is not None else {}
            # Of thousands of splits, most have no bound: this loop does as little as possible for those.
            is_bounded = bool(topic.stops or topic.ended)
            for partition, following in topic.next.items():
                split, end = Split(cluster, name, partition), latest.get(partition)
                if is_bounded:
                    if topic.finished(partition):
                        continue
                    bounds = (end, topic.stops.get(partition), topic.ended.get(partition))
                    end = min(bound for bound in bounds if bound is not None) if end is not None else None
                if targets is not None:
                    target = targets.get(split, None if end is None else following)
                    if target is not None and following >= target:
                        continue
                    end = min(end, target) if end is not None and target is not None else end
                yield split, _Place(following, end if end is None or end > following else following)


def _read_since(places: Mapping[Split, _Place], memory: Memory, now_ms: int) -> Iterator[tuple[Split, int]]:
    for split, place in places.items():
        if split in memory.read_since and not place.unread:
            yield split, memory.read_since[split]
        elif place.end is not None and not place.unread:
            yield split, now_ms
