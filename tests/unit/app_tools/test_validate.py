"""`validate`: all mistakes of one run, each with its place, and without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.store import StateLocation

PASSWORD = "hunter2-very-secret"


def write(folder: Path, **fields: Any) -> Path:
    """An app.yaml over a metadata file beside it, with a password by reference."""
    (folder / "secrets.properties").write_text(f"pw={PASSWORD}\n")
    (folder / "streams.yaml").write_text(
        "- streamId: orders\n"
        "  clusterMetadataList:\n"
        "    - {clusterId: east, bootstrapServers: 'e:9092', topics: [orders]}\n"
    )
    content = {
        "name": "shop",
        "metadata": str(folder / "streams.yaml"),
        "streams": {"ids": ["orders"]},
        "options": {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "me",
            "kafka.sasl.password": f"${{file:{folder}/secrets.properties:pw}}",
            "allowedServers": "e:9092",
        },
        "checkpoint": str(folder / "checkpoint"),
        "sinks": [{"name": "out", "type": "console"}],
        **fields,
    }
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def findings(capsys: pytest.CaptureFixture[str], path: Path, code: int) -> dict[str, list[str]]:
    """Return the mistakes by check, after both forms of the output were checked for the password."""
    assert main(["validate", str(path)]) == code
    output = capsys.readouterr()
    assert PASSWORD not in output.out + output.err
    main(["validate", str(path), "--json"])
    printed = capsys.readouterr().out
    assert PASSWORD not in printed
    wrong: dict[str, list[str]] = {}
    for load in json.loads(printed):
        if not load["ok"]:
            wrong.setdefault(load["check"], []).append(load["text"])
    return wrong


def test_a_good_application_has_no_findings_and_nothing_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    before = sorted(tmp_path.iterdir())

    assert findings(capsys, path, 0) == {}
    main(["validate", str(path)])
    assert f"{tmp_path}/checkpoint/out does not exist yet" in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == before


def test_a_server_that_gets_no_secret_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    metadata = tmp_path / "streams.yaml"
    metadata.write_text(metadata.read_text().replace("e:9092", "evil:9092"))

    (text,) = findings(capsys, path, 2)["cluster east"]

    assert text.startswith("cluster 'east': metadata names the server evil:9092, which")


def test_the_home_of_internal_topics_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [{"name": "offsets", "kind": "changelog"}]

    def wrong(**home: Any) -> str:
        path = write(tmp_path, internalTopics={"topics": topics, **home})
        return "".join(findings(capsys, path, 2)["internal topics"])

    assert findings(capsys, write(tmp_path, internalTopics={"topics": topics, "cluster": "east"}), 0) == {}
    refusal = wrong(cluster="eats")
    assert "names no cluster 'eats'" in refusal and "mean 'east'?" in refusal
    own: dict[str, Any] = {"bootstrapServers": "k:9092"}
    assert "no property 'securty.protocol'" in wrong(**own, properties={"securty.protocol": "SSL"})
    assert "SHOP_ABSENT" in wrong(**own, properties={"sasl.password": "${env:SHOP_ABSENT}"})


def test_a_certificate_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ca.pem").write_text(PASSWORD)
    path = write(
        tmp_path, options={"kafka.security.protocol": "SSL", "kafka.ssl.ca.pem": f"${{dir:{tmp_path}:ca.pem}}"}
    )

    (text,) = findings(capsys, path, 4)["cluster east"]

    assert text.startswith("[CLUSTER_REFUSED cluster=east] no client can be made: ") and "ssl.ca.pem" in text


def test_a_fault_in_app_yaml_is_named_by_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, sinks=[{"name": "out", "type": "consul"}])

    (text,) = findings(capsys, path, 2)["app.yaml"]

    assert "app.yaml:" in text and "type" in text


def test_a_fault_in_the_metadata_is_named_by_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    (tmp_path / "streams.yaml").write_text(
        "- streamId: orders\n"
        "  clusterMetadataList:\n"
        "    - {clusterId: east, bootstrapServer: 'e:9092', topics: [orders]}\n"
    )

    (text,) = findings(capsys, path, 3)["metadata"]

    assert "streams.yaml:3" in text and "did you mean 'bootstrapServers'" in text


def test_a_stream_that_the_metadata_does_not_have_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, streams={"ids": ["order"]})

    assert "known are orders" in findings(capsys, path, 3)["metadata"][0]


def test_several_faults_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(
        tmp_path,
        sinks=[
            {"name": "out", "foreachBatch": "no_such_module:function", "transformation": {"function": "nor_this:one"}}
        ],
        options={
            "kafka.sesion.timeout.ms": "1000",
            "kafka.sasl.password": "${file:/no/such/file:pw}",
            "allowedServers": "*",
        },
    )

    wrong = findings(capsys, path, 2)

    assert "no_such_module" in wrong["function of sink out"][0]
    assert "nor_this" in wrong["transformation of sink out"][0]
    assert "session.timeout.ms" in wrong["client properties"][0]
    line = path.read_text().splitlines().index("  kafka.sesion.timeout.ms: '1000'") + 1
    assert f"app.yaml:{line}: options.kafka.sesion.timeout.ms: " in wrong["client properties"][0]
    assert "/no/such/file" in wrong["cluster east"][0]


def test_a_class_of_the_user_s_has_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, metadata=None, options={"metadataService": "json:JSONDecoder"})

    assert "KafkaMetadataService" in findings(capsys, path, 2)["metadata service"][0]


def test_a_checkpoint_that_cannot_be_made_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for place in ("/proc/nope", str(tmp_path / "file")):
        wrong = findings(capsys, write(tmp_path, checkpoint=place), 2)
        assert place.rpartition("/")[0] in wrong["checkpoint of sink out"][0]
        assert "cannot be written" in wrong["state of sink out"][0]


@pytest.mark.parametrize("format_name", ["parquet", "xml", "avro", "org.apache.spark.sql.execution.datasources.orc"])
def test_a_checkpoint_that_is_older_than_its_files_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_name: str
) -> None:
    (tmp_path / "lake" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "lake" / "_spark_metadata" / "4").write_text("v1")
    sink = {"name": "out", "type": "format", "format": format_name, "options": {"path": str(tmp_path / "lake")}}
    wrong = findings(capsys, write(tmp_path, sinks=[sink]), 4)
    (text,) = wrong["checkpoint of sink out"]
    assert "has no batch yet, " in text and "log of the sink" in text
    assert "skip batches 0 to 4 " in text and "all their records" in text
    log = tmp_path / "lake" / "_spark_metadata"
    (log / "4").rename(log / "0")
    (text,) = findings(capsys, tmp_path / "app.yaml", 4)["checkpoint of sink out"]
    assert "skip batch 0 " in text and "all its records" in text


def test_the_output_names_what_was_not_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    assert main(["validate", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split(maxsplit=2)[1:] == [
        "-",
        "not checked: servers, log-in, topics and rights; --connect asks the clusters",
    ]


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, options={"readTimeout": "1s"})
    streams = (tmp_path / "streams.yaml").read_text()
    (tmp_path / "streams.yaml").write_text(streams.replace("e:9092", "127.0.0.1:1"))
    assert main(["validate", str(path), "--connect"]) == 5
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("connection to east")
    assert "WRONG  [CLUSTER_UNREACHABLE cluster=east]" in last
    assert "east has the bootstrap" in last and "servers 127.0.0.1:1. Correct" in last


def test_a_duration_without_a_unit_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(write(tmp_path, gracePeriod=30))]) == 0
    output = capsys.readouterr().out
    assert "note: gracePeriod is '30' without" in output and "means 30 ms" in output


def test_a_moved_state_location_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offsets = tmp_path / "checkpoint" / "out" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n" + json.dumps(encode(OffsetDocument("q", 1, "", state="e1"))))
    StateLocation(str(tmp_path / "checkpoint" / "out" / "dynamic-kafka")).bind("q", "e1")
    assert findings(capsys, write(tmp_path), 0) == {}

    moved = write(tmp_path, options={"stateLocation": str(tmp_path / "elsewhere")})
    (text,) = findings(capsys, moved, 4)["state of sink out"]

    assert "elsewhere/q holds no state" in text and "used the state e1" in text


def test_the_state_of_each_source_of_a_query_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offsets, state = tmp_path / "checkpoint" / "out" / "offsets", tmp_path / "state"
    offsets.mkdir(parents=True)
    logged = [json.dumps(encode(OffsetDocument(query, 1, "", state=f"of {query}"))) for query in ("one", "other")]
    (offsets / "0").write_text("\n".join(["v1", "{}", *logged]))
    StateLocation(str(state)).bind("one", "of one")

    (text,) = findings(capsys, write(tmp_path, options={"stateLocation": str(state)}), 4)["state of sink out"]

    assert "other holds no state" in text and "used the state of other" in text
