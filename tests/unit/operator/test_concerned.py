"""The objects that a change concerns: all of them, and not many more."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import METADATA_ROLE, ROLE_LABEL
from kafkastream_operator.handlers import watch
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS
from tests.unit.operator.fleet import RUNNING, Fleet
from tests.unit.operator.world import cluster

NAMES, JOBS, CLUSTERS = [f"s{n}" for n in range(8)], [f"app{n}" for n in range(12)], ["a", "b", "c", "d"]


LIST_FORM = """
- streamId: {stream}
  clusterMetadataList:
    - clusterId: a
      bootstrapServers: {servers}
      topics: [t]
"""


def change_stream(fleet: Fleet, source: random.Random) -> None:
    clusters = [any_cluster(name, source) for name in source.sample(CLUSTERS, source.randint(1, 3))]
    fleet.stream(source.choice(NAMES), clusters, policy=source.choice(["WhenDrained", "Immediate"]))


def change_subscription(fleet: Fleet, source: random.Random) -> None:
    asked: dict[str, Any] = {"ids": source.sample(NAMES, 2)}
    if source.random() < 0.2:
        asked = {"pattern": source.choice(["s[1-3]", "s.*", "none"])}
    fleet.subscription(source.choice(JOBS), **asked)


def report(fleet: Fleet, source: random.Random) -> None:
    for job in source.sample(JOBS, 6):
        fleet.reports(job, source.randrange(1000))


def change_application(fleet: Fleet, source: random.Random) -> None:
    job = source.choice(JOBS)
    if source.random() < 0.6:
        fleet.runs(job)
    else:
        state = source.choice(["FAILED", "COMPLETED", "SUBMITTED"])
        fleet.put(KUBEFLOW_APPLICATIONS, job, {"status": {"applicationState": {"state": state}}})


def delete(fleet: Fleet, source: random.Random) -> None:
    kind = source.choice([STREAMS, SUBSCRIPTIONS, KUBEFLOW_APPLICATIONS, CONFIG_MAPS])
    name = source.choice(NAMES if kind == STREAMS else JOBS)
    fleet.remove(kind, f"{name}-kafkastreams" if kind == CONFIG_MAPS else name)


def edit_document(fleet: Fleet, source: random.Random) -> None:
    name = f"{source.choice(JOBS)}-kafkastreams"
    if fleet.find(CONFIG_MAPS, name):
        fleet.put(CONFIG_MAPS, name, {"data": {"streams.json": "edited"}})


def change_user_map(fleet: Fleet, source: random.Random) -> None:
    if source.random() < 0.4:
        fleet.remove(CONFIG_MAPS, "flink")
    else:
        text = LIST_FORM.format(stream=source.choice(NAMES), servers=source.choice(["a:9092", "other:9092"]))
        fleet.put(CONFIG_MAPS, "flink", {"data": {"streams.yaml": text}}, labels={ROLE_LABEL: METADATA_ROLE})


CHANGES = {
    change_stream: 5,
    change_subscription: 3,
    report: 6,
    change_application: 2,
    delete: 1,
    edit_document: 1,
    change_user_map: 1,
}
"""The changes of a story, with their weights."""


def any_cluster(name: str, source: random.Random) -> dict[str, Any]:
    """Return a cluster, now and then with other servers than elsewhere, or renamed."""
    more = {"bootstrapServers": f"{name}-new:9092"} if source.random() < 0.1 else {}
    more |= {"renamedFrom": "old"} if source.random() < 0.03 else {}
    return cluster(name, *source.sample(["t", "u", "v"], source.randint(1, 2)), **more)


@pytest.mark.parametrize("seed", range(25))
def test_a_look_at_everything_finds_nothing_more_to_do(seed: int) -> None:
    source, fleet = random.Random(seed), Fleet()
    for job in JOBS:
        fleet.runs(job)
    for _ in range(60):
        story = source.choices([*CHANGES], [*CHANGES.values()], k=source.choice([1, 1, 1, 3]))
        for change in story:
            change(fleet, source)
        fleet.settle()
        before = len(fleet.writes)
        fleet.wake_all()
        fleet.settle()
        assert fleet.writes[before:] == [], f"after {[change.__name__ for change in story]}"


def looks_after(fleet: Fleet, clusters: list[dict[str, Any]]) -> int:
    fleet.stream("s0", clusters)
    return fleet.settle()


@pytest.mark.parametrize("streams", [50, 500])
def test_the_looks_of_a_change_do_not_grow_with_the_fleet(streams: int) -> None:
    fleet = Fleet()
    for number in range(streams):
        fleet.stream(f"s{number}", [cluster("east"), cluster("west")])
    for number in range(streams // 10):
        fleet.subscription(f"app{number}", ids=[f"s{nth}" for nth in range(number * 10, number * 10 + 10)])
        fleet.runs(f"app{number}")
    fleet.settle()
    for number in range(streams // 10):
        fleet.reports(f"app{number}")
    fleet.settle()

    fleet.put(KUBEFLOW_APPLICATIONS, "batch", {"status": RUNNING})
    assert fleet.settle() == 1
    fleet.reports("app0", beat=1)
    assert fleet.settle() == 1
    # The stream, its job with its ten streams, and again after each of their writes.
    assert looks_after(fleet, [cluster("east", "more"), cluster("west")]) <= 40
    assert looks_after(fleet, [cluster("east")]) <= 40


def verdict(fleet: Fleet, stream: str, cluster_id: str) -> tuple[str, list[str]]:
    found = next(entry for entry in fleet.find(STREAMS, stream)["status"]["clusters"] if entry["id"] == cluster_id)
    return found["state"], found["readers"]


def test_a_reader_that_was_never_listed_holds_a_cluster() -> None:
    # Given a cluster that one stream has given up, and nine jobs read, each for a stream of its own
    fleet = Fleet()
    for number in range(9):
        fleet.stream(f"s{number}", [cluster("east"), cluster("west")], policy="Immediate")
        fleet.subscription(f"app{number}", ids=[f"s{number}"])
        fleet.runs(f"app{number}")
    fleet.stream("one", [cluster("east"), cluster("west")])
    fleet.settle()
    for number in range(9):
        fleet.reports(f"app{number}")
    fleet.stream("one", [cluster("west")])
    fleet.settle()
    assert verdict(fleet, "one", "east") == ("InUse", [f"app{n}" for n in range(8)])
    # When all give it up one after the other, and the driver of the one that is not listed is slow
    for number in range(8, -1, -1):
        fleet.stream(f"s{number}", [cluster("west")], policy="Immediate")
        fleet.settle()
        if number < 8:
            fleet.reports(f"app{number}")
            fleet.settle()
    # Then the cluster waits for it
    assert verdict(fleet, "one", "east") == ("InUse", ["app8"])
    fleet.reports("app8")
    fleet.settle()
    assert verdict(fleet, "one", "east") == ("Released", [])


def test_a_stream_that_becomes_valid_wakes_its_neighbours() -> None:
    fleet = Fleet()
    fleet.stream("one", [cluster("east"), cluster("west", properties={"no such": "property"})])
    fleet.stream("two", [cluster("east", bootstrapServers="other:9092")])
    fleet.settle()
    fleet.stream("one", [cluster("east"), cluster("west")])
    fleet.settle()
    assert {flag["reason"] for flag in fleet.find(STREAMS, "two")["status"]["conditions"]} >= {"Conflict"}


def test_an_odd_application_stops_nobody() -> None:
    fleet = Fleet()
    fleet.stream("one", [cluster("east")])
    fleet.subscription("app0", ids=["one"])
    fleet.runs("app0")
    fleet.settle()
    fleet.put(KUBEFLOW_APPLICATIONS, "batch", {"status": {"applicationState": None, "driverInfo": []}})
    fleet.stream("one", [cluster("east"), cluster("west")])
    fleet.settle()
    assert [entry["id"] for entry in fleet.find(STREAMS, "one")["status"]["clusters"]] == ["east", "west"]


def test_a_change_that_cannot_be_read_wakes_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    fleet.stream("one", [cluster("east")])
    fleet.subscription("app0", ids=["one"])
    fleet.settle()
    monkeypatch.setattr(watch, "concerned", lambda *_: {}["odd"])
    fleet.stream("two", [cluster("east")])
    assert {ref.name for ref in fleet.operator.queue._waiting} == {"one", "two", "app0"}


def test_a_resync_looks_at_what_no_change_has_woken() -> None:
    fleet = Fleet()
    fleet.stream("one", [cluster("east")])
    fleet.settle()
    now_s = time.monotonic()
    assert fleet.operator._look_at_everything(now_s) == now_s
    assert fleet.settle() == 0
    assert fleet.operator._look_at_everything(now_s - watch.RESYNC_S) >= now_s
    assert fleet.settle() == 1
