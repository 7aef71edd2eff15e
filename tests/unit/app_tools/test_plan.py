"""`plan`: its output where files alone decide, or a cluster does not answer."""

from __future__ import annotations

import io
import json
import sys
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.tools import announced_waits, preview
from dynamic_kafka.app.tools import plan as plan_tool
from dynamic_kafka.app.tools.planned_changes import changes
from dynamic_kafka.app.tools.preview import Preview
from dynamic_kafka.app.tools.saved_query import SavedProgress
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.errors import ClusterUnreachableError, DynamicKafkaError, StaleCheckpointError
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.advance import Plan
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation
from tests.unit.app_tools.saved_app import saved_app

FIRST = OffsetDocument(
    "q", 1, "", clusters={"east": ClusterProgress({"orders": TopicProgress("s", {0: 4}, starts={0: 0})})}
)
SAVED = json.dumps(encode(FIRST))


def make_app(folder: Path, **options: str) -> Path:
    """An application with a Parquet sink, whose batch 0 is pending."""
    sink = {"name": "out", "type": "parquet", "options": {"path": str(folder / "lake")}}
    return saved_app(folder, SAVED, committed=False, sinks=[sink], options=options)


def sink_has(folder: Path, batch: int) -> None:
    (folder / "lake" / "_spark_metadata").mkdir(parents=True)
    (folder / "lake" / "_spark_metadata" / str(batch)).write_text("v1")


def look(*silent: str, answering: bool = True, required: bool = False) -> Preview:
    """A look at clusters; nothing is waiting in those that answered."""
    answers = {"east": ClusterObservation({})} if answering else {}
    errors: dict[str, DynamicKafkaError] = {name: ClusterUnreachableError(name, "no answer") for name in silent}
    return Preview(
        observed=LiveObservation(
            Subscription({}, ()), answers, cast(Any, None), {}, True, frozenset(silent if required else ())
        ),
        silent=errors,
        refusals=(),
        answering={},
        swapped={},
        pending=(),
        left_out=None,
        before=OffsetDocument(),
        plan=cast(Plan, _NoPlan()),
    )


