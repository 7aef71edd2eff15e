"""`app.yaml`: its fields, and its mistakes with line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.loading import load_config, parse_config
from dynamic_kafka.errors import OptionError
from tests.support.places import ROOT

MINIMAL = """\
name: orders
metadata: /etc/kafkastreams
streams: {ids: [orders]}
checkpoint: /data/checkpoints/
sinks:
- name: lake
  type: parquet
  options: {path: /data/lake}
"""


def parsed(text: str) -> AppConfig:
    return parse_config(text, source="app.yaml")


def refused(text: str) -> str:
    with pytest.raises(OptionError) as caught:
        parsed(text)
    return str(caught.value)


def test_a_sink_has_a_checkpoint_of_its_own_and_state_in_it() -> None:
    config = parsed(MINIMAL)
    sink = config.sink()
    assert config.checkpoint_of(sink) == "/data/checkpoints/lake"
    assert config.source_options(sink) == {
        "metadataPath": "/etc/kafkastreams",
        "streamIds": "orders",
        "stateLocation": "/data/checkpoints/lake/dynamic-kafka",
    }


def test_a_state_location_of_the_users_stays() -> None:
    config = parsed(MINIMAL + "options: {stateLocation: 's3://bucket/state'}\n")
    assert config.source_options(config.sink())["stateLocation"] == "s3://bucket/state"


def test_the_delay_of_a_watermark_covers_the_drift() -> None:
    aligned = MINIMAL + "options: {watermarkAlignmentMaxDrift: 5m}\n"
    wanted = parsed(aligned + "watermark: {delay: 5m}\n").file.watermark
    assert wanted is not None
    assert (wanted.column, wanted.delay) == (None, 300_000)
    assert "app.yaml:10: watermark.delay: this watermark has a delay" in refused(aligned + "watermark: {delay: 4m}\n")
    assert "app.yaml:9: watermark.delay" in refused(MINIMAL + "watermark: {delay: 4m}\n")
    assert "app.yaml:10: watermark.column" in refused(aligned + "watermark: {delay: 5m, column: value}\n")


def test_a_watermark_goes_by_the_times_in_the_value() -> None:
    timed = MINIMAL + "options: {watermarkAlignmentMaxDrift: 5m, timestampAssigner: 'json:loads'"
    parsed(timed + "}\nwatermark: {delay: 5m}\n")
    parsed(timed + "}\nwatermark: {delay: 5m, column: kafka_event_time}\n")
    assert "app.yaml:10: watermark.column: is timestamp" in refused(
        timed + "}\nwatermark: {delay: 5m, column: timestamp}\n"
    )
    lacking = refused(timed + ", columns: 'value,timestamp'}\nwatermark: {delay: 5m}\n")
    assert "app.yaml:9: options.columns: lacks 'kafka_event_time'" in lacking


def test_the_application_commits_instead_of_the_source() -> None:
    config = parsed(MINIMAL + "options: {kafka.group.id: g, commitOffsets: true}\n")
    assert config.parsed_options(config.sink()).commit_offsets
    given = config.reader_options(config.sink())
    assert given["commitOffsets"] == "false"
    assert given["applicationCommits"] == "true"


def test_option_values_are_text_and_mappings_are_json() -> None:
    config = parsed(MINIMAL + "options: {includeHeaders: true, startingOffsets: {east: {orders: {'0': 42}}}}\n")
    options = config.source_options(config.sink())
    assert options["includeHeaders"] == "true"
    assert options["startingOffsets"] == '{"east": {"orders": {"0": 42}}}'


def test_references_to_secrets_stay_as_they_are() -> None:
    config = parsed(MINIMAL + "options: {kafka.sasl.password: '${env:PASSWORD}', allowedServers: 'e:1'}\n")
    assert config.source_options(config.sink())["kafka.sasl.password"] == "${env:PASSWORD}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("name: orders", "nam: orders"), "app.yaml:1: nam: unknown field; did you mean 'name'?"),
        (("{ids: [orders]}", "{ids: [orders], pattern: o.*}"), "app.yaml:3: streams: set exactly one of"),
        (("type: parquet", "type: parqet"), "'console' or 'format'; did you mean 'parquet'?"),
        (("{path: /data/lake}", "{}"), "app.yaml:8: sinks[0].options: a Parquet sink needs the option `path`"),
        (
            ("{path: /data/lake}", "{path: /data/lake, asyncProgressTrackingEnabled: true}"),
            "sinks[0].options.asyncProgressTrackingEnabled: Spark would log only some batches, and could not repeat",
        ),
        (("{path: /data/lake}", "{pth: /data/lake}"), "needs the option `path`; is 'pth' a misspelling of it?"),
        (("sinks:", "trigger: 10s\nsinks:"), "must be a mapping; write for example `trigger: {interval: 10s}`"),
        (("sinks:", "metrics: 9108\nsinks:"), "metrics: must be a mapping; write for example `metrics: {port: 9108}`"),
        (("[orders]", "orders"), "app.yaml:3: streams.ids: must be a list, even of one item: write `[orders]`"),
        (("{ids: [orders]}", "orders"), "streams: must be a mapping; write for example `streams: {ids: [orders]}`"),
        (("sinks:", "gracePeriod: [30s]\nsinks:"), "gracePeriod: is '[\"30s\"]', which is not a duration"),
        (("sinks:", "gracePeriod: soon\nsinks:"), "app.yaml:5: gracePeriod: is 'soon', which is not a duration"),
        (("sinks:", "options: {startingOffsets: earlyest}\nsinks:"), "options.startingOffsets: is 'earlyest'; it must"),
        (("name: lake", "name: la/ke"), "app.yaml:6: sinks[0].name: a name has 1 to 100"),
        (("sinks:", "trigger: {interval: soon}\nsinks:"), "app.yaml:5: trigger.interval: is 'soon', which"),
        (("sinks:", "trigger: {once: true, availableNow: true}\nsinks:"), "app.yaml:5: trigger: set exactly one of"),
        (("sinks:", "options: {readTimout: 3s}\nsinks:"), "options.readTimout: unknown option; did you mean 'rea"),
        (("sinks:", "options: {streamIds: a}\nsinks:"), "app.yaml:5: options.streamIds: is already set by"),
        (("sinks:", "options: {applicationCommits: true}\nsinks:"), "options.applicationCommits: is set by"),
        (("sinks:", "spark: {executor.memory: 1g}\nsinks:"), 'spark."executor.memory": is not a setting'),
        (("sinks:", "options: {readReports: h:1/x}\nsinks:"), "app.yaml:5: options.readReports: is set by"),
        (("sinks:", "options: {applicationQueries: q}\nsinks:"), "app.yaml:5: options.applicationQueries: is set by"),
        (("sinks:", "metrics: {port: 99999}\nsinks:"), "app.yaml:5: metrics.port"),
        (("sinks:", "metrics: {port: 1, reportPort: 2}\nsinks:"), "app.yaml:5: metrics.reportPort: unknown field"),
        (("type: parquet", "foreachBatch: no function"), "app.yaml:7: sinks[0].foreachBatch: must be written"),
        (("{path: /data/lake}", "{path: /x, checkpointLocation: /y}"), "sinks[0].options.checkpointLocation"),
        (("metadata: /etc/kafkastreams\n", ""), "metadataService=file needs `metadata`, the document"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_line_and_field(change: tuple[str, str], message: str) -> None:
    text = MINIMAL.replace(*change)
    assert text != MINIMAL
    assert message in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "- streamId: orders\n  clusterMetadataList: []\n",
        "revision: 17\nstreams: {orders: {clusters: {}}}\n",
        "contract: 1\nstreams: {}\n",
    ],
)
def test_a_metadata_document_is_recognised(text: str) -> None:
    message = refused(text)
    assert "app.yaml looks like" in message and "metadata document, not" in message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        # The message also names another option of the file. The line is that of the option to change.
        (
            "kafka.auto.offset.reset: latest",
            """app.yaml:11: options."kafka.auto.offset.reset": Kafka property 'auto.""",
        ),
        (
            "kafka.ssl.truststore.location: x.jks",
            'app.yaml:11: options."kafka.ssl.truststore.location": Kafka property',
        ),
        ("properties.ssl.provider: X", """app.yaml:11: options."properties.ssl.provider": Kafka property 'ssl.prov"""),
        (
            "kafka.sasl.jaas.config: 'a.Krb5LoginModule required;'",
            """options."kafka.sasl.jaas.config": property 'sasl""",
        ),
        ("kafka.sasl.jaas.config: x", 'options."kafka.sasl.jaas.config": the JAAS text does not parse'),
        ("endingOffsets: earliest", "app.yaml:11: options.endingOffsets: the end can't be earliest"),
    ],
)
def test_a_wrong_option_is_reported_once_with_its_line(wrong: str, message: str) -> None:
    assert message in refused(MINIMAL + f"options:\n  startingOffsets: earliest\n  {wrong}\n")


