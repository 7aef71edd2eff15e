from __future__ import annotations

import pytest

from dynamic_kafka.errors import MetadataInvalidError, OptionError
from dynamic_kafka.metadata import (
    KafkaMetadataService,
    KafkaStreamSubscriber,
    StaticMetadataService,
    StreamIdsSubscriber,
    StreamPatternSubscriber,
    load_class,
)
from tests.unit.metadata.fakes import FakeService, cluster, stream


@pytest.mark.scenario(40)
def test_a_service_lists_all_streams_and_omits_missing_ids() -> None:
    service = StaticMetadataService([stream("orders"), stream("payments")])

    assert [listed_stream.stream_id for listed_stream in service.get_all_streams()] == ["orders", "payments"]
    assert service.describe_streams(["payments", "gone"]) == {"payments": stream("payments")}


def test_a_cluster_is_active_while_any_stream_names_it() -> None:
    service = FakeService(stream("orders", east=cluster("t")), stream("payments", west=cluster("t")))
    assert service.is_cluster_active("west")

    service.set(stream("orders", east=cluster("t")))

    assert not service.is_cluster_active("west")
    assert service.is_cluster_active("east")


def test_a_static_service_reads_a_document_from_text() -> None:
    service = StaticMetadataService(
        "revision: 3\nstreams: {s: {clusters: {e: {bootstrapServers: 'e:1', topics: [t]}}}}"
    )
    assert [listed_stream.stream_id for listed_stream in service.get_all_streams()] == ["s"]
    assert service.revision is not None
    assert service.revision.counter == 3
    assert not service.changed()


def test_a_static_document_is_as_strict_as_a_file() -> None:
    with pytest.raises(MetadataInvalidError, match="metadataDocument:1: "):
        StaticMetadataService("- streamIdd: s")


def test_ids_choose_their_streams_in_one_look_up() -> None:
    service = FakeService(stream("a"), stream("b"), stream("c"))

    streams = StreamIdsSubscriber(["a", "c", "a", "gone"]).get_subscribed_streams(service)

    assert [chosen_stream.stream_id for chosen_stream in streams] == ["a", "c"]
    assert service.lookups == 1


def test_an_unknown_id_at_start_lists_the_nearest_ids_first() -> None:
    service = FakeService(stream("clicks"), stream("orders"), stream("order-items"))
    subscriber = StreamIdsSubscriber(["odrers", "clicks"])

    with pytest.raises(MetadataInvalidError, match=r"'odrers'.*not exist.*known are orders,.*clicks"):
        subscriber.check_at_start(service, subscriber.get_subscribed_streams(service))


def test_a_pattern_matches_the_whole_id() -> None:
    service = FakeService(stream("orders"), stream("orders-eu"), stream("old-orders"))

    def found(pattern: str) -> list[str]:
        return [matched.stream_id for matched in StreamPatternSubscriber(pattern).get_subscribed_streams(service)]

    assert found("orders") == ["orders"], "Flink would match every id that holds `orders`"
    assert found("orders.*") == ["orders", "orders-eu"]
    assert found("nothing") == []


def test_a_wrong_pattern_and_an_empty_list_of_ids_are_refused() -> None:
    with pytest.raises(OptionError, match="no regular expression"):
        StreamPatternSubscriber("orders[")
    with pytest.raises(OptionError, match="name at least one"):
        StreamIdsSubscriber([])


def test_a_users_class_is_loaded_by_its_path() -> None:
    loaded: object = load_class("tests.unit.metadata.fakes:FakeService", KafkaMetadataService)
    assert loaded is FakeService


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("FakeService", "write it as `package.module:Name`"),
        (":FakeService", "write it as `package.module:Name`"),
        ("no_such_module:X", "cannot be imported: ModuleNotFoundError"),
        ("tests.unit.metadata.fakes:Gone", "has no 'Gone'"),
        ("tests.unit.metadata.fakes:FakeClock", "is no subclass of"),
        ("tests.unit.metadata.fakes:stream", "is no subclass of"),
    ],
)
def test_a_wrong_class_path_is_refused_with_the_reason(path: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        load_class(path, KafkaStreamSubscriber)


def test_a_pattern_that_matches_only_parts_of_ids_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    service = FakeService(stream("orders-eu"), stream("payments"))
    subscriber = StreamPatternSubscriber("orders")
    subscriber.check_at_start(service, subscriber.get_subscribed_streams(service))
    assert "matches no whole name" in caplog.text and ".*(orders).*" in caplog.text
