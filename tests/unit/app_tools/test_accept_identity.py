"""`accept --identity` with an app.yaml accepts only the id that the cluster answers with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.tools import accept as accept_tool
from dynamic_kafka.app.tools.preview import Preview
from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.planning.document.codec import decode, fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from tests.unit.app_tools.saved_app import saved_app

SAVED = (
    '{"version":2,"query":"q","number":1,"previous":"x","clusters":{"east":{"kafkaId":"old","topics":'
    '{"orders":{"stream":"orders","partitions":1,"next":4}}}}}'
)
PENDING = (
    'v1\n{}\n{"version":2,"query":"q","number":2,"previous":"%s","clusters":{"east":{"kafkaId":"old","topics":'
    '{"orders":{"stream":"orders","partitions":1,"next":9}}}}}'
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return saved_app(tmp_path, SAVED)


def seen(answering: dict[str, str | None], *silent: str) -> Preview:
    """A look at clusters, as the tool gets it."""
    return Preview(
        observed=cast(Any, None),
        silent={cluster: ClusterUnreachableError(cluster, "no answer within 5 s") for cluster in silent},
        refusals=(),
        answering=answering,
        swapped={},
        pending=(),
        left_out=None,
        before=OffsetDocument(),
    )


@pytest.mark.parametrize(
    ("look", "output"),
    [
        (seen({}, "east"), "cluster 'east' does not answer"),
        (seen({"east": "old"}), "cluster 'east' is still the saved one (old)"),
        (seen({"east": "another"}), "the servers of cluster 'east' answer with another, not with new"),
        (seen({"east": None}), "answer with no cluster.id, not with new"),
        (seen({"west": "new"}), "metadata names no cluster 'east'"),
    ],
)
def test_an_identity_that_does_not_answer_now_is_refused(
    app: Path, look: Preview, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accept_tool, "preview", lambda options, saved: look)
    assert main(["accept", str(app), "--identity", "east=new", "--yes"]) == 2
    assert output in capsys.readouterr().err
    assert not (app.parent / "checkpoint" / "out" / "dynamic-kafka").exists()


def test_the_identity_that_answers_is_accepted(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_tool, "preview", lambda options, saved: seen({"east": "new"}))
    assert main(["accept", str(app), "--identity", "east=new", "--yes"]) == 0
    assert list(app.parent.glob("checkpoint/out/dynamic-kafka/q/accepted/*identity-east.json"))


@pytest.fixture
def pending(app: Path) -> Path:
    """The application with a pending batch of five records of `east`."""
    first = decode(SAVED)
    (app.parent / "checkpoint" / "out" / "offsets" / "1").write_text(PENDING % fingerprint(first))
    return app


def test_a_given_up_clusters_pending_records_are_counted(
    pending: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accept_tool, "preview", lambda options, saved: seen({"east": "new"}))
    assert main(["accept", str(pending), "--identity", "east=new"]) == 2  # no consent
    output = capsys.readouterr().out
    assert "5 records of the pending" in output and "batch still reads them" in output
    assert "abandon app.yaml east`" in output

    assert main(["abandon", str(pending), "east", "--stopped", "--yes"]) == 0
    output = capsys.readouterr().out
    assert "5 records are read when" in output
    assert "another Kafka cluster by now" in output and "re-created, they are given up" in output

    assert main(["accept", str(pending), "--identity", "east=new", "--yes"]) == 0
    output = capsys.readouterr().out
    assert "5 records of the pending" in output and "left them out" in output


def test_an_accepted_clusters_abandoned_range_is_given_up(
    pending: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accept_tool, "preview", lambda options, saved: seen({"east": "new"}))
    assert main(["accept", str(pending), "--identity", "east=new", "--yes"]) == 0
    assert main(["abandon", str(pending), "east", "--stopped", "--yes"]) == 0
    output = capsys.readouterr().out
    assert "5 records are given up: " in output and "cluster was accepted" in output
    assert "can be read again" not in output
