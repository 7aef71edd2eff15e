"""Answers of the API server, or of a proxy in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3
from kubernetes import client

from kafkastream_operator.errors import ApiError
from kafkastream_operator.kube.api import STREAMS, Api


class Answering:
    """A connection that answers every request with this status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body

    def request(self, *_: Any, **__: Any) -> urllib3.HTTPResponse:
        return urllib3.HTTPResponse(self.body, status=self.status, preload_content=True)


def answered(status: int, body: bytes) -> Api:
    """Return an API whose every call gets this answer."""
    connection = client.ApiClient(client.Configuration())
    connection.rest_client.pool_manager = Answering(status, body)
    return Api(connection)


@pytest.mark.parametrize("body", [b"<html>Please log in</html>", b"", b"null", b"[]", b'"ok"'])
def test_an_answer_that_is_not_an_object_is_an_error(body: bytes) -> None:
    """Read as an empty listing, such an answer would delete the whole cache, and everything would drain."""
    with pytest.raises(ApiError, match="not a Kubernetes object"):
        answered(200, body).list(STREAMS, None)


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[]"])
def test_a_refusal_without_a_status_object_is_an_error(body: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        answered(502, body).list(STREAMS, None)
    assert raised.value.status == 502


def test_a_refusal_shows_no_secret_of_a_manifest() -> None:
    """A policy may quote the SparkApplication that the operator patches, and conditions and Events have its words."""
    conf = ".spec.sparkConf.spark.kubernetes.driver.secrets.west-login"
    text = f'conflict with "gitops": {conf}; denied: spark.hadoop.fs.s3a.secret.key=hunter2'
    with pytest.raises(ApiError) as raised:
        answered(403, json.dumps({"reason": "Forbidden", "message": text}).encode()).list(STREAMS, None)
    assert raised.value.message == text.replace("hunter2", "***")
    assert "hunter2" not in str(raised.value)


def test_a_right_that_is_missing_is_not_assumed() -> None:
    assert not answered(403, b'{"reason": "Forbidden"}').may_list(STREAMS)
    assert answered(200, b'{"items": []}').may_list(STREAMS)
    assert answered(503, b"").may_list(STREAMS)


def test_a_listing_has_its_objects_and_version() -> None:
    body = (
        b'{"kind": "KafkaStreamList", "metadata": {"resourceVersion": "7"},'
        b' "items": [{"metadata": {"name": "orders"}}]}'
    )
    listing = answered(200, body).list(STREAMS, None)
    [stream] = listing.objects
    assert listing.version == 7
    assert (stream["kind"], stream["metadata"]["name"]) == ("KafkaStream", "orders")


def test_no_write_is_sent_without_the_lease() -> None:
    api = answered(200, b"{}")
    held = [True]
    api.may_write = lambda: held[0]
    body = {"metadata": {"name": "orders", "namespace": "ns", "resourceVersion": "1", "uid": "u"}}
    writes = [
        lambda: api.create(STREAMS, body),
        lambda: api.replace(STREAMS, body),
        lambda: api.apply(STREAMS, body),
        lambda: api.merge(STREAMS, "ns", "orders", {}),
        lambda: api.delete(STREAMS, "ns", "orders", uid="u"),
    ]
    for write in writes:
        write()
    held[0] = False
    for write in writes:
        with pytest.raises(ApiError, match="does not hold its lease"):
            write()
    assert api.get(STREAMS, "ns", "orders") == {}
