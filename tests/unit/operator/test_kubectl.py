"""The command line of `kubectl kafkastream`; what it does to a cluster is tested on a real API server."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from kafkastream_operator import kubectl
from kafkastream_operator.core.release import noted_release, released_topics
from tests.unit.operator.world import Key


@pytest.fixture(autouse=True)
def _without_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "required: COMMAND"),
        ("release orders east/orders", "required: --reason"),
        ("plan", "required: --filename/-f"),
        ("status --all-namespace", "unrecognized arguments: --all-namespace"),
        ("plan -f nowhere.yaml", "No such file"),
    ],
)
def test_a_mistake_ends_with_1(given: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`plan` returns 2 where it finds changes."""
    try:
        code = kubectl.main(given.split())
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 1
    assert message in capsys.readouterr().err


def test_a_plan_of_other_kinds_asks_nobody(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n---\n")
    assert kubectl.main(["plan", "-f", str(file)]) == 0
    assert capsys.readouterr().out.startswith("0 applications: ")
    assert kubectl.main(["status"]) == 1
    assert "kubectl cannot be run" in capsys.readouterr().err


def test_watch_repeats_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, pauses = list[list[str]](), list[float]()

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps({"kind": "List", "items": []}), "")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(kubectl.subprocess, "run", run)
    monkeypatch.setattr(kubectl.time, "sleep", pause)
    assert kubectl.main(["watch", "--interval", "7", "-n", "jobs"]) == 0
    assert capsys.readouterr().out.count("no KafkaStream here") == 2
    assert pauses == [7.0, 7.0]
    assert {"get"} == {call[2] for call in calls} and {"--namespace=jobs"} == {call[1] for call in calls}


def test_a_cluster_is_released_in_one_stream_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a subscription in which topics of two streams drain, and a release that has counted already
    since = "2026-11-01T00:00:00Z"
    topics = [("orders", "orders"), ("orders", "retries"), ("payments", "pay")]
    status = {
        "draining": [
            {"stream": stream, "cluster": "east", "topic": topic, "since": since, "revision": 1}
            for stream, topic in topics
        ],
        "released": ["north/old"],
    }
    meta = {"name": "app", "resourceVersion": "7", "annotations": {"kafkastream.dev/release": "north/old,north/new"}}
    subscription = {"metadata": meta, "spec": {}, "status": status}
    calls = list[list[str]]()

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        who = {"kind": "SelfSubjectReview", "status": {"userInfo": {"username": "bob"}}}
        answer = who if "whoami" in command else {"kind": "List", "items": [subscription]}
        return subprocess.CompletedProcess(command, 0, json.dumps(answer), "")

    monkeypatch.setattr(kubectl.subprocess, "run", run)

    # When the cluster is released in one of them
    assert kubectl.main(["release", "orders", "east", "--reason", "gone"]) == 0

    # Then the topics of that stream are named, and the annotation has nothing that has counted
    (written,) = (call for call in calls if "annotate" in call)
    assert "--resource-version=7" in written
    releases = written[-1].partition("=")[2].split(",")
    assert [release.partition("@")[0] for release in releases] == ["north/new", "east/orders", "east/retries"]
    assert "east/pay" not in capsys.readouterr().out


def test_a_note_separates_no_releases() -> None:
    entry = noted_release("east/orders", "now bob@shop: over, and\ndone")
    assert entry == "east/orders@now bob at shop: over; and done"
    assert len(noted_release("east/orders", "x" * 1000)) == 600
    key = Key("east", "orders")
    assert released_topics([entry], [], [key]) == {key: "released by hand: now bob at shop: over; and done"}
