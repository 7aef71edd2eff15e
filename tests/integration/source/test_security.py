"""Secrets are used, rotated, refused, and never shown. Clusters use SASL_SSL with SCRAM and our own authority."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import DynamicKafkaError
from tests.integration.source.simulated_spark import at, document, numbered, query, read_batch, static, values
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import CertificateAuthority, KafkaCluster
from tests.support.places import ROOT
from tests.support.spark import loud_logging, spark_environment
from tests.support.waiting import eventually

DEEP = pytest.mark.deep("each form of a log-in, and its faults")

BOUNDED_S = 20.0
"""Longest time to a failure, in seconds; the tests' timeouts are 3 s."""
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


def secure(cluster: KafkaCluster, *topics: str, **more: Any) -> dict[str, Any]:
    """Return a cluster's part of a document, with its SASL_SSL listener."""
    return at(cluster, *topics, **more) | {"bootstrapServers": cluster.sasl_bootstrap}


def secret_folder(root: Path, cluster: KafkaCluster, user: str = "alice", name: str = "east") -> Path:
    """Create a mounted Secret as a kubelet does, with links through `..data`."""
    folder = root / name
    folder.mkdir(parents=True)
    rotate(
        folder,
        {
            "sasl.username": user,
            "sasl.password": cluster.users[user],
            "ssl.ca.pem": cluster.authority.certificate_file.read_text(),
        },
    )
    return folder


