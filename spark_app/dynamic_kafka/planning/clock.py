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

from dynamic_kafka.planning.advance import Limits, share
from dynamic_kafka.planning.announced import not_arrived
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation, observed_topic
from dynamic_kafka.planning.questions import RecordTimesQuestion, Steps, TimedOffset
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few

FUTURE_MS = 3_600_000
"""A record that is newer than the driver's own time by more than this has a wrong time. Its split is read up to that
record and no further, and holds the clock only up to there."""
_HELP = "docs/how-to/time.md#a-record-from-the-future"
_ANNOUNCED_HELP = "docs/how-to/time.md#a-cluster-that-joins-late"
_PARTS = 4
"""A search finds a goal to this part of the drift."""
_FULL, _AIM, _TRIES = 0.9, 0.99, 4
"""A batch with a rate limit is full with this part of the limit. A search aims at a bit more, as if the records were
evenly spread over time. After so many tries, half of the limit will do."""


@dataclass(frozen=True)
class Memory:
    """The knowledge that one plan leaves for the next one of the same process.

    Attributes:
        read_since: {split: when a plan first saw that it has nothing to read, milliseconds since the epoch}. Others
            have unread records, or may have some.
        newest: the newest records of the logs, where brokers named them.
        span_ms: how far the goal of the last batch was ahead of the clock; 0 before the first.
        beyond: as in `Aligned`, by the times in values.
    """

    read_since: Mapping[Split, int] = field(default_factory=dict)
    newest: Mapping[Split, TimedOffset] = field(default_factory=dict)
    span_ms: int = 0
    beyond: frozenset[Split] = frozenset()


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
        unaligned: those of them that had read it before, and splits without any time: no question shows where they are.
        forgotten: the splits whose time of the last plan counts no more.
        waits_for: the announced clusters for whose first records the clock waits.
        given_up: the announced clusters that did not come in time.
    """

    clock_ms: int | None = None
    goal_ms: int | None = None
    room: Mapping[Split, int] = field(default_factory=dict)
    held_by: Split | None = None
    beyond: frozenset[Split] = frozenset()
    unaligned: frozenset[Split] = frozenset()
    forgotten: frozenset[Split] = frozenset()
    waits_for: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)


NOT_ALIGNED = Aligned()


class Place(NamedTuple):
    """Where an active split stands: its next offset, and the end of what it may read; None if it does not answer."""

    following: int
    end: int | None

    @property
    def unread(self) -> int:
        return 0 if self.end is None else self.end - self.following


class Standing(NamedTuple):
    """Where the splits stand at a plan.

    Attributes:
        places: of the active splits that still have something to read, or may have.
        read_since: as in `Memory`.
        holding: the splits that hold the clock.
        waits_for, given_up: as in `Aligned`.
    """

    places: dict[Split, Place]
    read_since: Mapping[Split, int]
    holding: list[Split]
    waits_for: tuple[str, ...]
    given_up: tuple[str, ...]


def standing(
    progress: OffsetDocument,
    answers: Mapping[str, ClusterObservation],
    memory: Memory,
    *,
    idle_ms: int,
    now_ms: int,
    targets: Mapping[Split, int] | None,
) -> Standing:
    """Return where the splits stand.

    Args:
        progress: with new splits opened, and announced clusters noted.
        memory: of the last plan; empty after a start.
        idle_ms: `idleTimeout`.
        targets: as in `Limits`.
    """
    places = dict(_places(progress, answers, targets))
    awaited = not_arrived(progress) if targets is None else {}
    come = {split.cluster for split, place in places.items() if place.unread} if awaited else set()
    waits_for = tuple(c for c, until_ms in awaited.items() if c not in come and now_ms < until_ms)
    given_up = tuple(c for c, until_ms in awaited.items() if c not in come and now_ms >= until_ms)
    read_since = {
        split: since_ms
        for split, since_ms in _read_since(places, memory, now_ms)
        if split.cluster not in waits_for  # none of its splits is idle before it has come
    }
    holding = [split for split in places if split not in read_since or now_ms - read_since[split] < idle_ms]
    return Standing(places, read_since, holding, waits_for, given_up)


class _Search:
    """The questions of one plan about times.

    Attributes:
        places: the splits that are aligned; one that turns out to have no time leaves.
        now_ms: the driver's own time; a newer record is not yet due.
        beyond, unaligned: as in `Aligned`.
        newest: the newest record of each log, where its broker named it. It does not while that record may still be
            taken back: in an open transaction, or until enough replicas have it. That of the last plan is right for a
            split that has read all since: nobody asks again.
        far: the splits whose newest record of the last plan is still unread, and not older than `far_ms`: the furthest
            horizon of the first goal. That record is enough until the search looks further.
    """

    def __init__(
        self,
        places: dict[Split, Place],
        newest: Mapping[Split, TimedOffset],
        *,
        now_ms: int,
        drift_ms: int,
        far_ms: int | None,
    ) -> None:
        self.places, self.now_ms = places, now_ms
        self.grain_ms = max(1, drift_ms // _PARTS)
        seen = {split: (newest[split], place) for split, place in places.items() if split in newest}
        self.far = {
            split
            for split, (record, place) in seen.items()
            if far_ms is not None and record.offset >= place.following and record.time_ms >= far_ms
        }
        self.newest = {
            split: record
            for split, (record, place) in seen.items()
            if split in self.far or (record.offset < place.following and not place.unread)
        }
        self.beyond: set[Split] = set()
        self.unaligned: dict[Split, int] = {}

    def begin(self, holding: Iterable[Split], clock_ms: int | None) -> Steps[dict[Split, int | None]]:
        """Return the clock for each split that holds it.

        Without one, that is the time of the log's first record, or the driver's own if it is less. None where nobody
        answers.
        """
        asked = [split for split in holding if self.places[split].end is not None]
        self.newest |= yield from self._ask({split: None for split in asked if split not in self.newest})
        future_ms = self.now_ms + FUTURE_MS
        far = yield from self._ask(
            {s: future_ms for s in asked if s in self.newest and self.newest[s].time_ms >= future_ms}
        )
        for split, record in far.items():
            self.beyond.add(split)
            following, end = self.places[split]
            if record.offset < following:
                self._give_up(split)
            elif end is not None:
                self.places[split] = Place(following, min(record.offset, end))
        firsts: Mapping[Split, TimedOffset] = {}
        if clock_ms is None:
            dated = [split for split in asked if split in self.places]
            firsts = yield from self._ask(dict.fromkeys(dated, 0))
            for split in dated:
                if split not in firsts:
                    self._give_up(split)
        return {
            split: min(firsts[split].time_ms, self.now_ms) if split in firsts else clock_ms
            for split in holding
            if split in self.places and (split not in self.beyond or self.places[split].unread)
        }

    def look_further(self) -> Steps[None]:
        """Ask for the newest records that were far enough ahead so far."""
        newest = yield from self._ask(dict.fromkeys(self.far))
        self.newest = {split: record for split, record in self.newest.items() if split not in self.far} | dict(newest)
        self.far.clear()

    def _give_up(self, split: Split) -> None:
        """Align a split no more: no question shows the times of its next rows."""
        self.unaligned[split] = self.places.pop(split).unread

    def ends(self, clocks: Mapping[Split, int], ceiling_ms: int) -> Steps[dict[Split, int]]:
        """Return the newest time that each split has before its end, to the grain, and only up to the ceiling."""
        low, high = dict(clocks), {}
        for split, clock_ms in clocks.items():
            newest = self.newest.get(split)
            if newest is not None and self._is_inside(split, newest):
                low[split] = max(clock_ms, newest.time_ms)
            elif self.places[split].end is not None:
                high[split] = min(newest.time_ms if newest is not None else self.now_ms, ceiling_ms)
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
        return low

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
        room = {
            split: min(place.unread, max(0, cuts[split].offset - place.following)) if split in cuts else place.unread
            for split, place in unread.items()
        }
        return room | {split: 0 for split in self.beyond if split in self.places and split not in room}

    @staticmethod
    def _ask(since_ms: Mapping[Split, int | None]) -> Steps[Mapping[Split, TimedOffset]]:
        return (yield RecordTimesQuestion(since_ms)) if since_ms else {}

    def _is_inside(self, split: Split, record: TimedOffset | None) -> bool:
        """Return whether a record is due, and lies before the end of what its split may read."""
        end = self.places[split].end
        return record is not None and end is not None and record.offset < end and record.time_ms <= self.now_ms


def align(
    progress: OffsetDocument, stand: Standing, memory: Memory, *, drift_ms: int, now_ms: int, limits: Limits
) -> Steps[Aligned]:
    """Choose the goal of the next batch, and return how far it may read.

    Args:
        progress: has the clock of the last document.
        memory: of the last plan; empty after a start.
        drift_ms: `watermarkAlignmentMaxDrift`.
    """
    places, read_since, holding, waits_for, given_up = stand
    far_ms = None
    if progress.clock_ms is not None and limits.max_offsets is not None and memory.span_ms:
        far_ms = progress.clock_ms + memory.span_ms + drift_ms
    search = _Search(places, memory.newest, now_ms=now_ms, drift_ms=drift_ms, far_ms=far_ms)
    found = yield from search.begin(holding, progress.clock_ms)
    clocks = {split: time_ms for split, time_ms in found.items() if time_ms is not None}
    clock = min(clocks.values(), default=progress.clock_ms)
    limit, unaligned = limits.max_offsets, search.unaligned
    if limit is not None and unaligned:
        unaligned = share(unaligned, max(1, limit // 2), progress.number)
        limit -= sum(unaligned.values())
    if len(clocks) < len(found) or clock is None or (waits_for and progress.clock_ms is None):
        # Without a clock, any record might be too new for a split of a cluster that does not answer.
        goal = _Goal(None, None, dict.fromkeys(places, 0), found, 0)
    elif waits_for:
        room = yield from search.room(clock + drift_ms)
        goal = _Goal(clock, clock, room, {}, memory.span_ms)
    else:
        goal = yield from _goal(search, clocks, clock, drift_ms=drift_ms, limit=limit, span_ms=memory.span_ms)
    return Aligned(
        goal.clock_ms,
        goal.time_ms,
        {**unaligned, **goal.room},
        min(goal.ends, key=lambda split: (goal.ends[split] is not None, goal.ends[split], split), default=None),
        frozenset(search.beyond),
        frozenset(search.unaligned),
        waits_for=waits_for,
        given_up=given_up,
        memory=Memory(read_since, search.newest, goal.span_ms),
    )


class _Goal(NamedTuple):
    """The goal of a batch, and what follows from it: see `Aligned` and `Memory`. `ends`: how far each split reaches."""

    clock_ms: int | None
    time_ms: int | None
    room: Mapping[Split, int]
    ends: Mapping[Split, int | None]
    span_ms: int


def _goal(
    search: _Search, clocks: Mapping[Split, int], clock: int, *, drift_ms: int, limit: int | None, span_ms: int
) -> Steps[_Goal]:
    """Choose the greatest goal that all holding splits reach, and whose rows a rate limit allows.

    With a rate limit, it looks first near the clock: a backlog takes many batches, and each has about the same span.
    """
    # The last batch has left no rows up to the clock and the drift, or few: it is asked only if no other goal is found.
    low, low_rows, low_room, tries = clock, 0, None, 0
    while True:
        ceiling = search.now_ms if limit is None or not span_ms else min(clock + span_ms, search.now_ms)
        ends = yield from search.ends(clocks, ceiling)
        most = goal = max(clock, min(ceiling, min(ends.values(), default=clock)))
        room = yield from search.room(goal + drift_ms)
        is_most = goal < ceiling - search.grain_ms or ceiling == search.now_ms
        rows = sum(room.values())
        if limit is None or is_most or rows > limit * _FULL:
            break
        low, low_rows, low_room = goal, rows, room
        span_ms *= 2
        yield from search.look_further()
    if limit is None or rows <= limit:
        return _Goal(clock, goal, room, ends, max(goal - clock, drift_ms))
    while goal - low > search.grain_ms and low_rows < limit * (_FULL if tries < _TRIES else 0.5):
        part = 0.5 if tries % 2 else (limit * _AIM - low_rows) / (rows - low_rows)
        middle = low + max(1, int((goal - low) * part))
        room = yield from search.room(middle + drift_ms)
        tries += 1
        if (found := sum(room.values())) > limit:
            goal, rows = middle, found
        else:
            low, low_rows, low_room = middle, found, room
    if low_room is None:
        low_room = yield from search.room(clock + drift_ms)
    if not any(low_room.values()):
        # No unread record is older than this, and the next ones are too many for one batch.
        clock = low = min(low + drift_ms, most)
        low_room = yield from search.room(low + drift_ms)
    return _Goal(clock, low, low_room, ends, max(low - clock, drift_ms))


def time_warnings(aligned: Aligned) -> dict[tuple[str, ...], str | None]:
    """Return the warnings about records from beyond `FUTURE_MS`, and clusters that did not come; None without any."""
    standing, unaligned = sorted(aligned.beyond - aligned.unaligned), sorted(aligned.beyond & aligned.unaligned)
    record = "has a record that is more than an hour newer than this driver's own time"
    return {
        ("future",): f"{first_few(standing)} {record}: it is read up to there, and no further ({_HELP})"
        if standing
        else None,
        ("past the future",): f"{first_few(unaligned)} {record}, and had read it before: it is not aligned ({_HELP})"
        if unaligned
        else None,
        ("announced",): f"no record of {first_few(map(repr, aligned.given_up))} has come within announcedTimeout:"
        f" the clock goes on, and older records will be late ({_ANNOUNCED_HELP})"
        if aligned.given_up
        else None,
    }


def _places(
    progress: OffsetDocument, answers: Mapping[str, ClusterObservation], targets: Mapping[Split, int] | None
) -> Iterator[tuple[Split, Place]]:
    """Yield the splits that still have something to read, or may have: not finished, and not at their target."""
    for cluster, reading in progress.clusters.items():
        for name, topic in reading.topics.items():
            seen = observed_topic(answers, cluster, name)
            latest = seen.latest if seen is not None else {}
            # Most of thousands of splits have no bound: this loop does as little as possible for those.
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
                yield split, Place(following, end if end is None or end > following else following)


def _read_since(places: Mapping[Split, Place], memory: Memory, now_ms: int) -> Iterator[tuple[Split, int]]:
    for split, place in places.items():
        if not place.unread and (place.end is not None or split in memory.read_since):
            yield split, min(memory.read_since.get(split, now_ms), now_ms)  # the driver's time may have been set back
