"""The test brokers themselves: start, stop, pause, log in, and content."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import BrokerError, CertificateAuthority, KafkaCluster, Record, start_all
from tests.support.kafka.rights import CHECKS_RIGHTS, TOPIC, allow, take_back
from tests.support.sessions import all_end, ended_session, is_alive
from tests.support.waiting import eventually

pytestmark = pytest.mark.deep("the tests' own brokers")


def values(cluster: KafkaCluster, topic: str, **settings: str) -> list[bytes | None]:
    """Return the values of partition 0, up to its last stable offset."""
    end = cluster.end_offsets(topic, committed=True)[0]
    properties = cluster.client_properties() | {"group.id": "none", "enable.auto.commit": "false"} | settings
    consumer = Consumer({**properties, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, cluster.start_offsets(topic)[0])])
    payloads: list[bytes | None] = []
    deadline = time.monotonic() + 20
    while consumer.position([TopicPartition(topic, 0)])[0].offset < end and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            payloads.append(message.value())
    consumer.close()
    return payloads


def test_three_clusters_have_three_ids(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))

    described = [cluster.admin.describe_cluster().result(10).cluster_id for cluster in brokers]
    topics = [name in cluster.admin.list_topics(timeout=10).topics for cluster in brokers]

    assert described == [cluster.kafka_id for cluster in brokers]
    assert len(set(described)) == 3
    assert topics == [True, False, False]


def test_records_and_offsets(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), partitions=2)

    brokers.a.produce(name, ["x", b"y"], partition=0)
    brokers.a.produce(name, [Record(None, key=b"k", partition=1, timestamp_ms=5, headers=[("h", b"v")])])
    brokers.a.create_partitions(name, 3)
    brokers.a.delete_records(name, 0, before=1)

    assert brokers.a.start_offsets(name) == {0: 1, 1: 0, 2: 0}
    assert brokers.a.end_offsets(name) == {0: 2, 1: 1, 2: 0}
    assert values(brokers.a, name) == [b"y"]


def test_a_re_created_topic_has_another_id(brokers: Brokers, topic: Topic) -> None:
    name = brokers.b.create_topic(topic("orders"))
    first = brokers.b.topic_id(name)
    brokers.b.produce(name, ["x"])

    brokers.b.delete_topic(name)
    brokers.b.create_topic(name)

    assert brokers.b.topic_id(name) != first
    assert brokers.b.end_offsets(name) == {0: 0}


def test_transactions_commit_abort_and_stay_open(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))

    with brokers.a.transaction() as committed:
        committed.produce(name, ["committed"])
    aborted = brokers.a.transaction()
    aborted.produce(name, ["aborted"])
    aborted.abort()
    pending = brokers.a.transaction()
    pending.produce(name, ["pending"])

    assert values(brokers.a, name, **{"isolation.level": "read_committed"}) == [b"committed"]
    assert brokers.a.end_offsets(name, committed=True) == {0: 4}  # two records, two markers
    assert brokers.a.end_offsets(name) == {0: 5}
    pending.abort()


def test_committed_offsets_are_read_back(brokers: Brokers, topic: Topic) -> None:
    name = brokers.c.create_topic(topic("orders"), partitions=2)
    group = topic("group")
    consumer = Consumer(brokers.c.client_properties() | {"group.id": group})

    consumer.commit(offsets=[TopicPartition(name, 1, 42)], asynchronous=False)
    consumer.close()

    assert brokers.c.committed_offsets(group) == {(name, 1): 42}
    assert brokers.c.committed_offsets("nobody") == {}


def test_a_user_has_the_rights_that_were_given(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster("checked", users={"alice": "secret-1"}, overrides=CHECKS_RIGHTS)
    cluster.create_topic("orders")
    client = AdminClient({**cluster.client_properties("alice"), "log_level": 0})

    def sees() -> bool:
        return "orders" in client.list_topics(timeout=20).topics

    before = sees()
    allow(cluster, "alice", "DESCRIBE", TOPIC, "orders")
    given = sees()
    take_back(cluster, "alice")

    assert (before, given, sees()) == (False, True, False)


@pytest.mark.parametrize("end", [KafkaCluster.stop, KafkaCluster.kill], ids=["stop", "kill"])
def test_a_restart_finds_the_same_data_on_the_same_ports(
    fresh_cluster: FreshCluster, end: Callable[[KafkaCluster], None]
) -> None:
    cluster = fresh_cluster()
    cluster.create_topic("orders")
    cluster.produce("orders", ["x", "y"])
    before = cluster.bootstrap, cluster.kafka_id, cluster.topic_id("orders"), values(cluster, "orders")

    end(cluster)
    down = not cluster.broker.running
    cluster.restart()

    assert down
    assert before == (
        cluster.bootstrap,
        cluster.kafka_id,
        cluster.topic_id("orders"),
        values(cluster, "orders"),
    )


def test_a_paused_broker_hangs_until_resumed(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster()
    cluster.create_topic("orders")

    cluster.pause()
    with socket.create_connection(("127.0.0.1", int(cluster.bootstrap.split(":")[1])), timeout=2):
        accepted = True  # by the kernel, but without an answer: a hang, not a refusal
    with pytest.raises(KafkaException):
        AdminClient({**cluster.client_properties(), "log_level": 0}).list_topics(timeout=1)
    cluster.resume()
    cluster.produce("orders", ["x"])

    assert accepted
    assert cluster.end_offsets("orders") == {0: 1}


def test_a_paused_broker_can_be_stopped_and_killed(fresh_cluster: FreshCluster) -> None:
    stopped, killed = fresh_cluster("stopped", start=False), fresh_cluster("killed", start=False)
    start_all([stopped, killed])
    stopped.pause()
    killed.pause()

    stopped.stop()
    killed.kill()

    assert not stopped.broker.running
    assert not killed.broker.running


def test_a_wiped_cluster_has_another_id_at_the_same_address(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(users={"alice": "alice-secret"})
    cluster.create_topic("orders")
    before = cluster.bootstrap, cluster.kafka_id

    cluster.wipe()
    cluster.start().wait_ready()

    assert cluster.bootstrap == before[0]
    assert cluster.admin.describe_cluster().result(10).cluster_id == cluster.kafka_id != before[1]
    assert "orders" not in cluster.admin.list_topics(timeout=10).topics
    assert log_in(cluster.client_properties("alice")) is None


def test_overrides_let_retention_delete_records_in_time(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(overrides={"log.retention.check.interval.ms": "100", "log.segment.delete.delay.ms": "0"})
    cluster.create_topic("orders", config={"segment.ms": "1", "retention.ms": "1"})

    cluster.produce("orders", [Record(b"old", timestamp_ms=1)])
    cluster.produce("orders", [Record(b"rolls the segment", timestamp_ms=2)])

    assert eventually(lambda: cluster.start_offsets("orders")[0] > 0)


def log_in(properties: dict[str, str]) -> int | None:
    """Return None if a client with these properties reaches the broker, else librdkafka's error code."""
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {**properties, "log_level": 0, "error_cb": errors.append}
    client = AdminClient(settings)
    refusals = KafkaError._AUTHENTICATION, KafkaError._SSL
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            return None if client.list_topics(timeout=0.5).brokers else -1
        client.poll(0)
        if refused := [error.code() for error in errors if error.code() in refusals]:
            return refused[0]
    raise TimeoutError(str(errors))


