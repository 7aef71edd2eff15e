"""An application without the operator: a person edits its document and deletes its driver, and it starts anew.

It is the comparison for the figures. Its own rows are not part of any proof.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import yaml

from demo.settings import TOPIC
from dynamic_kafka.contract.kubernetes_names import config_map_name
from tests.e2e.application import Application
from tests.e2e.figures import BY_HAND
from tests.e2e.install import NAMESPACE
from tests.e2e.shop import SECRET, Shop
from tests.e2e.story import Change
from tests.support.kube import APPLICATIONS, PODS
from tests.support.kube.api import Json
from tests.support.operator import CONFIG_MAPS

NAME = "orders-by-hand"
_DOCUMENT = config_map_name(NAME)


class ByHand:
    """The application, and what a person does with it."""

    def __init__(self, shop: Shop) -> None:
        """Make the folder of its results. Applies nothing."""
        self._shop = shop
        self._application = Application(NAME, BY_HAND, shop.data)

    def start(self, clusters: Sequence[str]) -> None:
        """Start it on these clusters, and wait until it delivers rows of each."""
        began = time.time()
        objects = yaml.safe_load_all(self._shop.stream.manifest(self._application))
        self._apply(self._document(clusters), *without_subscription(objects))
        for cluster in clusters:
            self._shop.wait(f"a record of {cluster} in {NAME}", partial(self._first_row, cluster, began))
        self._shop.mark(f"{NAME} reads {' and '.join(clusters)}")

    def change(self, clusters: Sequence[str], added: str) -> Change:
        """Edit the document, delete the driver, and wait for a record of the added cluster; return the times."""
        pod = self._shop.timeline.drivers[NAME][-1].name
        at = time.time()
        self._apply(self._document(clusters))
        self._shop.cluster.api.delete(PODS, pod, NAMESPACE)
        self._shop.wait(f"a record of {added} in {NAME}", partial(self._first_row, added, at))
        first = self._application.first_row(added, at)
        assert first is not None
        return Change(
            f"{added} is added by hand",
            NAME,
            at,
            apply_to_first_record=round(first - at, 2),
            restart_total=self._shop.timeline.restart_total(self._application, at),
            way=BY_HAND,
        )

    def delete(self) -> None:
        """Delete the application and its document."""
        api = self._shop.cluster.api
        api.delete(APPLICATIONS, NAME, NAMESPACE)
        for map_name in (_DOCUMENT, f"{NAME}-config"):
            api.delete(CONFIG_MAPS, map_name, NAMESPACE)
        self._shop.wait(f"the pods of {NAME} to go", lambda: not self._shop.objects.pods(self._application, "driver"))

    def _document(self, clusters: Sequence[str]) -> Json:
        content = {"streams.yaml": document(self._shop.stream.servers, clusters)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _DOCUMENT}, "data": content}

    def _apply(self, *objects: Json) -> None:
        text = yaml.safe_dump_all(objects)
        self._shop.cluster.kubectl("--namespace", NAMESPACE, "apply", "--filename=-", stdin=text)

    def _first_row(self, cluster: str, at: float) -> float | None:
        self._application.refresh()
        return self._application.first_row(cluster, at)


def document(servers: Mapping[str, str], clusters: Sequence[str]) -> str:
    """Return a metadata document as a person writes it.

    It begins with new records: an operator's application has read the older ones before the change that is measured.
    """
    entries: dict[str, Json] = {
        name: {"bootstrapServers": servers[name], "topics": [TOPIC], "startingOffsets": "latest"} for name in clusters
    }
    if "B" in entries:
        entries["B"]["properties"] = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
        entries["B"]["secretFolder"] = SECRET
    return yaml.safe_dump({"streams": {"orders": {"clusters": entries}}}, sort_keys=False)


def without_subscription(objects: Iterable[Json]) -> list[Json]:
    """Return the manifests of an application without its subscription."""
    return [manifest for manifest in objects if manifest["kind"] != "KafkaStreamSubscription"]
