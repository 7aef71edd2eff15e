"""An application that checks its topic, with a stream of its own. Its manifests come from Git, as the shop's do."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import yaml

from demo.proof import Split, Verdict, prove
from tests.e2e.application import Application
from tests.e2e.install import NAMESPACE
from tests.e2e.shop import Shop
from tests.e2e.stream import QUIET_S
from tests.support.kube import APPLICATIONS
from tests.support.operator import SUBSCRIPTIONS
from tests.support.resources import condition

NAME = "orders-checked"
STREAM = TOPIC = "checked"
_CLUSTER = "C"


class Checked:
    """The application, its topic, and the records of the topic.

    Attributes:
        application: one that is not started again when it fails.
    """

    def __init__(self, shop: Shop) -> None:
        """Make the folder of its results. Applies nothing."""
        self._shop = shop
        self._broker = shop.brokers[_CLUSTER]
        self._sent: dict[Split, dict[int, int]] = defaultdict(dict)
        self.application = Application(NAME, "Restart", shop.data)
        self.application.streams = [STREAM]

    def create_topic(self) -> str:
        """Create the topic, whose broker runs then, and return its id."""
        if not self._broker.broker.running:
            self._broker.start().wait_ready()
        self._broker.create_topic(TOPIC)
        return self._broker.topic_id(TOPIC)

    def delete_topic(self) -> None:
        """Delete the topic with all records."""
        self._broker.delete_topic(TOPIC)

    def produce(self, count: int) -> None:
        """Send records, whose sequence goes on although the offsets of another topic begin at 0 again."""
        sent = self._sent[_CLUSTER, 0]
        numbers = range(len(sent), len(sent) + count)
        first = self._broker.end_offsets(TOPIC)[0]
        values = [json.dumps({"cluster": _CLUSTER, "partition": 0, "sequence": number}) for number in numbers]
        self._broker.produce(TOPIC, values, partition=0)
        sent.update((number, first + place) for place, number in enumerate(numbers))

    def commit(self, subject: str, pin: str = "") -> float:
        """Commit stream and application; `pin` is the id that the topic must have."""
        git = self._shop.stream
        manifests = checking(git.manifest(self.application))
        git.more = {f"{STREAM}.yaml": stream(git.servers[_CLUSTER], pin), f"{NAME}.yaml": manifests}
        return git.commit_again(subject)

    def delete(self) -> None:
        """Commit a state without them, and wait until the driver is gone."""
        self._shop.stream.more = {}
        self._shop.stream.commit_again(f"Take {NAME} out")
        self._shop.wait(f"{NAME} to go", lambda: self._find(APPLICATIONS) is None)
        self._shop.wait(f"the driver of {NAME} to go", lambda: not self._shop.objects.pods(self.application, "driver"))

    def has_all(self) -> bool:
        """Return whether the sink has as many rows as there are records."""
        self.application.refresh()
        return len(self.application.rows) >= sum(map(len, self._sent.values()))

    def verdict(self) -> Verdict:
        """Compare all records with all rows."""
        self.application.refresh()
        return prove(self._sent, self.application.rows)

    def state(self) -> str:
        """Return the state of the SparkApplication; empty before it has one."""
        application = self._find(APPLICATIONS) or {}
        return str(application.get("status", {}).get("applicationState", {}).get("state", ""))

    def stalled(self) -> dict[str, Any]:
        """Return the condition `Stalled` of the subscription; empty before there is one."""
        subscription = self._find(SUBSCRIPTIONS)
        return condition(subscription, "Stalled") if subscription is not None else {}

    def drivers(self) -> int:
        """Return how many driver pods there have been."""
        return len(self._shop.timeline.drivers[NAME])

    def _find(self, resource: str) -> dict[str, Any] | None:
        return self._shop.cluster.api.find(resource, NAME, NAMESPACE)


def checking(manifests: str) -> str:
    """Return an application's manifests with the check of topics, and without another start when it fails."""
    objects = list(yaml.safe_load_all(manifests))
    for manifest in objects:
        if manifest["kind"] == "SparkApplication":
            manifest["spec"]["restartPolicy"] = {"type": "Never"}
            manifest["spec"]["executor"]["instances"] = 1
        elif manifest["kind"] == "ConfigMap":
            content = yaml.safe_load(manifest["data"]["app.yaml"])
            content["options"] |= {"topicIntegrityCheck": "true", "failOnDataLoss": "false"}
            content["sinks"] = content["sinks"][:1]
            manifest["data"]["app.yaml"] = yaml.safe_dump(content, sort_keys=False)
    return yaml.safe_dump_all(objects, sort_keys=False)


def stream(servers: str, pin: str) -> str:
    """Return the stream as it is in Git; `pin` is the id that its topic must have, empty for any."""
    cluster: dict[str, Any] = {"id": _CLUSTER, "bootstrapServers": servers, "topics": [TOPIC]}
    if pin:
        cluster["topicIds"] = {TOPIC: pin}
    return yaml.safe_dump(
        {
            "apiVersion": "kafkastream.dev/v1alpha1",
            "kind": "KafkaStream",
            "metadata": {"name": STREAM},
            "spec": {"clusters": [cluster], "drain": {"quietPeriod": f"{QUIET_S:.0f}s"}},
        }
    )