class _NoPlan:
    admitted = 0
    lag: dict[str, int] = {}  # noqa: RUF012


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The preview that `plan` gets (`look`), and the argument of its call (`delivered`)."""
    seen_by_plan: dict[str, Any] = {"look": look()}

    def asked(options: SourceOptions, saved: SavedProgress, *, delivered: bool) -> Preview:
        seen_by_plan["delivered"], seen_by_plan["options"] = delivered, options
        return cast(Preview, seen_by_plan["look"])

    monkeypatch.setattr(plan_tool, "preview", asked)
    return seen_by_plan


def test_plan_refuses_a_checkpoint_older_than_its_files(
    tmp_path: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(tmp_path)
    sink_has(tmp_path, 3)

    assert main(["plan", str(app)]) == 4
    assert "Refused: the checkpoint" in capsys.readouterr().out
    assert main(["plan", str(app), "--json"]) == 4
    assert "LOST" in json.loads(capsys.readouterr().out)["refusals"][0]["text"]
    assert main(["inspect", str(app)]) == 0
    assert "would be refused: the checkpoint" in capsys.readouterr().out


def test_a_pending_batch_that_the_sink_has_is_not_read_again(
    tmp_path: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(tmp_path)
    sink_has(tmp_path, 0)

    assert main(["plan", str(app)]) == 0
    assert seen["delivered"]
    assert "The sink has it already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (("fail", ("west",), True), "The number of waiting records is unknown: west did not answer."),
        (("stall", ("west",), False), "The number of waiting records is unknown: west did not answer."),
        (("stall", ("west",), True), "take 0 of 0 waiting records; those of west are not counted."),
        (("fail", (), True), "take 0 of 0 waiting records."),
        (("awaited", ("west",), True), "take 0 of 0 waiting records; those of west are not counted."),
    ],
)
def test_silent_clusters_have_no_record_count(
    case: tuple[str, tuple[str, ...], bool],
    expected: str,
    tmp_path: Path,
    seen: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy, silent, answering = case
    ends = policy == "fail" and bool(silent)
    seen["look"] = look(*silent, answering=answering, required=ends)
    app = make_app(tmp_path, clusterFailurePolicy=policy.replace("awaited", "fail"))
    assert main(["plan", str(app)]) == (5 if ends else 0)
    assert expected in capsys.readouterr().out


def test_a_running_querys_group_is_no_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, looks = make_app(tmp_path), []

    def asked(options: SourceOptions, saved: SavedProgress, *, delivered: bool) -> Preview:
        looks.append(saved.batches)
        if len(looks) > 1:
            return look()
        (tmp_path / "checkpoint" / "out" / "offsets" / "1").write_text(f"v1\n{{}}\n{SAVED}")  # the query goes on
        error = StaleCheckpointError("the group is ahead")
        return preview.replace(look(), refusals=(preview.Refusal(None, error),))

    monkeypatch.setattr(plan_tool, "preview", asked)
    assert main(["plan", str(app)]) == 0
    assert [batches.planned for batches in looks] == [0, 1]


def test_an_edit_is_planned_instead_of_the_metadata_in_force(
    tmp_path: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(tmp_path, metadataRevision="lineage/7")
    edit = tmp_path / "next.yaml"
    assert main(["plan", str(app), "--metadata", str(edit)]) == 2
    assert f"--metadata: {edit} does not exist" in capsys.readouterr().err
    edit.touch()
    assert main(["plan", str(app), "--metadata", str(edit)]) == 0
    assert (seen["options"].metadata_path, seen["options"].metadata_revision) == (str(edit), None)
    assert f"sink out, with {edit}: document 1" in capsys.readouterr().out


def test_an_edit_of_a_single_cluster_is_refused(
    tmp_path: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(tmp_path)
    content = yaml.safe_load(app.read_text())
    del content["metadata"], content["streams"]
    content["options"] = {"kafka.bootstrap.servers": "e1:9092", "subscribe": "orders"}
    app.write_text(yaml.safe_dump(content))
    assert main(["plan", str(app), "--metadata", "next.yaml"]) == 2
    refusal = capsys.readouterr().err
    assert "reads a single cluster" in refusal and "leave out --metadata" in refusal


class StandardError(io.StringIO):
    """A stream that signals a written line. To poll captured output could lose lines that come meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.line = threading.Event()

    def flush(self) -> None:
        self.line.set()


def test_standard_error_names_the_awaited_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced_waits, "ANNOUNCE_AFTER_S", 0.01)
    monkeypatch.setattr(sys, "stderr", stderr := StandardError())
    east: Future[ClusterObservation] = Future()
    east.set_result(ClusterObservation({}))
    with announced_waits.announced_waits({"east": east, "west": Future()}):
        assert stderr.line.wait(10)
    assert stderr.getvalue() == "asking west …\n"


def test_a_cluster_with_a_new_name_is_shown_as_renamed() -> None:
    reading = ClusterProgress({"orders": TopicProgress("s", {0: 4})}, "Mk")
    subscription = Subscription({"eastern": SubscribedCluster({"orders": "s"}, {})}, ("s",))
    answers = {"eastern": ClusterObservation({}, "Mk")}
    observed = replace(look().observed, subscription=subscription, answers=answers)
    shown = changes(replace(look(), observed=observed, before=OffsetDocument("q", 1, "", clusters={"east": reading})))
    assert [(change.action, change.cluster, change.text) for change in shown] == [
        ("rename", "eastern", "cluster 'eastern' is the former 'east' (Mk): it continues at its offsets")
    ]


def test_metadata_that_would_misdirect_a_secret_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "hunter2")
    secret = {"kafka.sasl.password": "${env:PW}", "allowedServers": "east:9092"}
    app = make_app(tmp_path, clusterFailurePolicy="stall", stateLocation=str(tmp_path / "state"), **secret)
    (tmp_path / "streams.yaml").write_text(
        "- {streamId: orders, clusterMetadataList: [{clusterId: east, bootstrapServers: 'evil:1', topics: [orders]}]}"
    )

    assert main(["plan", str(app)]) == 2

    shown = capsys.readouterr()
    assert "evil:1, which may not get" in shown.out + shown.err
    assert "hunter2" not in shown.out + shown.err