def rotate(folder: Path, files: dict[str, str]) -> None:
    """Replace the content of a mounted Secret."""
    edition = folder / f"..{time.monotonic_ns()}"
    edition.mkdir()
    for name, content in files.items():
        (edition / name).write_text(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..new"
    link.symlink_to(edition.name)
    link.replace(folder / "..data")


def wrong_password(root: Path, cluster: KafkaCluster) -> None:
    """Create such a Secret with a password that the cluster refuses."""
    authority = cluster.authority.certificate_file.read_text()
    wrong = {"sasl.username": "alice", "sasl.password": "not-the-secret", "ssl.ca.pem": authority}
    rotate(secret_folder(root, cluster), wrong)


def by_folder(cluster: KafkaCluster, name: str, root: Path, **more: Any) -> dict[str, str]:
    """Return options whose document names the cluster's secret folder."""
    text = document(east=secure(cluster, name, properties=SCRAM, secretFolder="east"))
    return static(text, startingOffsets="earliest", secretsRoot=root, readTimeout="3s", **more)


def by_references(cluster: KafkaCluster, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return options of the application, with one secret by each kind of reference."""
    folder.mkdir(exist_ok=True)
    (folder / "login.properties").write_text(f"user = alice\npassword={cluster.users['alice']}\n")
    (folder / "ca.pem").write_text(cluster.authority.certificate_file.read_text())
    monkeypatch.setenv("SCRAM_USER", "alice")
    return {
        "kafka.bootstrap.servers": cluster.sasl_bootstrap,
        "subscribe": name,
        "startingOffsets": "earliest",
        "readTimeout": "3s",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "${env:SCRAM_USER}",
        "kafka.sasl.password": f"${{file:{folder}/login.properties:password}}",
        "kafka.ssl.ca.pem": f"${{dir:{folder}:ca.pem}}",
    }


# Used


@DEEP
def test_the_applications_references_reach_the_cluster(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = secure_cluster.create_topic(topic("orders"))
    secure_cluster.produce(name, numbered(5))

    with query(by_references(secure_cluster, name, tmp_path, monkeypatch)) as reading:
        rows = reading.batch()

    assert values(rows) == Counter(value.encode() for value in numbered(5))
    assert secure_cluster.users["alice"] not in reading.log[-1]


@DEEP
def test_a_java_jaas_line_works_with_references(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = secure_cluster.create_topic(topic("orders"))
    secure_cluster.produce(name, numbered(5))
    options = by_references(secure_cluster, name, tmp_path, monkeypatch)
    password = options.pop("kafka.sasl.password")
    del options["kafka.sasl.username"]
    options["kafka.sasl.jaas.config"] = (
        f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{password}";'
    )
    options["kafka.ssl.truststore.type"] = "PEM"
    options["kafka.ssl.truststore.certificates"] = options.pop("kafka.ssl.ca.pem")

    assert len(read_batch(options)) == 5


@DEEP
def test_a_document_names_the_clusters_secret_folder(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    name = secure_cluster.create_topic(topic("orders"))
    secure_cluster.produce(name, numbered(5))
    secret_folder(tmp_path, secure_cluster)

    with query(by_folder(secure_cluster, name, tmp_path)) as reading:
        rows = reading.batch()

    assert values(rows) == Counter(value.encode() for value in numbered(5))


def test_each_cluster_has_its_own_credentials(
    secure_cluster: KafkaCluster, brokers: Brokers, topic: Topic, tmp_path: Path
) -> None:
    # Given a secure cluster and a plain one in one stream
    name = topic("orders")
    for cluster in (secure_cluster, brokers.a):
        cluster.create_topic(name)
        cluster.produce(name, ["x"])
    secret_folder(tmp_path, secure_cluster, "bob")
    text = document(east=secure(secure_cluster, name, properties=SCRAM, secretFolder="east"), west=at(brokers.a, name))

    rows = read_batch(static(text, secretsRoot=tmp_path))

    assert Counter(row["kafka_cluster"] for row in rows) == {"east": 1, "west": 1}


# Rotated


def test_a_rotated_secret_is_used_without_a_restart(fresh_cluster: FreshCluster, topic: Topic, tmp_path: Path) -> None:
    # Given a running query, and cached consumers
    cluster = fresh_cluster("rotating", users={"alice": "first-secret"})
    name = cluster.create_topic("orders")
    cluster.produce(name, ["first"])
    folder = secret_folder(tmp_path, cluster)
    with query(by_folder(cluster, name, tmp_path)) as reading:
        assert values(reading.batch()) == Counter([b"first"])

        # When the password changes, and every connection must log in again
        cluster.set_password("alice", "second-secret")
        rotate(
            folder,
            {
                "sasl.username": "alice",
                "sasl.password": "second-secret",
                "ssl.ca.pem": cluster.authority.certificate_file.read_text(),
            },
        )
        cluster.restart()
        cluster.produce(name, ["second"])

        # Then the same run continues
        rows: list[Any] = []
        assert eventually(lambda: bool(rows.extend(reading.batch()) or rows))
        assert values(rows) == Counter([b"second"])
    assert len(reading.log) == 2


# Refused


@DEEP
@pytest.mark.parametrize("way", ["stream", "batch"])
def test_a_wrong_password_fails_in_bounded_time(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path, way: str
) -> None:
    name = secure_cluster.create_topic(topic("orders"))
    wrong_password(tmp_path, secure_cluster)
    options = by_folder(secure_cluster, name, tmp_path)

    began = time.monotonic()
    with pytest.raises(DynamicKafkaError) as raised:
        read_batch(options) if way == "batch" else _first_batch(options)

    assert time.monotonic() - began < BOUNDED_S
    assert "[CLUSTER_REFUSED cluster=east]" in str(raised.value)
    assert "the cluster refuses the login (" in str(raised.value)
    assert "cluster's properties" in str(raised.value) and "its secret folder" in str(raised.value)
    assert "not-the-secret" not in _whole_text(raised.value)


@DEEP
def test_a_wrong_password_of_two_clusters_is_named_once(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    # Given two clusters with one log-in; one broker stands for both, as it refuses the log-in before it shows its id
    east = secure(secure_cluster, secure_cluster.create_topic(topic("orders")), properties=SCRAM, secretFolder="east")
    wrong_password(tmp_path, secure_cluster)
    options = static(document(east=east, west=east), startingOffsets="earliest", secretsRoot=tmp_path, readTimeout="3s")

    with pytest.raises(DynamicKafkaError) as raised:
        _first_batch(options)

    assert (
        str(raised.value).count("refuses the login") == str(raised.value).count("check the cluster's properties") == 1
    )
    assert str(raised.value).endswith(". The same holds for west")


@DEEP
def test_a_wrong_authority_fails_in_bounded_time(secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path) -> None:
    name = secure_cluster.create_topic(topic("orders"))
    folder = secret_folder(tmp_path, secure_cluster)
    other = CertificateAuthority(tmp_path / "other", "another authority").certificate_file.read_text()
    password = secure_cluster.users["alice"]
    rotate(folder, {"sasl.username": "alice", "sasl.password": password, "ssl.ca.pem": other})

    began = time.monotonic()
    with pytest.raises(DynamicKafkaError) as raised:
        _first_batch(by_folder(secure_cluster, name, tmp_path))

    assert time.monotonic() - began < BOUNDED_S
    assert "[CLUSTER_REFUSED cluster=east]" in str(raised.value)
    assert "the given authority" in str(raised.value) and "of the server (" in str(raised.value)
    assert password not in _whole_text(raised.value)
    assert other.splitlines()[1] not in _whole_text(raised.value)


@DEEP
def test_an_executor_that_cannot_log_in_gives_the_reason(fresh_cluster: FreshCluster, tmp_path: Path) -> None:
    # Given a planned batch, and a password that changes before it is read
    cluster = fresh_cluster("changing", users={"alice": "first-secret"})
    name = cluster.create_topic("orders")
    cluster.produce(name, ["x"])
    secret_folder(tmp_path, cluster)
    with query(by_folder(cluster, name, tmp_path)) as reading:
        assert reading.plan()
        cluster.set_password("alice", "second-secret")

        began = time.monotonic()
        with pytest.raises(DynamicKafkaError) as raised:
            reading.read()

    assert time.monotonic() - began < BOUNDED_S
    assert "CLUSTER_REFUSED cluster=east" in str(raised.value)
    assert "uthentication" in str(raised.value)
    assert "first-secret" not in _whole_text(raised.value)


@DEEP
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${file:/nowhere/login:password}", "/nowhere/login"),
        ("${env:NOT_SET_AT_ALL}", "NOT_SET_AT_ALL"),
        ("${dir:/nowhere:password}", "/nowhere"),
    ],
)
def test_an_unresolved_reference_is_named(
    secure_cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, message: str
) -> None:
    options = by_references(secure_cluster, "orders", tmp_path, monkeypatch)

    with pytest.raises(DynamicKafkaError) as raised:
        _first_batch(options | {"kafka.sasl.password": reference})

    assert message in str(raised.value)
    assert "sasl.password" in str(raised.value)


@DEEP
def test_a_missing_secret_folder_is_named(secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path) -> None:
    with pytest.raises(DynamicKafkaError, match=r"'east'.*folder .*/east is not there"):
        _first_batch(by_folder(secure_cluster, topic("orders"), tmp_path))


def _first_batch(options: dict[str, str]) -> None:
    with query(options) as reading:
        reading.batch()


def _whole_text(error: BaseException) -> str:
    """Return the error's text with all its causes, as a log may show it."""
    import traceback

    return "".join(traceback.format_exception(error))


# Never shown

APPLICATION = """
import json, sys, time
from pathlib import Path

from dynamic_kafka import register
from tests.support.spark import start_spark

folder, runs = Path(sys.argv[1]), json.loads(sys.argv[2])
spark = start_spark("secrets", {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.dir": (folder / "events").as_uri(),
    "spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=" + str(folder / "log4j2.xml"),
})
register(spark)
for name, options in runs.items():
    frame = spark.readStream.format("dynamic-kafka").options(**options).load()
    frame.explain(True)
    query = (frame.writeStream.format("parquet").queryName(name).option("path", str(folder / "out" / name))
             .option("checkpointLocation", str(folder / "checkpoint" / name)).trigger(availableNow=True).start())
    try:
        query.awaitTermination(90)
    except Exception as error:
        print("FAILED", name, error)
    query.explain(True)
    print(query.lastProgress.json if query.lastProgress else "")
    print("EXCEPTION", query.exception())
    if name.endswith("wrong"):
        continue
    batch = {k: v for k, v in options.items() if k != "maxOffsetsPerTrigger"}
    read = spark.read.format("dynamic-kafka").options(**batch).load()
    read.explain(mode="extended")
    print(read._jdf.queryExecution().toString(), read._jdf.queryExecution().analyzed().toJSON())
    print("ROWS", name, read.count())
spark.stop()
"""


@pytest.mark.spark
def test_no_secret_is_in_checkpoints_plans_event_logs_or_logs(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given both ways to credentials, each also with a wrong password, and a driver that logs everything
    name = secure_cluster.create_topic(topic("orders"))
    secure_cluster.produce(name, numbered(5))
    (tmp_path / "events").mkdir()
    loud_logging(tmp_path / "log4j2.xml", tmp_path / "driver.log")
    secret_folder(tmp_path / "secrets", secure_cluster)
    wrong = secret_folder(tmp_path / "wrong", secure_cluster)
    authority = secure_cluster.authority.certificate_file.read_text()
    rotate(wrong, {"sasl.username": "alice", "sasl.password": "wrong-secret-2", "ssl.ca.pem": authority})
    references = by_references(secure_cluster, name, tmp_path / "references", monkeypatch)
    (tmp_path / "references" / "wrong").write_text("password=wrong-secret-3")
    runs = {
        "folder": by_folder(secure_cluster, name, tmp_path / "secrets", kafka__group__id=topic("group")),
        "references": references,
        "folder-wrong": by_folder(secure_cluster, name, tmp_path / "wrong"),
        "references-wrong": references | {"kafka.sasl.password": f"${{file:{tmp_path}/references/wrong:password}}"},
    }

    # When Spark runs streams and batches over them
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION, str(tmp_path), json.dumps(runs)],
        cwd=ROOT,
        env={**os.environ, **spark_environment()},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=280,
        check=False,
    )
    (tmp_path / "output.log").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]

    # Then the right passwords work, and the wrong ones fail with the reason
    assert "ROWS folder 5" in done.stdout and "ROWS references 5" in done.stdout
    assert "FAILED folder-wrong" in done.stdout and "FAILED references-wrong" in done.stdout
    assert done.stdout.count("uthentication") >= 2

    # and no file that they wrote contains a secret
    secrets = {
        "password": secure_cluster.users["alice"],
        "wrong password of the folder": "wrong-secret-2",
        "wrong password of the reference": "wrong-secret-3",
        "certificate": authority.splitlines()[1],
    }
    kept = {"secrets", "wrong", "references"}
    written = [p for p in tmp_path.rglob("*") if p.is_file() and p.relative_to(tmp_path).parts[0] not in kept]
    places = {path.relative_to(tmp_path).parts[0] for path in written}
    assert {"events", "checkpoint", "out", "driver.log", "output.log"} <= places
    leaks = [
        (what, str(path))
        for path in written
        for what, secret in secrets.items()
        if secret.encode() in path.read_bytes()
    ]
    assert leaks == []
    # (the search does find a text that is there)
    with_topic = {path.relative_to(tmp_path).parts[0] for path in written if name.encode() in path.read_bytes()}
    assert {"events", "checkpoint"} <= with_topic


@DEEP
def test_no_log_line_of_planning_and_reading_has_a_secret(
    secure_cluster: KafkaCluster, topic: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = secure_cluster.create_topic(topic("orders"))
    secure_cluster.produce(name, numbered(5))
    secret_folder(tmp_path, secure_cluster)

    with (
        caplog.at_level(logging.DEBUG),
        query(by_folder(secure_cluster, name, tmp_path, kafka__group__id=topic("group"))) as reading,
    ):
        reading.batch()
        message = repr(reading.reader.options) + repr(
            reading.reader.partitions({"version": 2}, json.loads(reading.log[0]))
        )

    assert secure_cluster.users["alice"] not in caplog.text + message
    assert caplog.records
