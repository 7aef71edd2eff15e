"""Secrets that are withheld: the options' from foreign servers and weaker connections, a folder's by its own list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import SecretError, SecretWithheldError
from dynamic_kafka.kafka.config import ClusterClient

SECRET = "hunter2"
LOG_IN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "owner",
    "sasl.password": "${env:DYNAMIC_KAFKA_PW}",
}
OWN_LOG_IN = {"sasl.username": "east", "sasl.password": "of-east"}


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMIC_KAFKA_PW", SECRET)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The secret folder `east`, still empty."""
    (tmp_path / "east").mkdir()
    return tmp_path / "east"


def put(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)


def client(
    common: dict[str, str], own: dict[str, str] | None = None, *, folder: Path | None = None, **more: Any
) -> ClusterClient:
    """Return a client of `e:9092`, which is allowed unless `more` says otherwise."""
    place = {"secret_folder": folder.name, "secrets_root": str(folder.parent)} if folder else {}
    own = {"bootstrap.servers": "e:9092"} | (own or {})
    return ClusterClient("east", common, own, **{"allowed_servers": "e:9092", **place, **more})


def refusal(asked: ClusterClient) -> str:
    for make in (asked.consumer_config, asked.admin_config):
        with pytest.raises(SecretWithheldError) as refused:
            make()
    assert SECRET not in str(refused.value)
    return str(refused.value)


# The options' secrets and the servers


def test_an_allowed_server_gets_the_options_secrets() -> None:
    assert client(LOG_IN).consumer_config()["sasl.password"] == SECRET


def test_one_foreign_server_among_several_gets_nothing() -> None:
    text = refusal(client(LOG_IN, {"bootstrap.servers": "e:9092,evil:9092"}))
    assert "cluster 'east': metadata names the server evil:9092, which" in text
    assert "not get kafka.sasl.password, kafka.sasl.username" in text
    assert "add it to allowedServers" in text


def test_a_server_under_a_second_name_is_compared_too() -> None:
    own = {"bootstrap.servers": "e:9092"}
    asked = ClusterClient(
        "east", LOG_IN, {"metadata.broker.list": "evil:9092"}, allowed_servers=own["bootstrap.servers"]
    )
    assert "evil:9092" in refusal(asked)


def test_nobody_is_allowed_without_a_list() -> None:
    assert "e:9092" in refusal(client(LOG_IN, allowed_servers=""))


def test_a_star_allows_every_server() -> None:
    assert client(LOG_IN, allowed_servers="*").consumer_config()["sasl.password"] == SECRET


def test_the_servers_of_the_options_get_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "b:9092")
    servers = {"bootstrap.servers": "${env:SERVERS}"}
    single = ClusterClient("default", LOG_IN | servers, servers)
    assert single.consumer_config()["sasl.password"] == SECRET
    # A user's subscriber may return a cluster with the same server, or with another one.
    assert ClusterClient("x", LOG_IN | servers, {"bootstrap.servers": "B:9092"}).consumer_config()
    assert "evil:1" in refusal(ClusterClient("x", LOG_IN | servers, {"bootstrap.servers": "evil:1"}))


def test_without_secrets_every_server_is_fine() -> None:
    common = {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}
    assert client(common, allowed_servers="").consumer_config()["ssl.ca.location"] == "/ca.pem"


# A log-in of the cluster's own


def test_a_complete_log_in_replaces_that_of_the_options(folder: Path) -> None:
    put(folder, **OWN_LOG_IN)
    common = {**LOG_IN, "sasl.jaas.config": "${env:NOT_SET_AT_ALL}", "client.id": "${env:DYNAMIC_KAFKA_PW}"}
    config = client(common, folder=folder, allowed_servers="").consumer_config()
    assert {key: config[key] for key in OWN_LOG_IN} == OWN_LOG_IN
    assert config["security.protocol"] == "SASL_SSL"
    assert SECRET not in config.values()


def test_an_incomplete_log_in_replaces_nothing(folder: Path) -> None:
    put(folder, sasl_password="of-east")
    asked = client(LOG_IN, folder=folder)
    assert asked.consumer_config()["sasl.username"] == "owner"
    assert "kafka.sasl.username" in refusal(client(LOG_IN, folder=folder, allowed_servers=""))


def test_a_private_key_is_a_log_in_without_sasl_only(folder: Path) -> None:
    put(folder, ssl_key_pem="key", ssl_certificate_pem="certificate")
    common = {key: value for key, value in LOG_IN.items() if key != "security.protocol"}
    config = client(common, {"security.protocol": "SSL"}, folder=folder, allowed_servers="").consumer_config()
    assert SECRET not in config.values() and "sasl.username" not in config
    assert refusal(client(LOG_IN, folder=folder, allowed_servers=""))


