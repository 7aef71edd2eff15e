"""A topic that has changed, with Kubeflow's real controller: stalled, and started again once the stream accepts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION
from dynamic_kafka.contract.termination_message import TerminationMessage
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.sameness.integrity import TopicChange, changed_topics, integrity_error
from tests.integration.operator.stage import APPLICATIONS, STREAMS, Stage, cluster
from tests.support.kube import PODS, SparkOperator
from tests.support.kube.errors import KubeError
from tests.support.kube.pods import set_phase
from tests.support.operator import OperatorProcess

OLD, NEW = "9tQ_vI2NQ-mPHLbQyJ0jXA", "AbCdEfGhIjKlMnOpQrStUQ"
CHANGE = TopicChange("east", "orders", str(saved_topic_id(OLD)), str(saved_topic_id(NEW)))


def _is(state: str) -> Callable[[Any], bool]:
    return lambda found: (found or {}).get("status", {}).get("applicationState", {}).get("state") == state


def ends(stage: Stage) -> None:
    """Let the driver's container end as the bundled application does."""
    words = str(integrity_error([CHANGE]))
    message = TerminationMessage(code=ExitCode.TOPIC_INTEGRITY, reason=words, changed_topics=changed_topics(words))
    pod = stage.api.get(PODS, "app-driver", stage.namespace)
    set_phase(stage.api, pod, "Failed", exit_code=ExitCode.TOPIC_INTEGRITY, written=message.text())
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("FAILED"))


@pytest.mark.parametrize("strategy", ["Auto", pytest.param("Restart", marks=pytest.mark.deep("a second strategy"))])
def test_naming_the_new_id_starts_the_failed_application(
    strategy: str, stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    # Given a driver that has ended because a topic was re-created
    stage.stream("orders", cluster("east"))
    stage.application(restartPolicy={"type": "Never"})
    stage.subscription(updateStrategy=strategy)
    stage.wait_document({"east/orders": "Active"})
    uid = stage.driver_runs()["metadata"]["uid"]
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("RUNNING"))
    ends(stage)

    # Then the subscription is stalled with both ids, and no other change starts anything
    stalled = stage.wait_condition("Stalled", "TopicIntegrity")
    assert stalled["status"] == "True"
    assert f"[TOPIC_CHANGED cluster=east topic=orders id={OLD} now={NEW}]" in stalled["message"]
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    stage.wait_condition("Stalled", "TopicIntegrity")
    assert len(spark_operator.submissions("app")) == 1

    # When the stream names the new id, then Kubeflow's operator runs the application again, once
    stage.stream("orders", cluster("east", topicIds={"orders": NEW}), cluster("west"))
    pod = stage.driver_runs(after=uid)
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("RUNNING"))
    stage.wait_condition("RolledOut", "Confirmed")
    assert stage.wait_condition("Stalled", "NotMounted")["status"] == "True"  # the stub's pod mounts nothing
    document = stage.document()
    assert document is not None
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    assert (document.min_reader, len(spark_operator.submissions("app"))) == (2, 2)


def test_the_api_server_refuses_what_is_no_topic_id(stage: Stage) -> None:
    for wrong in ("abc", "9tQ/vI2NQ+mPHLbQyJ0jXA", "9tQ_vI2NQ-mPHLbQyJ0jXB"):
        with pytest.raises(KubeError, match="topicIds"):
            stage.stream("orders", cluster("east", topicIds={"orders": wrong}))
    stage.stream("orders", cluster("east", topicIds={"orders": OLD}))
    stream = stage.api.get(STREAMS, "orders", stage.namespace)
    assert stream["spec"]["clusters"][0]["topicIds"] == {"orders": OLD}
