"""The metrics of a running operator, as Prometheus scrapes them while a stream is applied, changed and deleted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest
import urllib3

from kafkastream_operator.core.metrics import PREFIX
from tests.integration.operator.stage import DOCUMENT, STREAMS, SUBSCRIPTIONS, Stage, cluster
from tests.support.kube import SparkOperator
from tests.support.operator import CONFIG_MAPS, OperatorProcess
from tests.support.places import ROOT
from tests.support.ports import reserve_ports
from tests.support.prometheus import Samples, samples
from tests.support.waiting import wait_until

URL = f"http://127.0.0.1:{reserve_ports(1)[0]}/metrics"
RUNBOOKS = (ROOT / "docs" / "how-to" / "runbooks.md").read_text(encoding="utf-8")


def text() -> str:
    """Return the text of a scrape; "" if the operator does not answer yet."""
    try:
        return urllib3.request("GET", URL, retries=False, timeout=5).data.decode()
    except urllib3.exceptions.HTTPError:
        return ""


class Scrapes:
    """The series of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def found(self) -> Samples:
        """Return the series of objects in the namespace."""
        return {key: value for key, value in samples(text()).items() if ("namespace", self.namespace) in key[1]}

    def value(self, name: str, **labels: str) -> float | None:
        """Return a series of the stream, or of the subscription; None if there is none."""
        kind = name.partition("_")[0]
        own = {"namespace": self.namespace, kind: "orders" if kind == "stream" else "app"}
        return self.found().get((PREFIX + name, frozenset((own | labels).items())))

    def wait(self, name: str, value: float | None, **labels: str) -> None:
        """Wait until a series has a value."""
        wait_until(lambda: self.value(name, **labels) == value, f"{name} to be {value}", details=self.found)


def runbook_commands(namespace: str) -> list[list[str]]:
    """Return the commands of the runbooks that read a subscription, without the filter that the next line may be."""
    names = {"NS": namespace, "SUB": "app"}
    commands = re.findall(r"^kubectl (-n NS get kss .*?)(?: \\)?$", RUNBOOKS, re.MULTILINE)
    return [[names.get(word, word) for word in shlex.split(command)] for command in commands]


@pytest.mark.parametrize("operator", [["--metrics", URL]], indirect=True)
def test_a_stream_is_scraped_from_its_apply_to_its_end(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    scrapes = Scrapes(stage.namespace)
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.application()
    stage.subscription(updateStrategy="Reload")
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    driver = stage.driver_runs()
    stage.report(driver)
    scrapes.wait("subscription_reporting", 1)
    assert (scrapes.value("stream_ready"), scrapes.value("subscription_revision_lag")) == (1, 0)
    assert scrapes.value("subscription_apply_to_rendered_seconds_count") == 1
    assert scrapes.value("subscription_rendered_to_applied_seconds_count") == 0

    stage.stream("orders", cluster("west"))
    document = stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    scrapes.wait("subscription_revision", document.revision.counter)
    scrapes.wait("subscription_revision_lag", 1)
    assert scrapes.value("subscription_rollout_age_seconds", method="Reload") is not None
    stage.report(driver, beat=2)
    scrapes.wait("subscription_revision_lag", 0)
    # The report counts from the begin of a reconciliation, and its effects from the end.
    scrapes.wait("subscription_rendered_to_applied_seconds_count", 1)
    assert scrapes.value("subscription_apply_to_rendered_seconds_count") == 2
    assert (scrapes.value("subscription_draining_topics"), scrapes.value("subscription_restarts_total")) == (1, 0)
    assert (scrapes.value("subscription_drain_age_seconds") or 0) > 0
    scrapes.wait("stream_draining_clusters", 1)
    shown = [stage.kube.kubectl(*command) for command in runbook_commands(stage.namespace)]
    assert len(shown) > 3
    assert "east/orders since" in shown[0]

    stage.api.delete(SUBSCRIPTIONS, "app", stage.namespace)
    scrapes.wait("subscription_ready", None)
    stage.api.delete(STREAMS, "orders", stage.namespace)
    left = (f"{PREFIX}document_left_behind", frozenset({("namespace", stage.namespace), ("document", DOCUMENT)}))
    wait_until(lambda: scrapes.found() == {left: 1}, "only the document to be left", details=scrapes.found)
    stage.api.delete(CONFIG_MAPS, DOCUMENT, stage.namespace)
    wait_until(lambda: not scrapes.found(), "all series to vanish", details=scrapes.found)
    watched = {dict(labels)["resource"] for name, labels in samples(text()) if name == f"{PREFIX}watch_age_seconds"}
    assert "kafkastreams.kafkastream.dev" in watched
    assert f"{PREFIX}serving 1.0" in text()


@pytest.mark.parametrize("operator", [["--metrics", URL]], indirect=True)
def test_promtool_finds_no_fault_in_a_scrape(
    stage: Stage, operator: OperatorProcess, promtool: Callable[..., None]
) -> None:
    stage.stream("orders", cluster("east"))
    stage.subscription()
    Scrapes(stage.namespace).wait("subscription_revision", 1)
    promtool("check", "metrics", text=text())