def test_the_options_key_is_not_given_beside_a_foreign_log_in(folder: Path) -> None:
    put(folder, **OWN_LOG_IN)
    common = LOG_IN | {"ssl.key.location": "/key.pem", "ssl.certificate.location": "/certificate.pem"}
    config = client(common, folder=folder, allowed_servers="").consumer_config()
    assert not {"ssl.key.location", "ssl.certificate.location"} & config.keys()
    assert client(common, folder=folder).consumer_config()["ssl.key.location"] == "/key.pem"


def test_a_cluster_with_its_own_log_in_chooses_its_protection(folder: Path) -> None:
    put(folder, **OWN_LOG_IN)
    own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "ssl.ca.pem": "own"}
    common = LOG_IN | {"sasl.oauthbearer.client.secret": "${env:DYNAMIC_KAFKA_PW}"}
    config = client(common, own, folder=folder).consumer_config()
    assert config["security.protocol"] == "SASL_PLAINTEXT" and SECRET not in config.values()


# Weaker connections

WEAKER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "ssl.ca.pem": "another authority",
    "enable.ssl.certificate.verification": "false",
    "ssl.endpoint.identification.algorithm": "none",
}


@pytest.mark.parametrize("key", WEAKER)
@pytest.mark.parametrize("allowed", ["e:9092", "*"])
def test_metadata_weakens_no_cluster_with_the_options_secrets(key: str, allowed: str) -> None:
    text = refusal(client(LOG_IN, {key: WEAKER[key]}, allowed_servers=allowed))
    assert f"cluster 'east': '{key}' in metadata" in text
    assert "take it out there" in text


@pytest.mark.parametrize("key", WEAKER)
def test_a_secret_folder_weakens_no_cluster_either(folder: Path, key: str) -> None:
    (folder / key).write_text(WEAKER[key])
    assert f"'{key}'" in refusal(client(LOG_IN, folder=folder))


def test_a_second_name_weakens_nothing_either() -> None:
    assert "'sasl.mechanism'" in refusal(client(LOG_IN, {"sasl.mechanisms": "PLAIN"}))


def test_a_mechanism_within_a_jaas_text_is_kept(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    (tmp_path / "jaas").write_text(f'{module} required username="u" password="{SECRET}";')
    common = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
    common["sasl.jaas.config"] = f"${{dir:{tmp_path}:jaas}}"
    assert "'sasl.mechanism'" in refusal(client(common, {"sasl.mechanism": "PLAIN"}))


def test_metadata_may_strengthen_and_tune() -> None:
    common = LOG_IN | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    own = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "client.rack": "a"}
    assert own.items() <= client(common, own).consumer_config().items()


# A folder's own list


def test_a_folders_list_allows_its_servers(folder: Path) -> None:
    put(folder, sasl_password=SECRET, allowedServers="other:1,\nE:9092\n")
    assert client({}, folder=folder).consumer_config()["sasl.password"] == SECRET


@pytest.mark.parametrize("common", [{}, LOG_IN], ids=["no common secrets", "common secrets"])
def test_a_folders_list_keeps_it_from_other_servers(folder: Path, common: dict[str, str]) -> None:
    put(folder, **OWN_LOG_IN, allowedServers="e:9092")
    text = refusal(client(common, {"bootstrap.servers": "e:9092,evil:9092"}, folder=folder, allowed_servers="*"))
    assert "file 'allowedServers'" in text
    assert "folder 'east' does not name evil:9092" in text
    assert "add the server there" in text


def test_a_folders_list_guards_files_that_metadata_locates(folder: Path) -> None:
    put(folder, allowedServers="e:9092", key="…")
    own = {"bootstrap.servers": "evil:9092", "ssl.key.location": "key", "security.protocol": "SSL"}
    assert "evil:9092" in refusal(client({}, own, folder=folder))


@pytest.mark.parametrize("content", ["", "e", "*:9092", "e:9092;evil:9092", SECRET])
def test_a_folders_list_that_is_none_allows_nobody(folder: Path, content: str) -> None:
    put(folder, sasl_password=SECRET, allowedServers=content)
    with pytest.raises(SecretError, match=r"'allowedServers' .*'east': is no list") as refused:
        client({}, folder=folder).consumer_config()
    assert SECRET not in str(refused.value)


def test_a_misspelt_list_allows_nobody(folder: Path) -> None:
    put(folder, sasl_password=SECRET, allowedservers="e:9092")
    with pytest.raises(SecretError, match="did you mean allowedServers"):
        client({}, folder=folder).consumer_config()


def test_a_changed_list_counts_at_the_next_client(folder: Path) -> None:
    put(folder, sasl_password=SECRET)
    asked = client({}, folder=folder)
    assert asked.consumer_config()
    put(folder, allowedServers="other:9092")
    assert refusal(asked)
