"""Topic ids as texts, and the ids that metadata pins topics to."""

from __future__ import annotations

import pytest
from confluent_kafka import Uuid

from dynamic_kafka.errors import MetadataConflictError, MetadataInvalidError
from dynamic_kafka.metadata import ClusterMetadata, KafkaStream
from dynamic_kafka.metadata.document import contract_of, parse_document
from dynamic_kafka.metadata.services.returned_streams import check_returned_streams
from dynamic_kafka.metadata.subscription import unite
from dynamic_kafka.metadata.topic_ids import NO_TOPIC_ID, check_topic_id, saved_topic_id, shown_topic_id

ID = "9tQ_vI2NQ-mPHLbQyJ0jXA"
OTHER = "AbCdEfGhIjKlMnOpQrStUQ"


def test_a_shown_id_has_the_form_of_kafkas_own_tools() -> None:
    # librdkafka prints the standard alphabet of base64, Kafka's tools the URL-safe one
    assert shown_topic_id(str(Uuid(-8, -2))) == "__________j__________g"
    assert saved_topic_id("__________j__________g") == str(Uuid(-8, -2))
    assert check_topic_id("__________j__________g")
    assert (shown_topic_id(None), saved_topic_id(None)) == (None, None)


def test_the_client_shows_an_id_of_zeros_as_this_text() -> None:
    assert str(Uuid(0, 0)) == NO_TOPIC_ID


LIST = """\
- streamId: orders
  clusterMetadataList:
    - clusterId: east
      bootstrapServers: e1:9092
      topics: [orders]
      topicIds:
        {}
"""
MAPPING = """\
streams:
  orders:
    clusters:
      east:
        bootstrapServers: e1:9092
        topics: [orders]
        topicIds: {{{}}}
"""


@pytest.mark.parametrize("form", [LIST, MAPPING])
def test_both_forms_of_a_document_pin_topics(form: str) -> None:
    document = parse_document(form.format(f"orders: {ID}"), source="streams.yaml")
    assert document.streams["orders"].clusters["east"].topic_ids == {"orders": ID}


@pytest.mark.parametrize(
    ("pin", "problem"),
    [
        ("orders: abc", "'abc' is no topic id: those have 22 characters of base64url"),
        ("orders: 9tQ/vI2NQ+mPHLbQyJ0jXA", "is no topic id"),
        ("orders: 9tQ_vI2NQ-mPHLbQyJ0jXB", "is no topic id"),
        ("orders: 9tQ_vI2NQ-mPHLbQyJ0jXA==", "is no topic id"),
        (f"orders: {NO_TOPIC_ID}", "names no topic"),
        ("orders: 12", "must be a topic id; put it in quotes"),
        (f"payments: {ID}", "'payments' is not among this cluster's topics"),
    ],
)
def test_a_wrong_pin_is_refused_with_file_line_and_field(pin: str, problem: str) -> None:
    with pytest.raises(MetadataInvalidError) as refused:
        parse_document(LIST.format(pin), source="streams.yaml")
    message = str(refused.value)
    assert message.startswith("streams.yaml:7: [0].clusterMetadataList[0].topicIds.")
    assert problem in message


def test_pins_without_a_mapping_are_refused() -> None:
    with pytest.raises(MetadataInvalidError, match=r"topicIds: .*mapping of topics"):
        parse_document(LIST.format("[orders]"), source="streams.yaml")


def cluster(*topics: str, **more: object) -> ClusterMetadata:
    return ClusterMetadata(topics, {"bootstrap.servers": "e1:9092"}, **more)  # type: ignore[arg-type]


def test_pins_of_two_streams_are_united() -> None:
    a = KafkaStream("a", {"east": cluster("t", topic_ids={"t": ID})})
    b = KafkaStream("b", {"east": cluster("t", "u", topic_ids={"u": OTHER})})
    assert unite([a, b]).clusters["east"].topic_ids == {"t": ID, "u": OTHER}


def test_two_pins_of_one_topic_are_a_conflict() -> None:
    a, b = (KafkaStream(name, {"east": cluster("t", topic_ids={"t": pin})}) for name, pin in (("a", ID), ("b", OTHER)))
    with pytest.raises(MetadataConflictError, match=r"disagree.*cluster 'east': topicIds\.t differ"):
        unite([a, b])


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_pin_of_a_stream_that_drains_the_topic_gives_way(names: str) -> None:
    drains = KafkaStream(names[0], {"east": cluster("t", topic_ids={"t": ID}, state="Draining")})
    reads = KafkaStream(names[1], {"east": cluster("t", topic_ids={"t": OTHER})})
    assert unite([drains, reads]).clusters["east"].topic_ids == {"t": OTHER}


def test_a_fingerprint_without_pins_stays_the_same() -> None:
    # The hash is that of the release before: users may wait for it
    plain, pinned = (unite([KafkaStream("a", {"east": cluster("t", topic_ids=ids)})]) for ids in ({}, {"t": ID}))
    assert plain.fingerprint == "sha256:" + FINGERPRINT
    assert pinned.fingerprint != plain.fingerprint


FINGERPRINT = "85eaa6522281fef21e2b9e1c38eeb1b16e214c5305f82dd1453b5caaa097f640"


def test_pins_of_a_users_own_service_are_checked() -> None:
    wrong = KafkaStream("a", {"east": cluster("t", topic_ids={"t": "abc", "u": ID})})
    with pytest.raises(MetadataInvalidError) as refused:
        check_returned_streams([wrong], object())
    assert len(refused.value.problems) == 2
    right = KafkaStream("a", {"east": cluster("t", topic_ids={"t": ID})})
    assert check_returned_streams([right], object()) == [right]


def test_a_document_with_pins_needs_a_reader_that_enforces_them() -> None:
    plain = {"orders": {"clusters": {"east": {"bootstrapServers": "e1:9092", "topics": ["orders"]}}}}
    pinned = {"orders": {"clusters": {"east": {**plain["orders"]["clusters"]["east"], "topicIds": {"orders": ID}}}}}
    announced = {"orders": {"clusters": {"east": {**pinned["orders"]["clusters"]["east"], "state": "Announced"}}}}
    assert (contract_of(plain), contract_of(pinned), contract_of(announced)) == (1, 2, 3)
