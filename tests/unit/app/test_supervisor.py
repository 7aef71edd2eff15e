"""The supervisor without Spark: a request to stop, and the event of a batch."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.app.config.loading import parse_config
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.app.query.supervisor import Supervisor
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import OffsetDocument


class Spark:
    """A session that takes a listener, and has nothing to start a query by."""

    def __init__(self) -> None:
        self.streams = self
        self.listener: Any = None

    def addListener(self, listener: Any) -> None:
        self.listener = listener


def make_supervisor(spark: Spark, folder: Path) -> Supervisor:
    """Return a supervisor that was asked to stop already."""
    app = f"name: a\nmetadata: /m\nstreams: {{ids: [s]}}\ncheckpoint: {folder}\nsinks: [{{name: out, type: console}}]\n"
    stop = StopRequest()
    stop.ask("SIGINT")
    config = parse_config(app, source="app.yaml")
    return Supervisor(cast(Any, spark), config, cast(Any, None), StatusBoard(["out"]), stop)


def test_a_stop_during_sparks_start_starts_no_query(tmp_path: Path) -> None:
    supervisor = make_supervisor(Spark(), tmp_path)
    assert (supervisor.run(), supervisor.reason) == (ExitCode.DONE, "SIGINT")


@pytest.mark.parametrize(
    "reports",
    [[{"revision": "17"}], [{"revision": "17"}, {"revision": "16", "rejected": "wrong"}]],
    ids=["one source", "two sources"],
)
def test_a_batch_is_logged_with_the_report_of_each_planner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reports: list[dict[str, Any]]
) -> None:
    # Given a query's batch, in which each planner has reported
    spark = Spark()
    supervisor = make_supervisor(spark, tmp_path)
    supervisor.run()
    end = encode(OffsetDocument("q", 1))
    full = [{"clusters": {}, "document": 1, **report} for report in reports]
    sources = [{"startOffset": None, "endOffset": end, "latestOffset": report} for report in full]
    progress = SimpleNamespace(name="a.out", json=json.dumps({"batchId": 0, "sources": sources}))

    # When Spark reports it
    with caplog.at_level(logging.INFO):
        spark.listener.onQueryProgress(SimpleNamespace(progress=progress))

    # Then its event has the first report, and with several sources all of them
    [logged] = [vars(record) for record in caplog.records if getattr(record, "event", "") == "batch"]
    assert logged["summary"] == full[0]
    assert logged.get("summaries") == (tuple(full) if len(full) > 1 else None)
