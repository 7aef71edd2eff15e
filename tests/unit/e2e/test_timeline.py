"""The timeline notes what it sees in the cluster, and reports an error that ends its thread."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.metadata.kubernetes_names import REPORT_ANNOTATION
from tests.e2e.timeline import Timeline
from tests.support.kube import PODS, KubeError
from tests.support.kube.api import Api
from tests.support.waiting import wait_until

LABELS = {"sparkoperator.k8s.io/app-name": "orders"}


class FakeApi(Api):
    """An API server with one driver pod, which is away at first."""

    def __init__(self, **metadata: Any) -> None:
        self._pod = {"metadata": {"uid": "1", "name": "driver", **metadata}}
        self._away = True

    def list(self, resource: str, namespace: str | None = None, **selectors: str) -> list[dict[str, Any]]:
        if self._away:
            self._away = False
            raise KubeError("away")
        return [self._pod] if resource == PODS else []


def test_a_driver_is_seen_after_the_server_was_away() -> None:
    timeline = Timeline(FakeApi(labels=LABELS), "shop")
    timeline.start()

    wait_until(lambda: timeline.drivers["orders"] or None, "the driver")

    timeline.stop()
    timeline.check()


@pytest.mark.parametrize(
    ("metadata", "error"),
    [({"labels": LABELS, "annotations": {REPORT_ANNOTATION: "{"}}, "DriverReport"), ({"labels": {}}, "KeyError")],
    ids=["a report that does not parse", "a driver of no application"],
)
def test_an_error_of_the_thread_is_raised(metadata: dict[str, Any], error: str) -> None:
    timeline = Timeline(FakeApi(**metadata), "shop")
    timeline.start()

    with pytest.raises(RuntimeError, match=f"the timeline's thread ended: .*{error}"):
        wait_until(timeline.check, "the error")
