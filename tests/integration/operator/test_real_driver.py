"""The whole chain, with nothing played: real brokers, our operator, Kubeflow's, and the bundled application as driver.

Only the kubelet is a stand-in. Both tests share one application: its starts are what takes long.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, RELEASE_ANNOTATION, REVISION_ANNOTATION
from tests.integration.operator.stage import DOCUMENT, SUBSCRIPTIONS, Stage, condition
from tests.support.fixtures import Brokers, kept_open
from tests.support.kafka import KafkaCluster
from tests.support.kube import KubeCluster, LocalNode, SparkOperator
from tests.support.kube.app_container import command
from tests.support.operator import CONFIG_MAPS, OperatorProcess
from tests.support.ports import reserve_ports
from tests.support.streams import assert_rows, parquet_rows, produce
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("removals and mistakes under a real driver")

pytestmark = [pytest.mark.timeout(600)]

TOPIC = "real-driver"
POD = "app-driver"
APP = {
    "name": "app",
    "metadata": MOUNT_PATH,
    "streams": {"pattern": ".*"},
    "options": {"startingOffsets": "earliest", "metadataDiscoveryInterval": "1s"},
    "trigger": {"interval": "200ms"},
    "checkpoint": "/data/checkpoints",
    "sinks": [{"name": "lake", "type": "parquet", "options": {"path": "/data/lake"}}],
}
MOUNTS = {"kafkastreams": MOUNT_PATH, "app": "/etc/app", "data": "/data"}
PATIENCE_S = 180.0


class Job(NamedTuple):
    """A running application, with its brokers, its operators and its driver."""

    stage: Stage
    node: LocalNode
    submitted: SparkOperator
    brokers: Brokers
    lake: Path
    wanted: Counter[Any]

    def stream(self, *names: str) -> None:
        """Apply the stream on these clusters."""
        clusters = [{"id": name, "bootstrapServers": self.at(name).bootstrap, "topics": [TOPIC]} for name in names]
        self.stage.stream("orders", *clusters, quietPeriod="3s")

    def at(self, name: str) -> KafkaCluster:
        """Return the cluster with that id."""
        cluster: KafkaCluster = getattr(self.brokers, name)
        return cluster

    def produce(self, name: str, count: int) -> None:
        """Produce records that have to arrive."""
        self.wanted.update(produce(name, self.at(name), TOPIC, count))

    def wait_rows(self) -> None:
        """Wait until as many rows have arrived as were produced, and check that they are the same."""
        wait_until(lambda: parquet_rows(self.lake).total() >= self.wanted.total(), "the rows", timeout_s=PATIENCE_S)
        assert_rows(parquet_rows(self.lake), self.wanted)


@pytest.fixture(scope="module")
def job(
    request: pytest.FixtureRequest, kube: KubeCluster, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Job]:
    namespace = kube.new_namespace()
    data = tmp_path_factory.mktemp("data")
    operator = OperatorProcess(kube, namespace, ["--between-restarts", "2s"])
    submitted = SparkOperator(kube, namespace)
    node = LocalNode(kube, namespace, command)
    for broker in (brokers.a, brokers.b):
        broker.create_topic(TOPIC)
    with kept_open(request.config, request.config.stash, [node, submitted, operator]):
        operator.start()
        submitted.start()
        node.start()
        made = Job(Stage(kube, namespace), node, submitted, brokers, data / "lake", Counter())
        made.produce("a", 20)
        apply(made, kube, namespace, data)
        made.wait_rows()
        yield made
    kube.delete_namespace(namespace)


def apply(job: Job, kube: KubeCluster, namespace: str, data: Path) -> None:
    """Apply the objects that a user has in Git."""
    # These are the rights that `manifest` prints.
    kube.service_account(namespace, "driver", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}])
    kube.api.create(CONFIG_MAPS, {"metadata": {"name": "app"}, "data": {"app.yaml": yaml.safe_dump(APP)}}, namespace)
    job.stream("a")
    job.stage.subscription(updateStrategy="Restart")
    mounts = [{"name": name, "mountPath": path} for name, path in MOUNTS.items()]
    volumes = [
        {"name": "kafkastreams", "configMap": {"name": DOCUMENT}},
        {"name": "app", "configMap": {"name": "app"}},
        {"name": "data", "hostPath": {"path": str(data)}},
    ]
    container = {"name": "spark-kubernetes-driver", "volumeMounts": mounts}
    template = {"spec": {"containers": [container], "volumes": volumes}}
    job.stage.application(
        arguments=["run", "/etc/app/app.yaml"],
        driver={"cores": 1, "memory": "512m", "serviceAccount": "driver", "template": template},
    )


def test_a_second_cluster_takes_one_confirmed_restart(job: Job) -> None:
    stage = job.stage
    before, submissions = stage.document(), len(job.submitted.submissions("app"))
    job.produce("b", 30)

    job.stream("a", "b")

    job.wait_rows()
    stage.wait_condition("RolledOut", "Confirmed")
    stage.wait_condition("Mounted", "Mounted", timeout=60)
    document = stage.document()
    assert before is not None and document is not None
    assert document.revision.counter == before.revision.counter + 1
    assert len(job.submitted.submissions("app")) == submissions + 1
    assert [pod["metadata"].get("annotations", {}).get(REVISION_ANNOTATION) for pod in job.node.started] == [
        None,
        document.revision.token,
    ]
    rollout = stage.subscription_now()["status"]["rollout"]
    assert (rollout["method"], rollout["phase"], rollout["attempts"]) == ("Restart", "Confirmed", 1)
    # The first driver stopped in order.
    assert '"reason": "SIGTERM"' in job.node.output(POD)


@DEEP
def test_a_cluster_removed_too_early_is_read_until_drained(job: Job) -> None:
    stage = job.stage
    stage.subscription(updateStrategy="Reload")
    job.stream("a", "b")
    job.produce("b", 10)
    job.wait_rows()
    lives = len(job.node.started)
    job.produce("a", 500)

    job.stream("b")

    stage.wait_document({f"a/{TOPIC}": "Draining", f"b/{TOPIC}": "Active"})

    # The producers still write to the removed cluster: it stays, and `Drained` names the reason.
    def is_blocked(subscription: Any) -> bool:
        job.produce("a", 50)
        drained = condition(subscription, "Drained")
        return drained.get("reason") == "Draining" and any(
            why in drained["message"] for why in ("not committed all", "quiet")
        )

    wait_until(lambda: is_blocked(stage.subscription_now()), "the blocker", timeout_s=PATIENCE_S)
    stage.wait_verdict("a", "Draining", "waiting for app (Running")
    assert f"a/{TOPIC}" in condition(stage.subscription_now(), "Drained")["message"]
    job.produce("a", 20)

    stage.wait_verdict("a", "Released", timeout=PATIENCE_S)
    assert f"a/{TOPIC}" not in json.dumps(stage.subscription_now()["status"].get("draining", []))
    stage.wait_document({f"b/{TOPIC}": "Active"})
    which = f"a/{TOPIC} leaves the document: drained (cluster.id {job.brokers.a.kafka_id})"
    wait_until(lambda: which in stage.notes("Released"), "the event that says which Kafka cluster was drained")
    # All records of the removed cluster were read, each once.
    assert_rows(parquet_rows(job.lake), job.wanted)
    job.produce("b", 10)
    job.wait_rows()
    assert len(job.node.started) == lives, "a drain restarts nothing"
    stage.api.wait(
        SUBSCRIPTIONS,
        "app",
        stage.namespace,
        until=lambda app_subscription: condition(app_subscription, "RolledOut").get("reason") == "Confirmed",
        timeout=60,
    )


@DEEP
def test_a_mistyped_cluster_is_a_condition_and_drains_at_once(job: Job) -> None:
    stage = job.stage
    stage.subscription(updateStrategy="Reload")
    job.stream("b")
    stage.wait_condition("ClusterNeverReached", "AllReached", timeout=PATIENCE_S)
    lives, before = len(job.node.started), stage.subscription_now()["status"]["rendered"]["counter"]
    [nobody] = reserve_ports(1)
    mistyped = {"id": "west", "bootstrapServers": f"127.0.0.1:{nobody}", "topics": [TOPIC]}
    b = {"id": "b", "bootstrapServers": job.brokers.b.bootstrap, "topics": [TOPIC]}

    # When a cluster is added at an address where nothing answers
    stage.stream("orders", b, mistyped, quietPeriod="1d")

    # Then no condition calls it reached when the driver has the revision, and has not tried the cluster yet
    in_force = stage.api.wait(
        SUBSCRIPTIONS,
        "app",
        stage.namespace,
        until=lambda reader: (
            reader["status"]["rendered"]["counter"] > before and condition(reader, "RolledOut")["reason"] == "Confirmed"
        ),
        timeout=PATIENCE_S,
    )
    assert condition(in_force, "ClusterNeverReached")["reason"] in ("AwaitsAnswer", "NeverReached")

    # And the driver reads the others, and a condition has address and cause
    never_reached = stage.wait_condition("ClusterNeverReached", "NeverReached", timeout=PATIENCE_S)
    assert re.search(rf"west has [a-z ]+ 127\.0\.0\.1:{nobody}\b", never_reached["message"])
    assert "CLUSTER_UNREACHABLE" in never_reached["message"]
    stage.wait_condition("RolledOut", "Confirmed")
    job.produce("b", 10)
    job.wait_rows()
    wait_until(lambda: stage.notes("NeverReached"), "the event")

    # And when it is taken out again, it stays, since nobody has seen that it is empty, until a person lets go of it
    stage.stream("orders", b, quietPeriod="1d")
    stage.wait_verdict("west", "Draining", "its cluster was never reached", timeout=PATIENCE_S)
    released = {"metadata": {"annotations": {RELEASE_ANNOTATION: "west"}}}
    stage.api.patch(SUBSCRIPTIONS, "app", stage.namespace, released)
    stage.wait_document({f"b/{TOPIC}": "Active"}, timeout=PATIENCE_S)
    stage.wait_condition("ClusterNeverReached", "AllReached", timeout=PATIENCE_S)
    job.produce("b", 10)
    job.wait_rows()
    assert len(job.node.started) == lives, "nothing was restarted"


@DEEP
def test_a_mistyped_topic_can_be_taken_back(job: Job) -> None:
    stage = job.stage
    stage.subscription(updateStrategy="Reload")
    job.stream("b")
    stage.wait_document({f"b/{TOPIC}": "Active"}, timeout=PATIENCE_S)
    b = {"id": "b", "bootstrapServers": job.brokers.b.bootstrap, "topics": [TOPIC]}
    c = {"id": "c", "bootstrapServers": job.brokers.c.bootstrap, "topics": ["mistyped"]}

    # When the driver rejects a revision, since a topic of it does not exist
    stage.stream("orders", b, c, quietPeriod="3s")
    rolled_out = stage.wait_condition("RolledOut", "Rejected", timeout=PATIENCE_S)
    assert "has no topic 'mistyped'" in rolled_out["message"]

    # And the change is taken back
    stage.stream("orders", b, quietPeriod="3s")

    # Then the next revision is in force, and nothing of the change is left
    stage.wait_document({f"b/{TOPIC}": "Active"}, timeout=PATIENCE_S)
    stage.wait_condition("RolledOut", "Confirmed", timeout=PATIENCE_S)
    job.produce("b", 10)
    job.wait_rows()
