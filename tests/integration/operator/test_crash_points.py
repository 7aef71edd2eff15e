"""An operator that dies right after each of its writes, on a real API server: decision 013.

No watching here: what is seen is listed before each look, as after a start. The writes are counted by the API that the
operator is given, which dies with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION, STREAMS_ANNOTATION
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.errors import ConflictError, NotFoundError
from kafkastream_operator.handlers.listings import WATCHED
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.kube.api import EVENTS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS, Api, Resource
from kafkastream_operator.kube.cache import Cache, Ref
from tests.integration.operator.stage import APPLICATIONS, DOCUMENT, Stage, cluster, condition
from tests.support import operator as kinds
from tests.support.kube import PODS, SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import OperatorProcess

pytestmark = pytest.mark.deep("a death at each write")


class DiedError(BaseException):
    """The death of the operator. It is no Exception, so that nothing in the operator catches it."""


class MortalApi(Api):
    """An API whose caller dies right after its n-th write, which is made."""

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


class MeddledApi(Api):
    """An API that lets something happen right before the first write of one kind, after the operator has decided."""

    def __init__(self, api: Api, method: str, kind: str, happens: Callable[[], None]) -> None:
        super().__init__(api._client)
        self._method, self._kind, self._happens = method, kind, happens
        self.refused: list[str] = []

    def _call(self, method: str, path: str, *arguments: Any, **more: Any) -> Any:
        if self._happens is not _nothing and method == self._method and f"/{self._kind}/" in path:
            happens, self._happens = self._happens, _nothing
            happens()
        try:
            return super()._call(method, path, *arguments, **more)
        except (ConflictError, NotFoundError) as error:
            if method != "GET":
                self.refused.append(f"{method} {path.rpartition('/namespaces/')[2].partition('/')[2]}: {error.status}")
            raise


def _nothing() -> None:
    """Let nothing more happen."""


def look(api: Api, namespace: str, later: timedelta = timedelta()) -> None:
    """Reconcile everything, as an operator that has just started, until nothing more is written.

    Args:
        later: how much later than now its clock is.
    """
    for _ in range(12):
        cache = Cache()
        for resource, labels in WATCHED:
            cache.apply_listing(resource, namespace, lambda r=resource, s=labels: api.list(r, namespace, labels=s))  # type: ignore[misc]
        changes: list[object] = []
        cache.on_change = lambda ref, before, after, seen=changes: seen.append(ref)  # type: ignore[misc]
        reconciler = Reconciler(api, cache, Timing(gather=timedelta()), lambda: datetime.now(UTC) + later)
        jobs: list[tuple[Resource, str]] = [(KUBEFLOW_APPLICATIONS, "app"), (SUBSCRIPTIONS, "app"), (STREAMS, "orders")]
        for resource, name in jobs:
            try:
                reconciler(Ref(resource, namespace, name))
            except (ConflictError, NotFoundError):
                changes.append(name)  # Spark has changed the object meanwhile: reconcile it again
        if not changes:
            return
    raise AssertionError("it never comes to rest")


@pytest.fixture
def prepared(stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator) -> Stage:
    """Start an application on east, and stop the operator: the test reconciles in its place."""
    stage.stream("orders", cluster("east"))
    stage.application()
    stage.subscription(updateStrategy="Restart")
    stage.wait_document({"east/orders": "Active"})
    stage.driver_runs()
    stage.wait_condition("ApplicationFound", "Running")
    operator.stop()
    return stage


def through(stage: Stage, change: Callable[[], None], later: timedelta = timedelta()) -> list[str]:
    """Make a change, and let the operator die after each write in turn, until one life is enough.

    Returns:
        All writes of the operator.
    """
    change()
    made: list[str] = []
    for _ in range(12):
        api = MortalApi(Api.connect(str(stage.kube.kubeconfig)), 1)
        try:
            look(api, stage.namespace, later)
        except DiedError:
            made += api.made
            continue
        return made
    raise AssertionError(f"twelve lives are not enough: {made}")


def test_a_restart_is_one_patch_after_a_death_at_any_write(prepared: Stage, spark_operator: SparkOperator) -> None:
    stage = prepared
    uid = stage.api.get(PODS, "app-driver", stage.namespace)["metadata"]["uid"]
    made = through(stage, lambda: stage.stream("orders", cluster("east"), cluster("west")))
    document = stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs(after=uid)
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    assert len(spark_operator.submissions("app")) == 2
    kinds = [write.split("/")[0] for write in made]
    assert {"PUT configmaps", "PUT kafkastreamsubscriptions", "PATCH sparkapplications"} <= set(kinds)
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("RUNNING"))
    look(Api.connect(str(stage.kube.kubeconfig)), stage.namespace)
    stage.wait_condition("RolledOut", "Confirmed")


def test_a_starting_drain_survives_a_death_after_any_write(prepared: Stage) -> None:
    stage = prepared
    through(stage, lambda: stage.stream("orders", cluster("west")))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    draining = stage.subscription_now()["status"]["draining"]
    assert [(drain["cluster"], drain["topic"]) for drain in draining] == [("east", "orders")]


def test_the_first_document_survives_a_death_after_any_write(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    operator.stop()
    stage.stream("orders", cluster("east"))
    stage.application()
    made = through(stage, lambda: stage.subscription(updateStrategy="Restart"))
    stage.wait_document({"east/orders": "Active"})
    assert not [write for write in made if "sparkapplications" in write]
    assert stage.application_now()["metadata"]["generation"] == 1


def test_annotated_subscriptions_survive_a_death_after_any_write(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    operator.stop()
    stage.stream("orders", cluster("east"))
    made = through(stage, lambda: stage.application(annotations={STREAMS_ANNOTATION: "orders"}))
    document = stage.wait_document({"east/orders": "Active"})
    assert made.count("PATCH kafkastreamsubscriptions/app") == 1
    ended = through(stage, stage.application)
    assert ended.count("DELETE kafkastreamsubscriptions/app") == 1
    assert not [write for write in ended if "configmaps" in write or "sparkapplications" in write]
    assert stage.document() == document  # the running driver keeps its document


@pytest.fixture
def orphan(stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator) -> Stage:
    """Delete an annotated application whose document drains, and stop the operator."""
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.application(annotations={STREAMS_ANNOTATION: "orders"})
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    stage.driver_runs()
    stage.stream("orders", cluster("west"))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    stage.deleted()
    stage.wait_condition("ApplicationFound", "Orphaned")
    operator.stop()
    return stage


RETENTION = timedelta(days=400)


def test_an_orphan_is_deleted_whole_after_a_death_at_any_write(orphan: Stage) -> None:
    stage = orphan
    made = through(stage, lambda: None, later=RETENTION)
    assert [write for write in made if write.startswith("DELETE")] == [
        f"DELETE configmaps/{DOCUMENT}",
        "DELETE kafkastreamsubscriptions/app",
    ]
    assert stage.document() is None
    assert stage.api.find(kinds.SUBSCRIPTIONS, "app", stage.namespace) is None
    assert not stage.api.get(kinds.STREAMS, "orders", stage.namespace)["status"].get("subscribers")


def test_a_returning_application_still_drains_after_its_orphan(orphan: Stage) -> None:
    stage = orphan
    api = MortalApi(Api.connect(str(stage.kube.kubeconfig)), 1)
    with pytest.raises(DiedError):
        look(api, stage.namespace, RETENTION)
    assert api.made == [f"DELETE configmaps/{DOCUMENT}"]
    through(stage, lambda: stage.application(annotations={STREAMS_ANNOTATION: "orders"}), later=RETENTION)
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})


def test_an_orphan_stays_if_its_application_returns_in_time(orphan: Stage) -> None:
    """The document is deleted by UID, even if the application is back; it is then restored from the status."""
    stage = orphan
    back = lambda: stage.application(annotations={STREAMS_ANNOTATION: "orders"})  # noqa: E731
    api = MeddledApi(Api.connect(str(stage.kube.kubeconfig)), "DELETE", "configmaps", back)
    look(api, stage.namespace, RETENTION)
    look(api, stage.namespace, RETENTION)
    document = stage.document()
    assert document is not None
    assert stage.api.get(kinds.SUBSCRIPTIONS, "app", stage.namespace)
    assert "west" in document.streams["orders"]["clusters"]


def _is(state: str) -> Callable[[Any], bool]:
    return lambda found: (found or {}).get("status", {}).get("applicationState", {}).get("state") == state


def completes(stage: Stage) -> None:
    set_phase(stage.api, stage.api.get(PODS, "app-driver", stage.namespace), "Succeeded")
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("COMPLETED"))


def is_suspended(stage: Stage) -> None:
    stage.application(suspend=True)
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("SUSPENDED"))


def is_made_again(stage: Stage) -> None:
    stage.deleted()
    stage.application(suspend=True)


@pytest.mark.parametrize(
    "happens", [completes, is_suspended, Stage.deleted, is_made_again], ids=lambda incident: incident.__name__
)
def test_an_application_is_left_alone_that_since_the_look(
    happens: Callable[[Stage], None], prepared: Stage, spark_operator: SparkOperator
) -> None:
    stage = prepared
    stage.stream("orders", cluster("east"), cluster("west"))
    api = MeddledApi(Api.connect(str(stage.kube.kubeconfig)), "PATCH", "sparkapplications", lambda: happens(stage))
    look(api, stage.namespace)
    # An object deleted at this moment may cause a conflict, or not be found.
    assert api.refused[0] in ("PATCH sparkapplications/app: 409", "PATCH sparkapplications/app: 404")
    application = stage.api.find(APPLICATIONS, "app", stage.namespace)
    assert (application is None) == (happens is Stage.deleted)
    assert REVISION_ANNOTATION not in str((application or {}).get("spec"))
    assert len(spark_operator.submissions("app")) == 1
    assert condition(stage.subscription_now(), "RolledOut")["reason"] == "NotRunning"
    assert stage.document() is not None
