"""Many objects: the operator settles, and writes nothing when it starts again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.operator.stage import STREAMS, SUBSCRIPTIONS, Stage, cluster, condition
from tests.integration.operator.test_resources import LIST_FORM, config_map
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.kube.front_door import Call, FrontDoor
from tests.support.operator import CONFIG_MAPS, CRD_FOLDER, OperatorProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.deep("many objects")

RESOURCES, TEXTS, SUBSCRIBERS = 200, 100, 100


@pytest.fixture
def door(kube: KubeCluster, namespace: str) -> Iterator[FrontDoor]:
    """Start the proxy through which the operator reaches the API server, and which counts its writes."""
    with FrontDoor(kube) as door:
        yield door


def test_many_objects_settle_and_a_new_operator_writes_nothing(
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
    kube: KubeCluster,
    stage: Stage,
    door: FrontDoor,
) -> None:
    kube.install_crds(CRD_FOLDER)
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(stage.stream, f"s{n}", cluster(f"c{n}")) for n in range(RESOURCES)]
        texts = {n: LIST_FORM.format(stream=f"t{n}", cluster=f"d{n}") for n in range(TEXTS)}
        made += [pool.submit(config_map, stage, f"flink{n}", streams_yaml=text) for n, text in texts.items()]
        for n in range(SUBSCRIBERS):
            ids = [f"s{n}", f"s{n + RESOURCES // 2}", f"t{n}"]
            content = {"applicationRef": {"name": f"app{n}"}, "streams": {"ids": ids}}
            made.append(pool.submit(stage.subscription, f"app{n}", **content))
        for future in made:
            future.result()
    operator = OperatorProcess(kube, stage.namespace, through=door.kubeconfig)
    with kept_open(request.config, request.node.stash, [operator]):
        began = time.monotonic()
        operator.start()
        # Listing everything repeatedly would cost more than the operator itself.
        door.wait(lambda calls: len(served(calls)) == SUBSCRIBERS, "every subscription to be served", timeout_s=180)
        wait_until(lambda: at_rest(stage), "every stream knows its subscriber", timeout_s=60)
        settled = time.monotonic() - began
        operator.stop()
        first = len(writes(door.settled()))
        before = versions(stage)
        operator.start()
        # A change of another object shows that the operator works; the other objects were in its queue before.
        stage.stream("other", cluster("north"))
        last = f"PUT {stage.namespace}/kafkastreams/other/status"
        door.wait(lambda calls: named(writes(calls)[first:])[-1:] == [last], "the new stream's status", timeout_s=120)
        after = named(writes(door.settled())[first:])
        for name, value in (("seconds", round(settled, 1)), ("writes", first), ("writes_again", len(after))):
            record_property(name, value)
        print(f"{RESOURCES + TEXTS} streams, {SUBSCRIBERS} subscriptions: {settled:.1f} s, {first} writes")
        assert after == [last]
        assert {key: value for key, value in versions(stage).items() if key != f"{STREAMS} other"} == before
        # Each document is written once, and each status a few times.
        assert first <= 2 * (RESOURCES + 3 * SUBSCRIBERS)


def writes(calls: list[Call]) -> list[Call]:
    """Return the operator's writes."""
    return [call for call in calls if call.method != "GET"]


def named(calls: list[Call]) -> list[str]:
    """Return calls in a readable form."""
    return [f"{call.method} {call.path.rpartition('/namespaces/')[2]}" for call in calls]


def served(calls: list[Call]) -> set[str]:
    """Return the subscriptions that have a status."""
    return {call.path for call in calls if call.method == "PUT" and "/kafkastreamsubscriptions/" in call.path}


def at_rest(stage: Stage) -> bool:
    """Return whether every subscription has its document, and every stream lists its subscriber as up to date."""
    ready = [condition(reader, "RolledOut").get("reason") for reader in stage.api.list(SUBSCRIPTIONS, stage.namespace)]
    streams = stage.api.list(STREAMS, stage.namespace)
    known = [(stream.get("status") or {}).get("subscribers") for stream in streams]
    # A stream's status is often written before the document of its subscriber, and then a second time.
    reached = [condition(stream, "Reconciling").get("reason") for stream in streams]
    return ready == ["Adopted"] * SUBSCRIBERS and all(known) and reached == ["Settled"] * RESOURCES


def versions(stage: Stage) -> dict[str, str]:
    """Return the resourceVersion of each object that the operator writes."""
    return {
        f"{resource} {kube_object['metadata']['name']}": kube_object["metadata"]["resourceVersion"]
        for resource in (STREAMS, SUBSCRIPTIONS, CONFIG_MAPS)
        for kube_object in stage.api.list(resource, stage.namespace)
    }
