"""An operator that dies right after each of its writes, on a real API server: `docs/decisions/013-operator-writes.md`.

No watching here: what is seen is listed before each look, as after a start. The writes are counted by the API that the
operator is given, which dies with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dynamic_kafka.metadata.contract import REVISION_ANNOTATION
from kafkastream_operator.core.rollout import Timing
from kafkastream_operator.errors import ConflictError
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.handlers.watch import WATCHED
from kafkastream_operator.kube.api import EVENTS, STREAMS, SUBSCRIPTIONS, Api, Resource
from kafkastream_operator.kube.cache import Cache, Ref
from tests.integration.operator.stage import Stage, cluster
from tests.support.kube import PODS, SparkOperator
from tests.support.operator import OperatorProcess


class DiedError(BaseException):
    """Not an Exception: nothing in the operator may catch its own death."""


class MortalApi(Api):
    """Dies right after its n-th write, which is made."""

    def __init__(self, api: Api, writes: int) -> None:
        super().__init__(api._client)
        self.left = writes
        self.made: list[str] = []

    def _call(self, method: str, path: str, *arguments: Any, **more: Any) -> Any:
        answer = super()._call(method, path, *arguments, **more)
        if method != "GET" and EVENTS.plural not in path:
            self.made.append(f"{method} {path.rpartition('/namespaces/')[2].partition('/')[2]}")
            self.left -= 1
            if self.left == 0:
                raise DiedError
        return answer


def look(api: Api, namespace: str) -> None:
    """One look of an operator that has just started, at everything, until it writes nothing more."""
    for _ in range(12):
        cache = Cache()
        for resource, labels in WATCHED:
            cache.take_listing(resource, namespace, lambda r=resource, s=labels: api.list(r, namespace, labels=s))  # type: ignore[misc]
        changes: list[object] = []
        cache.on_change = lambda ref, found, seen=changes: seen.append(ref)  # type: ignore[misc]
        reconciler = Reconciler(api, cache, Timing())
        jobs: list[tuple[Resource, str]] = [(SUBSCRIPTIONS, "app"), (STREAMS, "orders")]
        for resource, name in jobs:
            try:
                reconciler(Ref(resource, namespace, name))
            except ConflictError:
                changes.append(name)  # Spark has changed it meanwhile: the next look sees that
        if not changes:
            return
    raise AssertionError("it never comes to rest")


@pytest.fixture
def prepared(stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator) -> Stage:
    """An application that runs on east, adopted; the operator itself is stopped: the test looks in its place."""
    stage.stream("orders", cluster("east"))
    stage.application()
    stage.subscription(updateStrategy="Restart")
    stage.wait_document({"east/orders": "Active"})
    stage.driver_runs()
    stage.wait_condition("ApplicationFound", "Running")
    operator.stop()
    return stage


def through(stage: Stage, change: Callable[[], None]) -> list[str]:
    """Make a change, and let the operator die after each write in turn, until one life is enough. All its writes."""
    change()
    made: list[str] = []
    for _ in range(12):
        api = MortalApi(Api.connect(str(stage.kube.kubeconfig)), 1)
        try:
            look(api, stage.namespace)
        except DiedError:
            made += api.made
            continue
        return made
    raise AssertionError(f"twelve lives are not enough: {made}")


def test_a_restart_is_one_patch_whatever_write_it_dies_after(prepared: Stage, spark_operator: SparkOperator) -> None:
    stage = prepared
    uid = stage.api.get(PODS, "app-driver", stage.namespace)["metadata"]["uid"]
    made = through(stage, lambda: stage.stream("orders", cluster("east"), cluster("west")))
    document = stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs(after=uid)
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == str(document.version)
    assert len(spark_operator.submissions("app")) == 2
    kinds = [each.split("/")[0] for each in made]
    assert {"PUT configmaps", "PUT kafkastreamsubscriptions", "PATCH sparkapplications"} <= set(kinds)
    look(Api.connect(str(stage.kube.kubeconfig)), stage.namespace)
    stage.wait_condition("RolledOut", "Confirmed")


def test_a_drain_that_begins_forgets_nothing_whatever_write_it_dies_after(prepared: Stage) -> None:
    stage = prepared
    through(stage, lambda: stage.stream("orders", cluster("west")))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    found = stage.subscription_now()["status"]["draining"]
    assert [(each["cluster"], each["topic"]) for each in found] == [("east", "orders")]


def test_the_first_document_is_adopted_whatever_write_it_dies_after(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    operator.stop()
    stage.stream("orders", cluster("east"))
    stage.application()
    made = through(stage, lambda: stage.subscription(updateStrategy="Restart"))
    stage.wait_document({"east/orders": "Active"})
    assert not [each for each in made if "sparkapplications" in each]
    assert stage.application_now()["metadata"]["generation"] == 1
