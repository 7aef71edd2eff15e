"""The supervisor without Spark: after a request to stop, it starts no query."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from dynamic_kafka.app.config.loading import parse_config
from dynamic_kafka.app.exit_codes import ExitCode
from dynamic_kafka.app.query.sink_status import StatusBoard
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.app.query.supervisor import Supervisor


def test_a_stop_during_sparks_start_starts_no_query(tmp_path: Path) -> None:
    app = (
        f"name: a\nmetadata: /m\nstreams: {{ids: [s]}}\ncheckpoint: {tmp_path}\nsinks: [{{name: out, type: console}}]\n"
    )
    stop = StopRequest()
    stop.ask("SIGINT")
    spark = SimpleNamespace(
        streams=SimpleNamespace(addListener=lambda listener: None)
    )  # it has nothing to start one by
    supervisor = Supervisor(
        cast(Any, spark), parse_config(app, source="app.yaml"), cast(Any, None), StatusBoard(["out"]), stop
    )
    assert (supervisor.run(), supervisor.reason) == (ExitCode.DONE, "SIGINT")
