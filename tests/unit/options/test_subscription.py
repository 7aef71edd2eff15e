"""The choice of streams and of the metadata service: values and refusals."""

from __future__ import annotations

import pytest

from dynamic_kafka.options import CustomSubscriber, SingleCluster, StreamIds, StreamPattern
from tests.unit.options.parsing import FROM_FILE, SINGLE, parse, refusal

MANY_CLASSES = r"[^a][]a][^]a][a&b][\[x]" * 30


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"streamIds": " a; b;a "}, StreamIds(("a", "b"))),
        ({"stream-ids": "a"}, StreamIds(("a",))),
        ({"streamPattern": "orders-.*"}, StreamPattern("orders-.*")),
        ({"streamPattern": MANY_CLASSES}, StreamPattern(MANY_CLASSES)),
        ({"streamSubscriber": "acme.streams:Ours"}, CustomSubscriber("acme.streams:Ours")),
    ],
)
def test_streams_are_chosen_in_one_of_three_ways(given: dict[str, str], expected: object) -> None:
    assert parse(given, {"metadataPath": "/m"}).subscribe == expected


@pytest.mark.parametrize(
    ("given", "single", "subscribe"),
    [
        ({"subscribe": "b, a,"}, SingleCluster(topics=("b", "a")), StreamIds(("b", "a"))),
        ({"subscribePattern": "o.*"}, SingleCluster(pattern="o.*"), StreamPattern("o.*")),
        (
            {"assign": '{"b":[1,0,1],"a":[2]}'},
            SingleCluster(assign={"a": (2,), "b": (0, 1)}),
            StreamIds(("a", "b")),
        ),
        (
            {"metadataService": "single-cluster", "streamIds": "a;b"},
            SingleCluster(topics=("a", "b")),
            StreamIds(("a", "b")),
        ),
        (
            {"metadataService": "single-cluster", "streamSubscriber": "m:C"},
            SingleCluster(),
            CustomSubscriber("m:C"),
        ),
    ],
)
def test_sparks_own_form_is_a_single_cluster(given: dict[str, str], single: SingleCluster, subscribe: object) -> None:
    options = parse(given, {"kafka.bootstrap.servers": "b:9092"})
    assert (options.service, options.single, options.subscribe) == ("single-cluster", single, subscribe)


@pytest.mark.parametrize("name", ["clusterId", "metadata-service.cluster-id"])
@pytest.mark.parametrize("chosen", [{"subscribe": "a"}, {"metadataService": "single-cluster", "streamIds": "a"}])
def test_a_single_cluster_may_have_an_id(name: str, chosen: dict[str, str]) -> None:
    options = parse(chosen, {"kafka.bootstrap.servers": "b:9092", name: "cluster-0"})
    assert options.single == SingleCluster("cluster-0", topics=("a",))


@pytest.mark.scenario(42)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**FROM_FILE, "clusterId": "east"}, "with metadataService=file each cluster brings its own id"),
        ({**SINGLE, "metadata-service.cluster-id": "a b"}, "a cluster id has 1 to 253 characters, no space"),
        ({"metadataPath": "/m"}, "no streams are chosen"),
        ({**FROM_FILE, "streamPattern": "a"}, "'streamIds', 'streamPattern' exclude each other"),
        ({**SINGLE, "assign": '{"a":[0]}'}, "'subscribe', 'assign' exclude each other"),
        ({**SINGLE, "streamIds": "a"}, "'streamIds', 'subscribe' exclude each other"),
        ({"streamIds": " ; ", "metadataPath": "/m"}, "names nothing"),
        ({"streamIds": "a,b", "metadataPath": "/m"}, "separate ids with ';'"),
        ({"streamPattern": "(", "metadataPath": "/m"}, "not a regular expression"),
        ({"streamPattern": "orders-[a-z&&[^t]]*", "metadataPath": "/m"}, "'&&' in 'orders-[a-z&&' is a set"),
        ({"kafka.bootstrap.servers": "b", "subscribePattern": "[a-d[m-p]]"}, "'[' in '[a-d[' is a set"),
        ({"kafka.bootstrap.servers": "b", "subscribePattern": r"\[[[:alpha:]]"}, "is a set of characters for Java"),
        ({"streamSubscriber": "org.acme.Ours", "metadataPath": "/m"}, "package.module:Class"),
        ({"kafka.bootstrap.servers": "b", "subscribe": " , "}, "names nothing"),
        ({"kafka.bootstrap.servers": "b", "subscribePattern": " "}, "is empty"),
        ({"kafka.bootstrap.servers": "b", "assign": "orders"}, "it is not JSON"),
        ({"kafka.bootstrap.servers": "b", "assign": '{"a":[-1]}'}, "no partition"),
        ({"subscribe": "a"}, "'kafka.bootstrap.servers' must be set"),
        ({"streamIds": "a"}, "needs 'metadataPath'"),
        ({"streamIds": "a", "metadataService": "static"}, "needs 'metadataDocument'"),
        ({**FROM_FILE, "metadataDocument": "[]"}, "is for metadataService=static"),
        ({**FROM_FILE, "metadataService": "static", "metadataDocument": "[]"}, "with static set"),
        ({**SINGLE, "metadataPath": "/m"}, "can't be combined with a single cluster"),
        ({**SINGLE, "metadataRevision": "3"}, "can't be combined with a single cluster"),
        ({**FROM_FILE, "kafka.bootstrap.servers": "b"}, "each cluster brings its own servers"),
        ({**FROM_FILE, "kafka.metadata.broker.list": "b"}, "each cluster brings its own servers"),
        ({"subscribe": "a", "metadataService": "file", "metadataPath": "/m"}, "is for a single cluster"),
        ({**FROM_FILE, "metadataService": "org.acme.Service"}, "a class of yours as package.module:Class"),
        ({**FROM_FILE, "metadataRevision": "latest"}, "it must be a counter"),
        ({**FROM_FILE, "metadataService.url": "http://x"}, "none is named"),
    ],
)
def test_streams_and_services_that_do_not_fit_are_refused(given: dict[str, str], message: str) -> None:
    assert message in refusal(given)


@pytest.mark.parametrize("revision", ["17", "lineage/17", "team a/orders/17", "sha256:" + "0f" * 32])
def test_every_revision_that_a_document_may_have_can_be_awaited(revision: str) -> None:
    assert parse(FROM_FILE, {"metadataRevision": revision}).metadata_revision == revision