@pytest.mark.parametrize(
    ("first", "second"),
    [("/data/lake", "/data/lake"), ("/data/lake", "file:/data/x/../lake/"), ("s3://b/lake", "s3a://b/lake/")],
)
def test_two_sinks_do_not_share_a_folder(first: str, second: str) -> None:
    text = MINIMAL.replace("/data/lake", first)
    text += f"- {{name: second, type: format, format: xml, options: {{path: '{second}'}}}}\n"
    message = refused(text)
    assert "app.yaml:9: sinks[1].options: " in message and "folder of sink 'lake'" in message
    parsed(text.replace(second, "/data/second") if first != second else text.replace("path: '", "path: '/data/second"))


def test_all_mistakes_are_reported_at_once() -> None:
    message = refused(MINIMAL.replace("name: orders", "nam: orders").replace("parquet", "parqet"))
    assert message.startswith("2 problems in app.yaml:")


def test_two_sinks_need_groups_of_their_own() -> None:
    two = MINIMAL + "- {name: second, type: console}\noptions: {kafka.group.id: g}\n"
    message = refused(two)
    assert "sinks 'lake' and 'second'" in message and "the same group 'g'" in message
    config = parsed(two.replace("name: second", "name: second, groupId: other"))
    assert [config.parsed_options(sink).group_id for sink in config.sinks] == ["g", "other"]


