"""Configurations of clients: precedence, fixed settings, secrets and digests."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.errors import OptionError, SecretError
from dynamic_kafka.kafka.config import (
    ClusterClient,
    admin_config,
    config_digest,
    consumer_config,
    merge,
)
from dynamic_kafka.kafka.config_checks import check_client_properties
from dynamic_kafka.metadata import SubscribedCluster, Subscription
from dynamic_kafka.options import OPTIONS, parse_options

SECRET = "hunter2"
EAST = {"bootstrap.servers": "e:9092"}


def client(
    common: dict[str, str] | None = None, own: dict[str, str] | None = None, root: Path | None = None
) -> ClusterClient:
    return ClusterClient(
        "east",
        common or {},
        EAST | (own or {}),
        secret_folder="east" if root else None,
        secrets_root=str(root or "/none"),
        allowed_servers="e:9092",
    )


def secret_folder(root: Path, files: dict[str, str]) -> Path:
    (root / "east").mkdir(exist_ok=True)
    for name, content in files.items():
        (root / "east" / name).write_text(content)
    return root


def test_a_clusters_own_properties_win() -> None:
    assert merge({"a": "common", "b": "common"}, {"b": "own"}) == {"a": "common", "b": "own"}


def test_own_properties_win_under_a_second_name_too() -> None:
    merged = merge({"sasl.mechanisms": "PLAIN"}, {"sasl.mechanism": "SCRAM-SHA-256"})
    assert merged == {"sasl.mechanism": "SCRAM-SHA-256"}


def test_own_properties_replace_their_alternatives() -> None:
    common = {
        "ssl.ca.location": "/common.pem",
        "ssl.keystore.location": "/common.p12",
        "ssl.key.pem": "common",
        "client.rack": "a",
    }
    own = {"ssl.ca.pem": "own", "ssl.certificate.location": "/own.pem"}
    assert merge(common, own) == {"ssl.key.pem": "common", "client.rack": "a"} | own


def test_a_secret_folder_wins_over_both(tmp_path: Path) -> None:
    secret_folder(tmp_path, {"sasl.username": "folder"})
    config = client({"sasl.username": "common"}, {"sasl.username": "own"}, tmp_path).consumer_config()
    assert config["sasl.username"] == "folder"


def test_the_user_cannot_change_what_the_source_relies_on() -> None:
    user = {"enable.auto.commit": "true", "allow.auto.create.topics": "true"}
    config = consumer_config("east", EAST | user)
    assert {
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "allow.auto.create.topics": "false",
    }.items() <= config.items()


def test_the_user_overrides_a_consumers_defaults() -> None:
    assert consumer_config("east", EAST)["isolation.level"] == "read_uncommitted"
    assert consumer_config("east", EAST)["check.crcs"] == "true"
    user = {"isolation.level": "read_committed", "fetch.wait.max.ms": "100", "check.crcs": "false"}
    assert user.items() <= consumer_config("east", EAST | user).items()


def test_a_group_id_is_generated_only_when_none_is_set() -> None:
    generated = consumer_config("east", EAST)["group.id"]
    assert generated.startswith("dynamic-kafka-")
    assert generated == consumer_config("east", EAST)["group.id"] != consumer_config("west", EAST)["group.id"]
    assert consumer_config("east", EAST, group_id_prefix="team")["group.id"].startswith("team-")
    assert consumer_config("east", EAST | {"group.id": "mine"}, group_id_prefix="t")["group.id"] == "mine"


@pytest.mark.parametrize("user", [{"fetch.max.bytes": "100000"}, {"session.timeout.ms": "600000"}])
def test_a_pair_of_settings_for_java_is_fitted(user: dict[str, str]) -> None:
    Consumer(consumer_config("east", {"bootstrap.servers": ""} | user)).close()


def test_librdkafka_accepts_both_configurations() -> None:
    properties = {"bootstrap.servers": "", "client.rack": "a", "fetch.min.bytes": "1"}
    Consumer(consumer_config("Östen/1", properties)).close()
    AdminClient({**admin_config("Östen/1", properties)})


def test_an_admin_client_gets_no_consumer_properties() -> None:
    config = admin_config("east", EAST | {"group.id": "g", "fetch.min.bytes": "1", "client.rack": "a"})
    assert config.keys() == EAST.keys() | {
        "client.rack",
        "client.id",
        "socket.keepalive.enable",
        "connections.max.idle.ms",
        "allow.auto.create.topics",
    }


def test_a_prefix_marks_the_client_ids_of_every_cluster() -> None:
    for name in ("clientIdPrefix", "properties.client.id.prefix"):
        options = parse_options({"streamIds": "a", "metadataPath": "/m", name: "team"}, mode="streaming")
        named = {host: SubscribedCluster({"a": "a"}, {"bootstrap.servers": f"{host}:9092"}) for host in ("east", "w/1")}
        clients = [client_of(options, Subscription(named, ("a",)), cluster) for cluster in named]
        assert [named_client.consumer_config()["client.id"] for named_client in clients] == ["team-east", "team-w_1"]
        assert [named_client.admin_config()["client.id"] for named_client in clients] == ["team-east", "team-w_1"]
        own = replace(clients[0], own={"bootstrap.servers": "e:9092", "client.id": "mine"})
        assert own.consumer_config()["client.id"] == "mine"


@pytest.mark.scenario(21)
def test_no_option_of_the_source_is_in_a_clients_configuration() -> None:
    given = {option.name: option.default for option in OPTIONS.values() if option.default is not None}
    given |= {"streamIds": "a", "metadataPath": "/m", "stateLocation": "/s", "kafka.client.rack": "r"}
    given |= {"properties.stream-metadata-removed-cluster-retention-ms": str(7 * 86_400_000)}
    options = parse_options(given, mode="streaming")
    config = client(dict(options.kafka_properties)).consumer_config()
    assert config["client.rack"] == "r"
    names = {key.lower() for option in OPTIONS.values() for key in (option.name, *option.aliases)}
    assert not names & config.keys()
    check_client_properties(config)


def test_a_pickled_cluster_client_holds_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", SECRET)
    described = client({"sasl.password": "${env:PW}"})
    assert described.consumer_config()["sasl.password"] == SECRET
    assert SECRET.encode() not in pickle.dumps(described)
    assert "PW" not in repr(described)


def test_a_jaas_text_is_translated_after_its_reference_resolves(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    (tmp_path / "jaas").write_text(f'{module} required username="u" password="{SECRET}";\n')
    config = client({"sasl.jaas.config": f"${{dir:{tmp_path}:jaas}}"}).admin_config()
    assert (config["sasl.username"], config["sasl.password"]) == ("u", SECRET)
    assert "sasl.jaas.config" not in config


def test_a_malformed_jaas_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "jaas").write_text(f"password={SECRET}")
    with pytest.raises(OptionError, match=r"cluster 'east'.*property 'sasl\.jaas\.config'.*not parse") as refused:
        client({"sasl.jaas.config": f"${{dir:{tmp_path}:jaas}}"}).admin_config()
    assert SECRET not in str(refused.value)


def test_metadata_may_not_hold_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", SECRET)
    with pytest.raises(SecretError, match=r"'east'.*'client\.id'.*holds a reference"):
        client(own={"client.id": "${env:PW}"}).consumer_config()


def test_a_single_clusters_servers_may_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "b:9092")
    servers = {"bootstrap.servers": "${env:SERVERS}"}
    assert client(servers, servers).admin_config()["bootstrap.servers"] == "b:9092"


def test_paths_of_metadata_lead_into_the_secret_folder(tmp_path: Path) -> None:
    secret_folder(tmp_path, {"ca.pem": "…", "sasl.password": SECRET})
    config = client(own={"ssl.ca.location": "ca.pem"}, root=tmp_path).consumer_config()
    assert config["ssl.ca.location"] == str(tmp_path / "east" / "ca.pem")


@pytest.mark.parametrize("path", ["/etc/passwd", "../west/ca.pem"])
def test_paths_of_metadata_cannot_leave_the_secret_folder(tmp_path: Path, path: str) -> None:
    secret_folder(tmp_path, {})
    with pytest.raises(SecretError, match="bare name of a file"):
        client(own={"ssl.ca.location": path}, root=tmp_path).consumer_config()
    with pytest.raises(SecretError, match="names a file; name its `secretFolder`"):
        client(own={"ssl.ca.location": path}).consumer_config()


def test_the_applications_own_paths_stay_as_they_are() -> None:
    assert client({"ssl.ca.location": "/etc/ca.pem"}).admin_config()["ssl.ca.location"] == "/etc/ca.pem"


def test_a_forbidden_property_is_forbidden_in_metadata_too() -> None:
    with pytest.raises(OptionError, match=r"cluster 'east'.*Kafka property 'auto\.offset\.reset'"):
        client(own={"auto.offset.reset": "latest"}).consumer_config()


def test_read_committed_needs_no_secrets() -> None:
    common = {"sasl.password": "${env:DYNAMIC_KAFKA_NOT_SET}"}
    assert not client(common).read_committed
    assert client(common, {"isolation.level": "read_committed"}).read_committed


def test_only_equal_configurations_have_one_digest() -> None:
    assert config_digest({"a": "1", "b": "2"}) == config_digest({"b": "2", "a": "1"})
    assert len({config_digest(config) for config in ({"a": "1"}, {"a": "2"}, {"a": "", "1": ""}, {"a1": ""})}) == 4


def test_a_rotated_password_gives_another_digest(tmp_path: Path) -> None:
    secret_folder(tmp_path, {"sasl.password": "one"})
    described = client(root=tmp_path)
    before = config_digest(described.consumer_config())
    assert config_digest(described.consumer_config()) == before
    (tmp_path / "east" / "sasl.password").write_text("two")
    assert config_digest(described.consumer_config()) != before


def test_a_rotated_certificate_gives_another_digest(tmp_path: Path) -> None:
    secret_folder(tmp_path, {"ca.pem": "one"})
    described = client(own={"ssl.ca.location": "ca.pem"}, root=tmp_path)
    before = config_digest(described.consumer_config())
    (tmp_path / "east" / "new").write_text("two")
    (tmp_path / "east" / "new").rename(tmp_path / "east" / "ca.pem")
    assert config_digest(described.consumer_config()) != before


def test_a_digest_does_not_reveal_a_password() -> None:
    # Without a key, passwords could be tried against a digest from a log.
    import hashlib

    plain = hashlib.blake2b(digest_size=16)
    for part in ("a", SECRET, ""):
        plain.update(len(part).to_bytes(8, "big") + part.encode())
    assert config_digest({"a": SECRET}) != plain.hexdigest()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"fetch.mim.bytes": "1"}, "no property 'fetch.mim.bytes'; did you mean 'fetch.min.bytes'?"),
        ({"fetch.mim.bytes": "${env:X}"}, "did you mean 'fetch.min.bytes'?"),
        ({"error_cb": "x"}, "no property 'error_cb'"),
        ({"rebalance_cb": "x"}, "no property 'rebalance_cb'"),
        ({"isolation.level": "read_comitted"}, "'isolation.level' is refused by the client: Invalid value"),
        ({"fetch.min.bytes": "many"}, "'fetch.min.bytes' is refused by the client"),
        ({"socket.timeout.ms": "1"}, "outside allowed range 10..300000"),
    ],
)
def test_librdkafka_checks_names_and_values(properties: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_client_properties(properties)
    assert message in str(refused.value)


def test_the_check_needs_no_files_secrets_or_servers() -> None:
    check_client_properties(
        {
            "bootstrap.servers": "nowhere:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.password": "${env:X}",
            "sasl.jaas.config": "${env:X}",
            "ssl.ca.location": "/not/there/yet",
            "isolation.level": "${env:X}",
        }
    )


@pytest.mark.parametrize("made", [admin_config, consumer_config])
def test_idle_connections_are_closed_before_clouds_drop_them(made: Callable[..., Mapping[str, str]]) -> None:
    assert int(made("east", EAST)["connections.max.idle.ms"]) < 240_000
    assert made("east", EAST | {"connections.max.idle.ms": "5000"})["connections.max.idle.ms"] == "5000"
