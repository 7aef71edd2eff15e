"""Documents whose subscription is gone: they go a week after their application."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dynamic_kafka.contract.kubernetes_names import APPLICATION_GONE_ANNOTATION
from kafkastream_operator.kube.api import APACHE_APPLICATIONS, CONFIG_MAPS, KUBEFLOW_APPLICATIONS, SUBSCRIPTIONS
from tests.unit.operator.server import DOCUMENT, Operator, Server, rest
from tests.unit.operator.world import cluster

HOUR, WEEK = timedelta(hours=1), timedelta(days=7)


def left_behind(*, application: bool = False) -> Server:
    server = Server()
    server.stream(cluster("east"))
    server.subscription()
    if application:
        server.put(KUBEFLOW_APPLICATIONS, "app", {})
    rest(server)
    server.remove(SUBSCRIPTIONS, "app")
    return server


def look(server: Server, after: timedelta = timedelta()) -> float | None:
    """Let an operator that has just started look at the document. Return the seconds until it looks again."""
    server.now += after
    return Operator(server).reconcile(SUBSCRIPTIONS, "app")


def test_a_document_goes_a_week_after_its_application() -> None:
    server = left_behind(application=True)
    # Given an application that runs on for long without its subscription
    assert look(server) is None
    assert look(server, 2 * WEEK) is None
    # When it is deleted, then the week begins, whoever is the operator
    server.remove(KUBEFLOW_APPLICATIONS, "app")
    assert look(server, HOUR) == WEEK.total_seconds()
    assert look(server, WEEK - HOUR) == HOUR.total_seconds()
    assert server.document() is not None
    look(server, HOUR)
    assert server.document() is None


def test_an_application_that_comes_back_stops_the_week() -> None:
    server = left_behind()
    look(server)
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    assert look(server, 2 * WEEK) is None
    server.remove(KUBEFLOW_APPLICATIONS, "app")
    assert look(server, HOUR) == WEEK.total_seconds()


def test_a_subscription_that_comes_back_stops_the_week() -> None:
    server = left_behind()
    look(server)
    before = server.document()
    server.now += WEEK
    server.subscription()
    rest(server)
    known = server.find(CONFIG_MAPS, DOCUMENT)
    assert known is not None and APPLICATION_GONE_ANNOTATION not in known["metadata"]["annotations"]
    after = server.document()
    assert before is not None and after is not None and after.revision == before.revision
    # And left behind once more, it stays for another week
    server.remove(SUBSCRIPTIONS, "app")
    assert look(server) == WEEK.total_seconds()


@pytest.mark.parametrize("text", ["yesterday", "9999-12-31T23:59:59Z"])
def test_a_time_that_somebody_has_edited_begins_anew(text: str) -> None:
    server = left_behind()
    look(server)
    known = server.find(CONFIG_MAPS, DOCUMENT)
    assert known is not None
    known["metadata"]["annotations"][APPLICATION_GONE_ANNOTATION] = text
    assert look(server, HOUR) == WEEK.total_seconds()


@pytest.mark.parametrize("kind", ["application", "subscription"])
def test_an_object_that_the_cache_lacks_keeps_the_document(kind: str) -> None:
    server = left_behind()
    operator = Operator(server)
    operator.sees()
    operator.reconcile(SUBSCRIPTIONS, "app")
    server.now += WEEK
    operator.sees()
    if kind == "application":
        server.put(APACHE_APPLICATIONS, "app", {})
    else:
        server.subscription()
    assert operator.reconcile_unseen(SUBSCRIPTIONS, "app") == HOUR.total_seconds()
    assert server.document() is not None


def test_a_copy_under_another_name_stays() -> None:
    server = left_behind()
    known = server.find(CONFIG_MAPS, DOCUMENT)
    assert known is not None
    labels, content = known["metadata"]["labels"], {"data": known.get("data"), "binaryData": known.get("binaryData")}
    server.remove(CONFIG_MAPS, DOCUMENT)
    server.put(CONFIG_MAPS, "copy", {}, content, labels=labels)
    look(server)
    assert look(server, 2 * WEEK) is None and server.find(CONFIG_MAPS, "copy") is not None
