"""The form of the driver report, which the application writes and the operator reads."""

from __future__ import annotations

import json

import pytest

from dynamic_kafka.contract.driver_report import DriverReport, RejectedRevision, ReportedTopic, reported_size

TOPIC = ReportedTopic(cluster="east", topic="old", lag=None, quiet_s=1.5, open_transaction=True, kafka_id="K")
REPORT = DriverReport(
    abilities=("live",),
    applied="6f1c/17",
    hash="sha256:17",
    rejected=RejectedRevision(revision="6f1c/18", reason="ein Grund: …"),
    subscription="uid-of-subscription",
    pod="uid-of-pod",
    beat=7,
    draining=(TOPIC,),
    streams={"orders": {"clusters": {"east": {"topics": ["old"]}}}},
)


def test_a_report_is_read_back_from_its_text() -> None:
    assert DriverReport.parse(REPORT.text()) == REPORT
    assert DriverReport.parse(DriverReport().text()) == DriverReport()


def test_the_text_is_compact_ascii_and_omits_absent_streams() -> None:
    text = REPORT.text()
    assert text.isascii()
    assert text == json.dumps(json.loads(text), separators=(",", ":"))
    assert "streams" not in DriverReport().text()


def test_the_reported_size_of_a_topic_is_what_it_adds() -> None:
    twice = REPORT.model_copy(update={"draining": (TOPIC, TOPIC)})
    assert len(twice.text()) - len(REPORT.text()) == reported_size(TOPIC)


def test_fields_of_a_newer_driver_are_ignored() -> None:
    newer = {**json.loads(REPORT.text()), "new": 1, "draining": [{"cluster": "east", "topic": "old", "new": 1}]}
    assert DriverReport.parse(json.dumps(newer)).draining == (ReportedTopic(cluster="east", topic="old"),)


@pytest.mark.parametrize(
    "wrong",
    [{"lag": 0.5}, {"lag": "few"}, {"openTransaction": "no"}, {"openTransaction": None}, {"quiet": None}],
    ids=str,
)
def test_a_topic_with_a_malformed_value_makes_the_report_invalid(wrong: dict[str, object]) -> None:
    """Read leniently, such a value could look as if the topic were drained."""
    with pytest.raises(ValueError, match="draining"):
        DriverReport.parse(json.dumps({"draining": [{"cluster": "east", "topic": "old", **wrong}]}))


def test_a_reason_with_undecodable_bytes_is_readable() -> None:
    text = DriverReport(rejected=RejectedRevision(revision="l/4", reason="/data/caf?")).text().replace("?", "\\udce9")
    rejected = DriverReport.parse(text).rejected
    assert rejected is not None
    assert rejected.reason == "/data/caf?"


def test_a_text_that_nests_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="recursion limit"):
        DriverReport.parse("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        DriverReport.parse("[" * 100_000 + r'"\udce9"')
