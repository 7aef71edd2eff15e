"""A world that checks the operator's promises after each event of a random story.

The promises are those of docs/reference/operator-behaviour.md, not of the code. Servers and topics stand for the Kafka
clusters themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import ALIVE
from kafkastream_operator.core.document import Document, Key, active, draining_in, entries
from kafkastream_operator.core.drain_evidence import Driver, TopicReport
from kafkastream_operator.core.render import renames
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import Plan, View
from kafkastream_operator.models.stream import Drain, KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import UID, DiedError, World, cluster

STREAMS = ("a", "b", "c")
BROKEN = "- streamId: [\n"
Happening = tuple[Any, ...]


class OverError(Exception):
    """The end of a story: the subscription was deleted after its orphan retention."""


class BrokenPromiseError(AssertionError):
    """A broken promise of docs/reference/operator-behaviour.md."""


@dataclass
class CheckedWorld(World):
    """A world in which anything may happen, and whose promises are checked.

    Attributes:
        last: the newest document that is still stored or reported somewhere; its topics may leave by the rules only.
        since: the first revision in which each draining topic drained.
        hashes: the hash of each revision so far.
        old: documents by version, as drivers had them.
        in_force: the document that the running driver uses.
        stands: the statuses of the streams.
        confirmed: the tokens that a status has shown as confirmed.
        rules: every `drain` that a stream ever had; the default, too, where the stream's own was lost.
        unknown: the streams whose `drain` only a lost document had, until the next one is written.
        patched_at, gone_since: the time of the last restart; the time since which there is no application.
        forgotten: whether status and document were lost, and no driver has started with a document since.
        anew: the streams that were deleted, whose statuses are lost.
        generations: the generation of each stream.
    """

    last: Document | None = None
    since: dict[Key, int] = field(default_factory=dict)
    hashes: dict[Revision, str] = field(default_factory=dict)
    old: list[Document] = field(default_factory=list)
    in_force: Document | None = None
    stands: dict[str, KafkaStreamStatus] = field(default_factory=dict)
    confirmed: set[str] = field(default_factory=set)
    rules: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    patched_at: Any = None
    gone_since: Any = None
    forgotten: bool = False
    anew: set[str] = field(default_factory=set)
    generations: dict[str, int] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)

    # -- events of a story ----------------------------------------------------------------------------------------

    def apply(self, name: str, clusters: list[dict[str, Any]], drain: dict[str, Any]) -> None:
        self.streams_looked_at()
        self.generations[name] = self.generations.get(name, 0) + 1
        self.stream(name, *clusters, **drain)
        self.rules.setdefault(name, []).append(drain)

    def delete(self, name: str) -> None:
        self.streams.pop(name, None)
        self.stands.pop(name, None)
        self.anew.add(name)

    def config_map(self, name: str, text: str | None) -> None:
        if text is None:
            self.config_maps.pop(name, None)
        else:
            self.config_maps[name] = text
            for stream in STREAMS:
                self.rules.setdefault(stream, []).append({})

    def change(self, spec: dict[str, Any]) -> None:
        self.changes(**spec)

    def apply_invalid(self, name: str) -> None:
        self.apply(name, [cluster("west", "x", startingOffsets="sometimes")], {})

    def unpause(self) -> None:
        self.changes(pause=None)

    def pause(self, minutes: int | None) -> None:
        until = (
            {} if minutes is None else {"until": (self.now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        )
        self.changes(pause={"reason": "freeze", **until})

    def life(self, life: Any) -> None:
        self.application_is(life)
        self.gone_since = None
        self.driver, self.in_force = None, None

    def vanishes(self) -> None:
        self.driver, self.in_force, self.application, self.attempted = None, None, None, ""
        self.gone_since = self.gone_since or self.now

    def starts(self, reports: bool) -> None:
        """Start a driver. It waits for a document that has the revision for which it was started."""
        if self.application is None or self.document is None or self.edited:
            return
        awaited = Revision.parse(self.application.token)
        self.driver_starts(reports=False)
        assert self.driver is not None
        version = self.document.revision
        if awaited is not None and not version.is_at_least(awaited):
            self.in_force = None
            return
        self.in_force, self.forgotten = self.document, False
        if reports:
            self.report("live", {}, news=False)

    def applies(self) -> None:
        """Let the running driver use the newest document, without a report."""
        if self.driver is not None and self.driver.running and self.document is not None and not self.edited:
            self.in_force, self.forgotten = self.document, False

    def report(self, ability: str, progress: dict[int, tuple[int | None, float, bool]], *, news: bool = True) -> None:
        """Report the document in force truthfully. `progress` has lag, quiet time and open transaction by position."""
        if self.driver is None or not self.driver.running or self.in_force is None:
            return
        self.streams_looked_at()  # before so much time has passed
        draining = {
            key: TopicReport(*progress[n % 3])
            for n, key in enumerate(sorted(set(draining_in(self.in_force.streams))))
            if n % 3 in progress
        }
        self.driver = replace(
            self.driver, report=self.report_of(self.in_force, {ability} - {""}, draining), silent_s=0.0, seen_alive=news
        )

    def forged(self, how: str, back: int) -> None:
        """Write a report which claims that all is drained, but is no evidence.

        One for another subscription has the revision in force, as after the subscription was made anew. `RolledOut`
        goes by the lineage, and not by the subscription.
        """
        if self.driver is None or self.document is None or not self.old:
            return
        self.streams_looked_at()
        now = self.old[-1 - back % len(self.old)] if how == "old" else self.document
        draining = {key: TopicReport(0, 9999.0) for key in draining_in(self.document.streams)}
        if how in ("silent", "news", "subscription"):
            if self.in_force is None:
                return
            now = self.in_force
        report = self.report_of(now, {"live"}, draining)
        if how == "pod":
            report = replace(report, pod="another")
        elif how == "subscription":
            report = replace(report, subscription="another")
        elif how == "lineage":
            report = replace(report, applied=Revision(lineage="another", counter=99))
        self.driver = replace(
            self.driver, report=report, silent_s=31.0 if how == "silent" else 0.0, seen_alive=how != "news"
        )

    def ends(self) -> None:
        """End the driver's pod, while the application's status does not show it yet."""
        if self.driver is not None:
            self.driver, self.in_force = replace(self.driver, running=False), None

    def silence(self, seconds: float) -> None:
        if self.driver is not None:
            self.driver = replace(self.driver, silent_s=seconds)

    def release(self, names: list[str]) -> None:
        self.released = frozenset(names)

    def lose(self, what: str) -> None:
        rendered, lost = self.status.rendered, self.document is None or self.edited
        behind = lost or rendered is None or f"{rendered.lineage}/{rendered.counter}" != self.document.revision.token
        if what in ("document", "edited") and behind:
            return  # `both` is the event that loses two at once
        if what == "status" and lost:
            return
        if what in ("document", "both"):
            self.document = None
        if what != "status":
            drains = {drain.stream for drain in self.status.draining} if what != "both" else set()
            self.unknown = set(STREAMS) - drains
        if what == "edited":
            self.edited = True
        if what in ("status", "both"):
            self.status, self.confirmed, self.patched_at = SubscriptionStatus(), set(), None
        if what == "both":
            self.last, self.since, self.edited = None, {}, False
            self.hashes.clear()
            self.forgotten = True

    def reverts(self) -> None:
        """Remove the operator's keys, as a GitOps tool does."""
        if self.application is not None:
            self.application = replace(
                self.application,
                token="",
                attempt=0,
                resource_version=str(int(self.application.resource_version) + 1),
            )
            self.attempted = ""

    def passes(self, seconds: float) -> None:
        self.later(seconds=seconds)
        if self.driver is not None and self.driver.running:
            self.driver = replace(self.driver, silent_s=self.driver.silent_s + seconds)

    def glance(self) -> None:
        """Reconcile once."""
        self.look()

    def rests(self) -> None:
        self.settle()
        before = len(self.writes)
        self.look()
        if len(self.writes) != before:
            raise BrokenPromiseError(f"it writes again without need: {self.writes[before:]}")

    def dies(self, writes: int) -> None:
        self.dies_after = len(self.writes) + writes
        try:
            self.settle()
        except DiedError:
            if self.writes[-1] == "patch":
                self.patched_at = None
        self.dies_after = None

    def streams_looked_at(self) -> None:
        """Reconcile the streams."""
        for name in self.streams:
            before, generation = self.stands.get(name, KafkaStreamStatus()), self.generations.get(name, 1)
            status = self._stand(name, before, generation)
            KafkaStreamStatus.model_validate(status.model_dump())
            self.stands[name] = status
            again = self._stand(name, status, generation)
            if again != status:
                raise BrokenPromiseError(f"the status of stream {name} moves while nothing happens: {status} {again}")
            _agrees({condition.type: condition.status for condition in status.conditions}, f"stream {name}")

    # -- promises ---------------------------------------------------------------------------------------------------

    def look(self) -> Plan:
        driver, before, patches = self.driver, self.status, self.patches
        try:
            plan = super().look()
        finally:
            SubscriptionStatus.model_validate(self.status.model_dump())
            if self.document is not None and not self.edited and self.document is not self.last:
                self._check_document(self.document, driver)
                self.last = self.document
                self.old.append(self.document)
            if self.patches > patches:
                self._check_patch(before)
            if self.driver is None:
                self.in_force = None
        if plan.delete:
            gone = self.now - self.gone_since if self.gone_since is not None else None
            if not self.annotated or self.application is not None or gone is None or gone < timedelta(days=1):
                raise BrokenPromiseError("deleted before its orphan retention")
            raise OverError
        rollout = self.status.rollout
        if rollout is not None and rollout.phase == "Confirmed":
            self.confirmed.add(rollout.token)
        if self.status.conditions:
            _agrees({condition.type: condition.status for condition in self.status.conditions}, "the subscription")
        return plan

    def _check_patch(self, before: SubscriptionStatus) -> None:
        assert self.application is not None
        token, spec = self.application.token, self.view().spec
        if token in self.confirmed:
            raise BrokenPromiseError(f"a restart for {token}, which was in force already")
        if self.application.life not in ALIVE:
            raise BrokenPromiseError(f"a restart of an application that is {self.application.life}")
        if spec.update_strategy == "Reload":
            raise BrokenPromiseError("a restart under Reload")
        if spec.pause is not None and (spec.pause.until is None or stamp(self.now) < spec.pause.until):
            raise BrokenPromiseError("a restart in a pause")
        if self.document is None or token != self.document.revision.token:
            raise BrokenPromiseError(f"a restart for {token}, which is not the newest")
        if self.patched_at is not None and self.now - self.patched_at < self.timing.between_restarts:
            raise BrokenPromiseError(f"two restarts within {self.now - self.patched_at}")
        self.patched_at = self.now

    def _check_document(self, document: Document, driver: Driver | None) -> None:
        revision = replace(document.revision, hash="")
        known = self.hashes.get(revision)
        if known is not None and known != document.hash:
            raise BrokenPromiseError(f"revision {revision.token} had another content")
        newest = max((prior.counter for prior in self.hashes if prior.lineage == document.revision.lineage), default=0)
        if known is None and document.revision.counter <= newest:
            raise BrokenPromiseError(f"revision {revision.token} comes after {newest}")
        self.hashes[revision] = document.hash
        for stream in self.unknown:
            if self._present(stream) is None:
                self.rules.setdefault(stream, []).append({})
        self.unknown = set()
        there = {key for _, key, _ in entries(document.streams)}
        carried = renames(document.streams)
        since = {}
        for key in {key for _, key, _ in entries(self.last.streams)} if self.last is not None else ():
            now = key if key in there else key._replace(cluster=carried.get(key.cluster, key.cluster))
            if key in self.since:
                since[now] = self.since[key]
            if now not in there:
                self._check_removal(key, now, driver)
        self.since = {key: since.get(key, document.revision.counter) for key in draining_in(document.streams)}

    def _check_removal(self, key: Key, now: Key, driver: Driver | None) -> None:
        names = {key.cluster, str(key), now.cluster, str(now)}
        if key in self.since and any(released_key.partition("@")[0] in names for released_key in self.released):
            return
        assert self.last is not None
        owners = {stream for stream, entry, _ in entries(self.last.streams) if entry == key}
        if all(any(rule.get("policy") == "Immediate" for rule in self._rules(owner)) for owner in owners):
            return
        why = self._no_evidence(key, now, driver, owners)
        if why:
            raise BrokenPromiseError(f"{key} left revision {self.last.revision.token}: {why}")

    def _no_evidence(self, key: Key, now: Key, driver: Driver | None, owners: Iterable[str]) -> str:
        report = driver.report if driver is not None else None
        if driver is None or report is None or self.application is None or self.last is None:
            return "nobody reports"
        topic = report.draining.get(now) or report.draining.get(key)
        applied, since = report.applied, self.since.get(key)
        quiet = {"5m": 300.0, "10m": 600.0}
        wanted = max(min(quiet[rule.get("quietPeriod", "5m")] for rule in self._rules(owner)) for owner in owners)
        needed = {
            "the application runs": self.application.life == "Running",
            "its driver runs": driver.running and driver.owned,
            "the report is fresh": driver.seen_alive and driver.silent_s <= 30,
            "the report is its own": (report.pod, report.subscription) == (driver.uid, UID),
            "the driver has the lineage": applied is not None and applied.lineage == self.last.revision.lineage,
            f"it drains in {applied}, since {since}": applied is not None
            and since is not None
            and since <= applied.counter,
            f"it is drained: {topic}": topic is not None and topic.lag == 0 and not topic.open_transaction,
            f"it is quiet for {wanted}: {topic}": topic is not None and topic.quiet_s >= wanted,
        }
        return "; ".join(f"it is not so that {what}" for what, met in needed.items() if not met)

    def _rules(self, stream: str) -> list[Mapping[str, Any]]:
        """Return the drains that may count for a stream: the present one, or all earlier ones if it is gone."""
        present = self._present(stream)
        return [present.model_dump(by_alias=True)] if present is not None else self.rules.get(stream) or [{}]

    def _present(self, stream: str) -> Drain | None:
        """Return the `drain` of a stream that is there and valid, whether the subscription asks for it or not."""
        entry = self.catalog().streams.get(stream)
        return entry.drain if entry is not None and entry.content is not None else None

    def check_drained(self) -> None:
        """Check that no document reads for a stream what the stream does not name, where nothing of it drains."""
        catalog = self.catalog()
        for name, status in self.stands.items():
            conditions = {condition.type: condition.status for condition in status.conditions}
            entry = catalog.streams[name]
            if conditions["Drained"] != "True" or entry.content is None:
                continue
            # The condition of a stream does not cover clusters that another stream names.
            others = {peer: stream for peer, stream in (self.last.streams if self.last else {}).items() if peer != name}
            named = {*_physical({name: entry.content}), *_physical(others)}
            for what, document in self._documents():
                read = {name: document.streams[name]} if name in document.streams else {}
                left = set(_physical(read)) - named
                if left and not (what == "in force" and name in self.anew and self.in_force is not self.last):
                    raise BrokenPromiseError(f"nothing of {name} drains, and the document {what} has {left}")

    def check_released(self) -> None:
        """Check that no stream names a released cluster, and no document has it, for whatever stream."""
        named = {name: entry.content for name, entry in self.catalog().streams.items() if entry.content is not None}
        for name, status in self.stands.items():
            for seen in status.clusters:
                if seen.state != "Released":
                    continue
                for what, streams in (("streams", named), *((what, doc.streams) for what, doc in self._documents())):
                    if any(seen.bootstrap_servers == servers for servers, _ in _physical(streams)):
                        if what == "in force" and self.anew and self.in_force is not self.last:
                            continue
                        raise BrokenPromiseError(f"{name} has released {seen}, and {what} have it")

    def _documents(self) -> Iterator[tuple[str, Document]]:
        """Yield the documents that count: the newest one, and the one that the running driver uses."""
        runs = self.application is not None and self.application.life == "Running" and not self.forgotten
        for what, document in (("newest", self.last), ("in force", self.in_force if runs else None)):
            if document is not None:
                yield what, document

    def check_in_force(self) -> None:
        """Check that the running driver has what the stream names, where the newest form of it is in force."""
        runs = self.application is not None and self.application.life == "Running" and not self.forgotten
        if not runs or self.in_force is None or self.driver is None or not self.driver.running:
            return
        catalog = self.catalog()
        for name, status in self.stands.items():
            content = catalog.streams[name].content
            (condition,) = [candidate for candidate in status.conditions if candidate.type == "InForce"]
            current = condition.observed_generation == self.generations.get(name, 0)
            asked = status.in_force is not None and status.in_force.of > 0
            if condition.status != "True" or not current or not asked or content is None:
                continue
            there = {wanted: active(stream) for wanted, stream in self.in_force.streams.items() if wanted == name}
            if missing := set(_physical({name: content})) - set(_physical(there)):
                raise BrokenPromiseError(f"{name} is in force, and the driver has no {missing}")

    # -- the parts --------------------------------------------------------------------------------------------------

    def view(self) -> View:
        return replace(super().view(), fresh_lineage=f"fresh-{len(self.old)}")

    def _stand(self, stream: str, before: KafkaStreamStatus, generation: int) -> KafkaStreamStatus:
        lost = self.document is None or self.edited
        unknown = lost and not self.status.kept and self.status.rendered is not None
        reader = self.reader(self.application.life if self.application is not None else "Absent", unknown=unknown)
        drains = any(drain.stream == stream for drain in reader.status.draining)
        reads = reader.unknown or stream in reader.rendered or drains
        known = any(subscriber.name == "app" for subscriber in before.subscribers)
        readers, others = ([reader], []) if reads or (known and reader.is_behind) else ([], [reader])
        return self.stream_status(stream, readers, before, generation, others)


def _physical(streams: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for _, key, content in entries(streams):
        yield str(content["bootstrapServers"]), key.topic


def _agrees(conditions: Mapping[str, str], whose: str) -> None:
    if conditions.get("Stalled") == conditions.get("Reconciling") == "True":
        raise BrokenPromiseError(f"{whose} is stalled, and moves: {conditions}")
    if conditions.get("Ready") == "True" and "True" in (conditions.get("Stalled"), conditions.get("Reconciling")):
        if whose.startswith("stream") and conditions.get("Stalled") != "True":
            return
        raise BrokenPromiseError(f"conditions of {whose} contradict: {conditions}")