def test_a_sink_that_is_not_there_is_refused_with_those_that_are() -> None:
    config = parsed(MINIMAL + "- {name: second, type: console}\n")
    with pytest.raises(OptionError, match=r"app\.yaml: .*'zz'.*--sink: lake, second"):
        config.sink("zz")
    with pytest.raises(OptionError, match=r"several sinks.*--sink: lake, second"):
        config.sink()


def test_two_sinks_need_names_of_their_own() -> None:
    assert "another sink is named 'lake'" in refused(MINIMAL + "- {name: lake, type: console}\n")


@pytest.mark.parametrize("where", ["options: {kafka.sasl.password: hunter2}\n", "# sink"])
def test_a_literal_secret_is_refused_and_not_shown(where: str) -> None:
    text = MINIMAL + where
    if where == "# sink":
        options = "{kafka.bootstrap.servers: 'k:9092', kafka.sasl.password: hunter2}"
        text = MINIMAL + f"- {{name: out, type: kafka, options: {options}}}\n"
    message = refused(text)
    assert "sasl.password" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("checkpoint: /data/checkpoints/", "checkpoint"),
        ("path: /data/lake", "sinks[0].options.path"),
    ],
)
def test_a_password_in_a_path_is_refused_and_not_shown(written: str, field: str) -> None:
    text = MINIMAL.replace(written, f"{written.partition(':')[0]}: s3a://AKIA:hunter2@bucket/x")
    message = refused(text + "options: {stateLocation: /data/state}\n")
    assert f": {field}: has a user" in message and "password in its URL" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("text", ["", "   \n", "[]", "just text", "name: [unclosed"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert "app.yaml" in refused(text)


def test_a_missing_file_is_refused_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_example_is_valid() -> None:
    config = load_config(ROOT / "examples" / "app.yaml")
    assert len(config.sinks) >= 2


TEMPLATE = """\
name: orders
metadata: /etc/kafkastreams
streams: {streams}
checkpoint: /data/checkpoint
sinks:
  - {{name: out, type: console{sink}}}
{more}
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"streams": "{id: [orders]}"}, "streams.id: unknown field; did you mean 'ids'?"),
        ({"streams": "{patern: 'a.*'}"}, "streams.patern: unknown field; did you mean 'pattern'?"),
        ({"more": "metrics: {prot: 9108}"}, "metrics.prot: unknown field; did you mean 'port'?"),
        ({"more": "metrics: {port: 9108, reportPort: 1}"}, "did you mean 'reportsPort'?"),
        ({"sink": ", trigger: {intervall: 10s}"}, "trigger.intervall: unknown field; did you mean 'interval'?"),
        ({"more": "trigger: {intervall: 10s}"}, "trigger.intervall: unknown field; did you mean 'interval'?"),
        ({"more": "transformation: {slq: x}"}, "transformation.slq: unknown field; did you mean 'sql'?"),
        ({"sink": ", grupId: x"}, "did you mean 'groupId'?"),
    ],
)
def test_a_misspelt_field_is_reported_with_the_nearest_one(given: dict[str, str], message: str) -> None:
    # at every depth of the file
    text = TEMPLATE.format(**{"streams": "{ids: [orders]}", "sink": "", "more": "", **given})
    refusal = refused(text)
    assert message in refusal
    assert "is missing" not in refusal


def test_a_short_duration_of_the_file_without_a_unit_is_noted() -> None:
    text = MINIMAL + "  trigger: {interval: 5}\ntrigger: {interval: 10s}\ngracePeriod: 30\nrestartBackoff: 2000\n"
    hint = "'{0}' without a unit, which means {0} ms; write {0}s for seconds, else {0}ms"
    assert parsed(text).warnings == (
        f"sinks[0].trigger.interval is {hint.format(5)}",
        f"gracePeriod is {hint.format(30)}",
    )
    assert parsed(MINIMAL + "  trigger:\n").warnings == ()
