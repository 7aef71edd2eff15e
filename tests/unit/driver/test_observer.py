"""The observer without clusters: several failures as one error, and rejected metadata."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.driver import observer as module
from dynamic_kafka.driver.cluster_failures import with_choices
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.driver.observer import Observer
from dynamic_kafka.driver.status import NO_ANSWER_YET, REMIND_S, PlanStatus, Reminders
from dynamic_kafka.errors import (
    ClusterRefusedError,
    ClusterUnreachableError,
    DynamicKafkaError,
    ErrorCode,
    MetadataInvalidError,
    SecretError,
    SecretWithheldError,
)
from dynamic_kafka.metadata import LATEST, Discovered, Revision, SubscribedCluster, Subscription
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation

EAST = ClusterUnreachableError("east", "could not list offsets: timed out")
WEST = ClusterUnreachableError("west", "could not describe topics: timed out")
RUNNING = OffsetDocument("q", 3, "p", clusters={"west": ClusterProgress({"t": TopicProgress("s", {0: 5})})})
"""Progress of a query that has read west."""
RUNNING_EAST = replace(RUNNING, clusters={"east": RUNNING.clusters["west"]})
NORTH = SecretError("cluster 'north': the folder is not there")


def failed(*, required: Iterable[str] = (), never_read: Iterable[str] = ()) -> LiveObservation:
    """Return an observation without answers of the three clusters."""
    named = {c: SubscribedCluster({"t": "s"}, {"bootstrap.servers": f"{c}:9092"}) for c in ("east", "west", "north")}
    discovered = Discovered(Subscription(named, ("s",)), Revision("sha256:1"), 1)
    return LiveObservation(
        discovered.subscription, {}, discovered, {}, True, frozenset(required), frozenset(never_read)
    )


def failing(*errors: tuple[str, DynamicKafkaError]) -> DynamicKafkaError:
    """Return the error that ends the query under `fail`."""
    options = parse_options({"streamIds": "orders", "metadataPath": "streams.yaml"}, mode="streaming")
    with pytest.raises(DynamicKafkaError) as raised:
        Observer(options, PlanStatus()).note_failures(dict(errors), failed(required=[name for name, _ in errors]))
    return raised.value


def test_one_failure_is_raised_as_it_is() -> None:
    assert failing(("east", EAST)) is EAST


def test_all_clusters_that_fail_are_named_in_one_error() -> None:
    error = failing(("east", EAST), ("west", WEST), ("north", NORTH))
    assert type(error) is ClusterUnreachableError
    assert str(error).startswith(f"[CLUSTER_UNREACHABLE cluster=east] {EAST.message}. ")
    assert f"failed: west: {WEST.message}; north: " in str(error)
    assert str(error).endswith("; north: the folder is not there")


def test_a_cause_that_clusters_share_appears_once() -> None:
    text = "cluster '{}': property 'sasl.password': ${{file:/no/file}} cannot be read"
    secrets = [(cluster, SecretError(text.format(cluster))) for cluster in ("east", "west")]
    assert str(failing(*secrets)) == f"{text.format('east')}. The same holds for west"
    refused = (
        "could not list topics: the cluster refuses the login (sasl_ssl://{}: SASL error (after {}ms in state UP))"
    )
    logins = [
        (cluster, ClusterRefusedError(cluster, refused.format(at, took)))
        for cluster, at, took in (("east", "e:1/bootstrap", 5), ("west", "w:1/2", 12), ("south", "s:1/bootstrap", 7))
    ]
    shown = str(failing(("north", NORTH), *logins))
    assert shown.startswith(f"{NORTH}. ")
    assert shown.endswith(f"failed: east, west, south: {refused.format('e:1/bootstrap', 5)}")
    assert shown.count("SASL error") == 1


@pytest.mark.parametrize("policy", ["fail", "stall"])
def test_an_unreachable_cluster_is_named_with_servers_and_advice(policy: str) -> None:
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "stateLocation": "/s", "clusterFailurePolicy": policy}
    options = parse_options(given, mode="streaming")
    named = {name: SubscribedCluster({"t": "s"}, {"bootstrap.servers": f"{name}-1:9092"}) for name in ("east", "west")}

    text = str(with_choices(EAST, ["east"], options, Subscription(named, ("s",))))

    assert ErrorCode.find(text) == ErrorCode("CLUSTER_UNREACHABLE", "east")
    assert re.search(r"timed out\. east .*east-1:9092\..*wrong address", text) and "west" not in text
    assert re.search(r"remove .*metadata: .*offsets .*removedClusterRetention", text)
    assert ("clusterFailurePolicy=stall" in text) is (policy == "fail")


def test_a_single_cluster_has_no_metadata_to_be_taken_out_of() -> None:
    given = {"kafka.bootstrap.servers": "east-1:9092", "subscribe": "t"}
    options = parse_options(given, mode="streaming")
    named = {"east": SubscribedCluster({"t": "s"}, {"bootstrap.servers": "east-1:9092"})}
    text = str(with_choices(EAST, ["east"], options, Subscription(named, ("s",))))
    assert text.endswith("servers east-1:9092. Correct a wrong address, or bring the cluster back")


def test_an_error_of_another_kind_is_left_as_it_is() -> None:
    options = parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming")
    assert with_choices(NORTH, ["north"], options, Subscription({}, ("s",))) is NORTH


def test_the_first_failure_decides_what_the_application_does() -> None:
    error = failing(("north", NORTH), ("east", EAST))
    assert type(error) is SecretError
    assert "east: could not list offsets" in str(error)
    assert ErrorCode.find(str(error)) is None


def test_a_cluster_that_goes_on_being_stalled_is_mentioned_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    now = 0.0
    reminders = Reminders(lambda: now)
    stalled = {"west": "timed out"}
    for now in (0.0, REMIND_S - 1, REMIND_S, REMIND_S + 1):  # noqa: B007
        reminders.check(stalled)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("cluster west is still stalled, since 2") and line.endswith("Z: timed out")

    reminders.check({})
    now = 3 * REMIND_S
    reminders.check(stalled)  # a new failure, which the observer logs
    assert len(caplog.records) == 1


class Metadata:
    """A discovery with the metadata that a test sets."""

    def __init__(self) -> None:
        self.discovered = Discovered(Subscription({}, ()), Revision("sha256:1"), 1)
        self.rejected: str | None = None
        self.stopped = False
        self.inactive: frozenset[str] = frozenset()
        self.on_refresh: Callable[[], None] = lambda: None
        self.deferred_refusal: MetadataInvalidError | None = None

    def stop(self) -> None:
        self.stopped = True

    def current(self) -> Discovered:
        return self.discovered

    def refresh(self, ask: Collection[str] = ()) -> frozenset[str]:
        self.on_refresh()
        return frozenset(ask) & self.inactive

    def status(self) -> DiscoveryStatus:
        return DiscoveryStatus(self.discovered.revision, 0, None, self.rejected)

    def reject(self, rejected: Discovered, reason: str, *, keep: Discovered) -> None:
        self.discovered, self.rejected = keep, reason

    def name(self, *clusters: str, **more: Any) -> None:
        """Name these clusters from now on, each with a secret folder that does not exist."""
        named = {
            cluster: SubscribedCluster({"t": "s"}, {"bootstrap.servers": "x:1"}, **{"secret_folder": cluster, **more})
            for cluster in clusters
        }
        number = self.discovered.sequence + 1
        self.discovered = Discovered(Subscription(named, ("s",)), Revision(f"sha256:{number}"), number)


@pytest.fixture
def running() -> Iterator[tuple[Observer, Metadata]]:
    """An observer whose last good metadata names no clusters."""
    options = parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming")
    observer, metadata = Observer(options, PlanStatus()), Metadata()
    observer._discovery = cast(MetadataDiscovery, metadata)
    observer.adopt(observer.observe(RUNNING))
    yield observer, metadata
    observer._probes.close()


def test_a_new_cluster_without_its_secret_is_rejected_later(
    running: tuple[Observer, Metadata],
) -> None:
    observer, metadata = running
    good = metadata.discovered
    metadata.name("west")
    with pytest.raises(RevisionRejectedError, match="west") as rejected:
        observer.observe(RUNNING)
    assert observer.reject(str(rejected.value))
    assert metadata.discovered is good
    assert observer.observe(RUNNING).discovered is good


def test_a_lost_secret_of_a_cluster_in_use_is_its_failure(
    running: tuple[Observer, Metadata],
) -> None:
    observer, metadata = running
    metadata.name("west")
    observer._planned = metadata.discovered
    with pytest.raises(SecretError, match="west"):
        observer.observe(RUNNING)


def failing_west(observer: Observer, metadata: Metadata) -> LiveObservation:
    """Return an observation in which west must answer, and fails."""
    metadata.name("west")
    observer._planned = metadata.discovered
    return replace(
        failed(required=["west"]), discovered=metadata.discovered, subscription=metadata.discovered.subscription
    )


def test_an_inactive_cluster_does_not_end_the_query(
    running: tuple[Observer, Metadata], caplog: pytest.LogCaptureFixture
) -> None:
    observer, metadata = running
    observed = failing_west(observer, metadata)
    with pytest.raises(ClusterUnreachableError):
        observer.note_failures({"west": WEST}, observed)

    # When the metadata service says that the cluster is not active, although it names it
    metadata.inactive = frozenset({"west"})
    assert not observer.note_failures({"west": WEST}, observed)

    # Then the query goes on without it, and says so; another cluster still ends it
    assert re.search(r"west is stalled, .*no longer active", caplog.text)
    assert "could not describe topics" in observer.status.stalled["west"]
    both = replace(observed, required=frozenset({"west", "east"}))
    with pytest.raises(ClusterUnreachableError, match="cluster=east") as raised:
        observer.note_failures({"west": WEST, "east": EAST}, both)
    assert "west" not in str(raised.value)


def test_a_cluster_removed_while_a_plan_waits_is_left_at_once(running: tuple[Observer, Metadata]) -> None:
    # Given a plan that waits for a cluster, and fails for it
    observer, metadata = running
    metadata.name("west")
    observer._planned = metadata.discovered

    # When metadata names the cluster no longer
    metadata.inactive = frozenset({"west"})
    metadata.on_refresh = metadata.name

    # Then the plan observes the new metadata instead
    observed = observer.observe(RUNNING)
    assert (list(observed.subscription.clusters), observed.discovered) == ([], metadata.discovered)
    assert not observer.status.stalled


def test_a_run_that_looks_metadata_up_once_asks_nothing(running: tuple[Observer, Metadata]) -> None:
    observer, metadata = running
    observed = failing_west(observer, metadata)
    metadata.inactive = frozenset({"west"})
    observer.newest_metadata()
    observer.freeze()
    with pytest.raises(ClusterUnreachableError):
        observer.note_failures({"west": WEST}, observed)
    observer._frozen, observer.options = False, replace(observer.options, metadata_discovery_interval_ms=0)
    with pytest.raises(ClusterUnreachableError):
        observer.note_failures({"west": WEST}, observed)


class SilentProbe:
    """A probe whose cluster never answers."""

    def observe(self, request: object) -> Future[ClusterObservation]:
        return Future()


def test_a_new_cluster_is_unanswered_until_it_fails(
    running: tuple[Observer, Metadata], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a running query, and a new cluster that neither answers nor fails within a plan
    observer, metadata = running
    metadata.name("west", "new")
    asked: Future[ClusterObservation] = Future()
    probe = SimpleNamespace(observe=lambda request: asked, mark_used=lambda: None)
    monkeypatch.setattr(observer._probes, "for_subscription", lambda _: ({"new": probe}, {}))
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    observer.observe(RUNNING)

    # Then the summary does not pass it over, and does not call it never reached yet
    summary = observer.status.summary(RUNNING, finished=False)
    assert (summary.get("unanswered"), summary.get("neverReached")) == (["new"], None)

    # And when it has failed
    asked.set_exception(ClusterUnreachableError("new", "timed out"))
    observer.observe(RUNNING)
    summary = observer.status.summary(RUNNING, finished=False)
    assert (summary.get("unanswered"), summary.get("neverReached")) == (None, ["new"])


def test_a_plan_waits_longer_for_many_splits(
    running: tuple[Observer, Metadata], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a query that reads 25,000 splits of a cluster, 10,000 of another, and 5,000 of a third that hangs
    observer, metadata = running
    sizes = {"west": 25_000, "east": 10_000, "north": 5_000}
    clusters = {c: ClusterProgress({"t": TopicProgress("s", dict.fromkeys(range(n), 0))}) for c, n in sizes.items()}
    metadata.name(*sizes)
    probes = {cluster: SilentProbe() for cluster in sizes}
    monkeypatch.setattr(observer._probes, "for_subscription", lambda _: (probes, {}))
    observer.status.stalled["north"] = "timed out"
    waits: list[float | None] = []
    collect = module.collect_observations

    def collect_at_once(pending: dict[str, Future[ClusterObservation]], *, timeout_s: float | None) -> Any:
        waits.append(timeout_s)
        return collect(pending, timeout_s=0)

    monkeypatch.setattr(module, "collect_observations", collect_at_once)

    # When it plans
    observer.observe(OffsetDocument("q", 3, "p", clusters=clusters))

    # Then it waits 2 s and a second for each 10,000 splits, but not for the cluster that hangs
    assert max(wait for wait in waits if wait is not None) == pytest.approx(2.0 + 3.5)


@pytest.fixture
def stalling(tmp_path: Path) -> Iterator[tuple[Observer, Metadata]]:
    """An observer under `stall` whose options hold a secret, before its first plan."""
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "clusterFailurePolicy": "stall"}
    given |= {"stateLocation": str(tmp_path), "kafka.sasl.password": "${env:HOME}", "allowedServers": "east:9092"}
    observer, metadata = Observer(parse_options(given, mode="streaming"), PlanStatus()), Metadata()
    observer._discovery = cast(MetadataDiscovery, metadata)
    yield observer, metadata
    observer._probes.close()


def test_a_foreign_server_is_rejected_under_stall_too(stalling: tuple[Observer, Metadata]) -> None:
    observer, metadata = stalling
    observer.adopt(observer.observe(RUNNING))
    good = metadata.discovered
    metadata.name("west", secret_folder=None)
    with pytest.raises(RevisionRejectedError, match="x:1, which may not get") as rejected:
        observer.observe(RUNNING)
    assert observer.reject(str(rejected.value))
    assert observer.observe(RUNNING).discovered is good and not observer.status.stalled


def test_a_start_with_a_foreign_server_is_refused(stalling: tuple[Observer, Metadata]) -> None:
    observer, metadata = stalling
    metadata.name("west", secret_folder=None)
    for progress in (OffsetDocument(), RUNNING):  # the replay of a pending batch observes as in the second case
        with pytest.raises(SecretWithheldError, match="x:1"):
            observer.observe(progress)


def test_a_secret_that_is_not_mounted_stalls_its_cluster(stalling: tuple[Observer, Metadata]) -> None:
    observer, metadata = stalling
    observer.adopt(observer.observe(RUNNING))
    metadata.name("west")
    observer.observe(RUNNING)
    assert "secret folder" in observer.status.stalled["west"]


def test_metadata_that_bounds_the_run_is_looked_up_once(running: tuple[Observer, Metadata]) -> None:
    observer, metadata = running
    metadata.name("west", stopping_offsets=LATEST)
    first = metadata.discovered
    with pytest.raises(RevisionRejectedError):
        observer.observe(RUNNING)
    assert not metadata.stopped  # a query that runs already is bounded only if it began so

    with pytest.raises(RevisionRejectedError):
        observer.observe(OffsetDocument())
    assert metadata.stopped
    metadata.name("east")
    assert observer.newest_metadata() is first


def test_metadata_of_a_run_that_ends_by_itself_is_not_replaced(running: tuple[Observer, Metadata]) -> None:
    observer, metadata = running
    metadata.name("west")
    observer.newest_metadata()
    observer.freeze()
    with pytest.raises(RevisionRejectedError) as rejected:
        observer.observe(RUNNING)
    assert not observer.reject(str(rejected.value))


def test_a_missing_stream_is_refused_only_at_a_querys_start(running: tuple[Observer, Metadata]) -> None:
    observer, metadata = running
    metadata.deferred_refusal = MetadataInvalidError("the subscribed stream 'returns' does not exist")
    observer.observe(RUNNING)
    with pytest.raises(MetadataInvalidError, match="'returns' does not exist"):
        observer.observe(OffsetDocument())


def test_a_cluster_never_read_is_awaited_under_fail(caplog: pytest.LogCaptureFixture) -> None:
    # Given an observer under `fail`, and a cluster that the query has never read
    options = parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming")
    observer = Observer(options, PlanStatus())
    observed = failed(required=["east"], never_read=["west"])

    # When it has not answered, and then fails again and again
    for error in (ClusterUnreachableError("west", NO_ANSWER_YET), WEST, WEST):
        observer.note_failures({"west": error}, observed)

    # Then the log has its address and the cause once each, and the report names it
    first, second = [record.getMessage() for record in caplog.records]
    assert "cluster west was never reached" in first and NO_ANSWER_YET in first
    assert second.endswith("could not describe topics: timed out; west has the bootstrap servers west:9092")
    summary = observer.status.summary(RUNNING_EAST, finished=False)
    assert summary["neverReached"] == ["west"] and "west:9092" in summary["waiting"]["west"]

    # And a cluster that was read still ends the query
    with pytest.raises(ClusterUnreachableError, match="cluster=east"):
        observer.note_failures({"east": EAST, "west": WEST}, observed)


def test_a_new_cluster_without_its_secret_allows_a_restart() -> None:
    options = parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming")
    observer, metadata = Observer(options, PlanStatus()), Metadata()
    observer._discovery = cast(MetadataDiscovery, metadata)
    metadata.name("new")
    assert observer.observe(RUNNING).never_read == {"new"}
    assert "folder" in observer.status.stalled["new"] and observer.status.never_reached == {"new"}
    with pytest.raises(SecretError, match="new"):
        observer.observe(OffsetDocument())


def test_a_rejected_revision_gives_way_to_the_last_planned(running: tuple[Observer, Metadata]) -> None:
    # Given metadata with which the query plans although one of its clusters has never answered
    observer, metadata = running
    first = metadata.discovered
    metadata.name("new")
    observer._planned = second = metadata.discovered

    # When a third revision is rejected, and then the second one
    metadata.name("new", "other")
    observer.newest_metadata()
    assert observer.reject("a topic does not exist") and metadata.discovered is second
    observer.newest_metadata()
    assert observer.reject("another cluster answers") and metadata.discovered is first

    # Then there is no other left
    observer.newest_metadata()
    assert not observer.reject("the first one")


def test_a_rejected_revision_that_was_planned_gives_way(running: tuple[Observer, Metadata]) -> None:
    # Given a plan without an answer of the new cluster, and one of a further revision, still without it
    observer, metadata = running
    metadata.name("new")
    second = metadata.discovered
    observer.adopt(replace(failed(), subscription=second.subscription, discovered=second))
    metadata.name("new", "other")
    observer.adopt(replace(failed(), subscription=metadata.discovered.subscription, discovered=metadata.discovered))

    # When the further revision is rejected
    observer.newest_metadata()
    assert observer.reject("another cluster answers")

    # Then the one before is in force, not the last good one
    assert metadata.discovered is second