def test_users_log_in_over_tls(secure_cluster: KafkaCluster) -> None:
    assert log_in(secure_cluster.client_properties("alice")) is None
    assert log_in(secure_cluster.client_properties("bob")) is None


def test_a_wrong_password_is_refused(secure_cluster: KafkaCluster) -> None:
    properties = secure_cluster.client_properties("alice") | {"sasl.password": "guessed"}

    assert log_in(properties) == KafkaError._AUTHENTICATION


def test_a_broker_of_another_authority_is_refused(secure_cluster: KafkaCluster, tmp_path: Path) -> None:
    stranger = CertificateAuthority(tmp_path, "stranger")
    properties = secure_cluster.client_properties("alice")

    assert log_in(properties | {"ssl.ca.location": str(stranger.certificate_file)}) == KafkaError._SSL


def test_a_password_can_be_changed(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster("rotated", users={"alice": "before"})
    before = cluster.client_properties("alice")

    cluster.set_password("alice", "after")

    assert log_in(cluster.client_properties("alice")) is None
    assert log_in(before) == KafkaError._AUTHENTICATION


def test_a_broker_that_cannot_start_gives_the_reason() -> None:
    with (
        pytest.raises(BrokerError, match=r"cluster broken: .*ended; logs:.*\n[\s\S]*num\.io\.threads"),
        KafkaCluster("broken", overrides={"num.io.threads": "none"}) as cluster,
    ):
        cluster.start().wait_ready()
    assert (cluster.folder / "output.log").exists()
    cluster.close()


def test_nothing_is_left_after_a_good_end() -> None:
    with KafkaCluster("good") as cluster:
        pid = cluster.start().wait_ready().broker.pid

    assert not is_alive(pid)
    assert not cluster.folder.exists()


def test_logs_stay_after_a_bad_end() -> None:
    with pytest.raises(ZeroDivisionError) as caught, KafkaCluster("bad") as cluster:
        pid = cluster.start().wait_ready().broker.pid
        raise ZeroDivisionError

    assert not is_alive(pid)
    assert caught.value.__notes__ == [f"Logs of Kafka cluster bad: {cluster.folder}"]
    assert "Kafka Server started" in (cluster.folder / "server.log").read_text()
    assert not (cluster.folder / "data").exists()
    cluster.close()


SESSION = """
import threading
from tests.support.kafka import KafkaCluster, start_all

with KafkaCluster("running") as running, KafkaCluster("paused") as paused:
    # Not from the main thread: the broker is to live as long as the process, not as the thread.
    starter = threading.Thread(target=start_all, args=([running, paused],))
    starter.start()
    starter.join()
    paused.pause()
    print(running.broker.pid, paused.broker.pid, flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_broker_outlives_its_session(how: signal.Signals, tmp_path: Path) -> None:
    pids, alive_before = ended_session(SESSION, how, tmp_path)

    assert alive_before == [True, True]
    assert all_end(pids)
    assert len(list(tmp_path.glob("brokers/*/*/server.log"))) == 2
