"""A Kafka cluster of one broker, as tests and the demo see it: life and users; `content.py` has the rest."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.support.certificates import CertificateAuthority
from tests.support.folders import new_folder
from tests.support.kafka.broker import Broker
from tests.support.kafka.content import Content, results
from tests.support.kafka.errors import BrokerError
from tests.support.ports import reserve_ports
from tests.support.servers import Server
from tests.support.waiting import wait_until


class KafkaCluster(Content, Server):
    """One broker on one address with a plaintext listener and, when it has users, a SASL_SSL one.

    `start` and `wait_ready` are apart so that several clusters start side by side (`start_all`).

    Attributes:
        name: how messages and its folder call it; the cluster's own id is `kafka_id`.
        bootstrap: `host:port` of the plaintext listener.
        sasl_bootstrap: `host:port` of the SASL_SSL listener; empty without users.
        relayed: `host:port` of the listener behind a relay.
    """

    def __init__(
        self,
        name: str,
        *,
        users: Mapping[str, str] | None = None,
        authority: CertificateAuthority | None = None,
        overrides: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        relay: str = "",
    ) -> None:
        """Reserve ports and a folder; nothing runs yet.

        Args:
            name: letters, digits and dashes.
            users: password by user; they log in with SCRAM-SHA-512 over TLS.
            authority: who signs the broker's certificate; a new one by default.
            overrides: broker settings that win over the harness's own.
            relay: the address of a relay to `relayed`. Clients that come through it stay on it.
            host: the address of its listeners; another one than loopback only in a network namespace of our own.
        """
        controller, plain, sasl, relayed = reserve_ports(4)
        super().__init__(name, f"{host}:{plain}", new_folder("brokers", name))
        self.users = dict(users or {})
        self.sasl_bootstrap = f"{host}:{sasl}" if self.users else ""
        self.relayed = f"{host}:{relayed}"
        self._authority, self._host = authority, host
        listeners = [f"PLAINTEXT://{self.bootstrap}"]
        settings = {"controller.quorum.voters": f"1@127.0.0.1:{controller}"}
        if self.users:
            listeners.append(f"SASL_SSL://{self.sasl_bootstrap}")
            settings |= self._tls_settings()
        through = [f"RELAYED://{address}" for address in (relay, self.relayed) if relay]
        settings["advertised.listeners"] = ",".join([*listeners, *through[:1]])
        settings["listeners"] = ",".join([*listeners, *through[1:], f"CONTROLLER://127.0.0.1:{controller}"])
        self.broker = Broker(self.folder, settings | dict(overrides or {}))
        self._has_users = not self.users

    @property
    def kafka_id(self) -> str:
        """The `cluster.id` that the broker reports; another one after `wipe`."""
        return self.broker.kafka_id

    @property
    def authority(self) -> CertificateAuthority:
        """Return the authority that signed the broker's certificate."""
        if self._authority is None:
            self._authority = CertificateAuthority(self.folder, addresses=[self._host])
        return self._authority

    # Life

    def start(self) -> Self:
        """Start the broker on the data it has; returns at once."""
        self.broker.start()
        return self

    def wait_ready(self, timeout: float = 60.0) -> Self:
        """Wait until the broker serves clients and its users are made. Raises `BrokerError` with its log."""
        wait_until(
            self._serves,
            f"the broker of cluster {self.name}",
            timeout_s=timeout,
            failed=lambda: None if self.broker.running else "it has ended",
            details=lambda: f"logs: {self.folder}\n{self.broker.last_words()}",
            error=BrokerError,
        )
        if not self._has_users:
            for user, password in self.users.items():
                self.set_password(user, password)
            self._has_users = True
        return self

    def stop(self) -> None:
        """Stop in order; the data stay."""
        self.broker.stop()

    def kill(self) -> None:
        """kill -9; the data stay."""
        self.broker.kill()

    def pause(self) -> None:
        """SIGSTOP: the broker hangs, its connections stay open."""
        self.broker.pause()

    def resume(self) -> None:
        """End a pause."""
        self.broker.resume()

    def restart(self, timeout: float = 60.0) -> None:
        """Stop unless it is down already, start on the same data and ports, wait until ready."""
        self.broker.stop()
        self.start().wait_ready(timeout)

    def wipe(self) -> None:
        """Kill it and delete everything. `start` then makes another, empty cluster on the same ports."""
        self.broker.erase()
        self.forget_admin()
        self._has_users = not self.users

    def _end(self) -> None:
        self.forget_admin()
        self.broker.kill()

    def _called(self) -> str:
        return f"Kafka cluster {self.name}"

    # Clients

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """librdkafka's properties for a plaintext client, or for `user` over SASL_SSL."""
        if user is None:
            return {"bootstrap.servers": self.bootstrap}
        return {
            "bootstrap.servers": self.sasl_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.users[user],
            "ssl.ca.location": str(self.authority.certificate_file),
        }

    def set_password(self, user: str, password: str) -> None:
        """Add `user` or change the password; connections that are already open stay."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        results(self.admin.alter_user_scram_credentials([change]))
        self.users[user] = password

    def _serves(self) -> bool:
        host, port = self.bootstrap.split(":")
        try:
            # A client that is refused waits before it connects again, so it starts once the port is open.
            return _accepts(host, int(port)) and bool(self.admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def _tls_settings(self) -> dict[str, str]:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.issue(self.folder / "server.pem")),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        }


def start_all(clusters: Iterable[KafkaCluster], timeout: float = 60.0) -> None:
    """Start clusters side by side and wait until all are ready. When one fails, all are stopped."""
    waiting = list(clusters)
    try:
        for cluster in waiting:
            cluster.start()
        for cluster in waiting:
            cluster.wait_ready(timeout)
    except BaseException:
        for cluster in waiting:
            cluster.close(keep_logs=True)
        raise


def _accepts(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0
