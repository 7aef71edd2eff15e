"""Metadata that would misdirect a secret: nothing reaches the foreign server, from the driver or from an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import DynamicKafkaError, SecretWithheldError
from tests.integration.source.simulated_spark import document, static
from tests.support.fixtures import Topic
from tests.support.foreign_listener import ForeignListener
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, read, reading
from tests.support.streams import Rows, cluster, produce, stream, write_metadata
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("each way that a secret could leave")

CLEAR = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
"""The weakest log-in: the password itself, unencrypted."""
POLICIES = pytest.mark.parametrize("policy", ["fail", "stall"])


@pytest.fixture
def foreign() -> Iterator[ForeignListener]:
    with ForeignListener() as listener:
        yield listener


@dataclass
class Owner:
    """The owner of a job, whose log-in stands in the options.

    Attributes:
        topic: a topic of one partition.
        path: the metadata file, which others write.
        options: the log-in, with secrets by reference.
    """

    at: KafkaCluster
    topic: str
    path: Path
    options: Mapping[str, str]

    @property
    def password(self) -> bytes:
        return self.at.users["alice"].encode()

    def name_servers(self, servers: str, properties: Mapping[str, str] | None = None) -> None:
        """Write the stream `orders` of one cluster."""
        entry = cluster("east", servers, [self.topic], properties=dict(properties or {}))
        write_metadata(self.path, stream("orders", entry))

    def produce(self) -> Rows:
        return produce("east", self.at, self.topic, 3)

    @contextmanager
    def running(self, **more: object) -> Iterator[SourceRun]:
        """Yield a query that has read three records with the owner's log-in."""
        self.name_servers(self.at.sasl_bootstrap)
        with reading(self.path, **(self.options | {"allowedServers": self.at.sasl_bootstrap} | more)) as run:
            run.until_rows(self.produce())
            yield run


@pytest.fixture
def owner(secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    (tmp_path / "ca.pem").write_text(secure_cluster.authority.certificate_file.read_text())
    monkeypatch.setenv("OWNERS_PASSWORD", secure_cluster.users["alice"])
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "${env:OWNERS_PASSWORD}",
        "kafka.ssl.ca.location": str(tmp_path / "ca.pem"),
        "readTimeout": "3s",
    }
    return Owner(secure_cluster, secure_cluster.create_topic(topic("orders")), tmp_path / "streams.json", options)


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(SecretWithheldError) as refused:
        make()
    return str(refused.value)


@DEEP
def test_a_log_in_that_is_sent_to_the_listener_is_recorded(foreign: ForeignListener, owner: Owner) -> None:
    """The other tests look for this log-in."""
    owner.name_servers(foreign.address)
    chosen = {f"kafka.{key}": value for key, value in CLEAR.items()} | {"allowedServers": foreign.address}
    with reading(owner.path, **(owner.options | chosen)) as run, pytest.raises(DynamicKafkaError):
        run.batch()
    assert owner.password in foreign.received


@POLICIES
def test_a_running_query_sends_no_log_in_to_a_foreign_server(
    foreign: ForeignListener, owner: Owner, policy: str
) -> None:
    with owner.running(clusterFailurePolicy=policy) as run:
        # When a stream's author adds a server of his own
        owner.name_servers(f"{owner.at.sasl_bootstrap},{foreign.address}", CLEAR)
        run.until(lambda: "rejected" in run.report(), "the rejection")

        # Then the last good revision is read on
        assert f"the server {foreign.address}, which may not get" in run.report()["rejected"]
        run.until_rows(run.rows() + owner.produce())

        # and a restart is refused, without and with a pending batch
        run.restart()
        assert foreign.address in refusal(run.batch)
        owner.name_servers(owner.at.sasl_bootstrap)
        owner.produce()
        run.restart()
        run.batch(crash="logged")
        owner.name_servers(foreign.address, CLEAR)
        assert foreign.address in refusal(run.batch)
    assert (foreign.connections, foreign.received) == (0, b"")


@DEEP
@POLICIES
def test_a_running_query_sends_no_log_in_over_a_weaker_link(
    foreign: ForeignListener, owner: Owner, policy: str
) -> None:
    # Given a server that is allowed, and that would take the password as it is
    allowed = f"{owner.at.sasl_bootstrap},{foreign.address}"
    with owner.running(clusterFailurePolicy=policy, allowedServers=allowed) as run:
        # When metadata asks for that
        owner.name_servers(foreign.address, CLEAR)
        run.until(lambda: "rejected" in run.report(), "the rejection")

        # Then it is rejected, and refused at a start
        assert "'sasl.mechanism', 'security.protocol' in metadata" in run.report()["rejected"]
        run.until_rows(run.rows() + owner.produce())
        run.restart()
        assert "security.protocol" in refusal(run.batch)
    assert (foreign.connections, foreign.received) == (0, b"")


@DEEP
def test_an_executor_sends_no_log_in_to_a_foreign_server(foreign: ForeignListener, owner: Owner) -> None:
    with owner.running() as run:
        (task,) = run.tasks
        own = {"bootstrap.servers": foreign.address} | CLEAR
        assert foreign.address in refusal(lambda: list(read(replace(task, client=replace(task.client, own=own)))))
    assert (foreign.connections, foreign.received) == (0, b"")


# A Secret's own list


def in_folder(at: KafkaCluster, folder: Path) -> dict[str, Any]:
    """Mount a Secret with a log-in and a list of its servers, and return a cluster's fields that name it."""
    (folder / "login").mkdir()
    files = {"sasl.username": "alice", "sasl.password": at.users["alice"], "allowedServers": at.sasl_bootstrap}
    files["ssl.ca.pem"] = at.authority.certificate_file.read_text()
    for name, content in files.items():
        (folder / "login" / name).write_text(content)
    return {
        "secretFolder": "login",
        "bootstrapServers": at.sasl_bootstrap,
        "properties": {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
    }


def by_folder(owner: Owner, **more: object) -> SourceRun:
    """Return a query whose one cluster has that Secret."""
    folder = owner.path.parent
    text = document(east=in_folder(owner.at, folder) | {"topics": [owner.topic], **more})
    return SourceRun(**static(text, secretsRoot=folder, readTimeout="3s"))


@DEEP
def test_a_driver_sends_a_secret_only_to_servers_of_its_list(foreign: ForeignListener, owner: Owner) -> None:
    with by_folder(owner, bootstrapServers=foreign.address, properties=CLEAR) as run:
        assert f"does not name {foreign.address} of metadata" in refusal(run.batch)
    assert (foreign.connections, foreign.received) == (0, b"")


@DEEP
def test_an_executor_sends_a_secret_only_to_servers_of_its_list(foreign: ForeignListener, owner: Owner) -> None:
    with by_folder(owner) as run:
        # Given a task whose servers the driver has not checked
        run.until_rows(owner.produce())
        (task,) = run.tasks
        redirected = replace(task, client=replace(task.client, own={"bootstrap.servers": foreign.address} | CLEAR))

        # Then the executor refuses it; without the list the log-in is sent
        assert foreign.address in refusal(lambda: list(read(redirected)))
        assert (foreign.connections, foreign.received) == (0, b"")
        (owner.path.parent / "login" / "allowedServers").unlink()
        with pytest.raises(DynamicKafkaError):
            list(read(redirected))
        wait_until(lambda: owner.password in foreign.received, "the log-in")
