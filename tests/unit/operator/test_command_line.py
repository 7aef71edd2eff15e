"""Refusals of the operator's command line: before it connects to anything, and with the correct form."""

from __future__ import annotations

import getpass
import json
import re
import socket
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from kopf._core.engines import peering
from pydantic.alias_generators import to_camel

from kafkastream_operator import __main__ as command
from kafkastream_operator.handlers.logs import FORMATS, LEVELS
from tests.support.places import ROOT

REFUSED = {
    "--lease kafkastream-operator": "is not the name of a Lease; write NAMESPACE/NAME",
    "--lease /kafkastream-operator": "is not the name of a Lease; write NAMESPACE/NAME",
    "--lease kafkastream-system/": "is not the name of a Lease; write NAMESPACE/NAME",
    "--workers 0": "is not a count; write 1 or more",
    "--workers many": "is not a count; write 1 or more",
    "--confirm soon": "soon",
    "--lease-duration 0s": "'0s' is too short; write 1s or more",
    "--confirm 0s": "'0s' is too short; write 1s or more",
    "--confirm-live 999ms": "'999ms' is too short; write 1s or more",
    "--liveness 8080": "write it as http://0.0.0.0:8080/healthz",
    "--log-format yaml": "choose from",
    "--log-level loud": "choose from",
    "--metrics 8081": "write it as http://0.0.0.0:8081/metrics",
}


@pytest.mark.parametrize("given", REFUSED)
def test_a_senseless_flag_is_refused_by_name(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given.split())
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert f"argument {given.split(maxsplit=1)[0]}: " in shown
    assert REFUSED[given] in shown


@pytest.mark.parametrize("flag", ["lease-duration", "confirm", "confirm-live", "between-restarts", "gather"])
def test_the_chart_refuses_the_durations_that_the_program_does(flag: str) -> None:
    schema = json.loads((ROOT / "charts" / "kafkastream-operator" / "values.schema.json").read_text(encoding="utf-8"))
    value = to_camel(flag.replace("-", "_"))
    kind = schema["properties"]["operator"]["properties"][value]["$ref"].rpartition("/")[2]
    for duration in ("0s", "0d", "1ms", "999ms", "1000ms", "1s", "5m", "7d", "-1s", "5x"):
        try:
            command._parser().parse_args([f"--{flag}={duration}"])
            accepted = True
        except SystemExit:
            accepted = False
        assert accepted == bool(re.search(schema["definitions"][kind]["pattern"], duration)), duration


@pytest.mark.parametrize(("flag", "choices"), [("log-format", FORMATS), ("log-level", LEVELS)])
def test_the_chart_takes_the_words_that_the_program_does(flag: str, choices: tuple[str, ...]) -> None:
    schema = json.loads((ROOT / "charts" / "kafkastream-operator" / "values.schema.json").read_text(encoding="utf-8"))
    value = to_camel(flag.replace("-", "_"))
    assert schema["properties"]["operator"]["properties"][value] == {"enum": ["", *choices]}


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No configuration found"), ("just text", "cannot be read"), ("token: [hunter2", "cannot be read")],
)
def test_an_invalid_kubeconfig_is_refused_without_showing_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit) as ended:
        command.main(["--kubeconfig", str(file)])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert f"--kubeconfig {file}: " in shown and message in shown and "hunter2" not in shown


def test_without_a_kubeconfig_the_operator_needs_a_pod(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 2
    assert re.search("no --kubeconfig, .* pod: Service host/port", capsys.readouterr().err)


def test_a_user_without_a_name_runs_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    identities: list[str] = []
    monkeypatch.setenv("POD_ID", "restored by the fixture")
    monkeypatch.delenv("POD_ID")
    monkeypatch.setattr(getpass, "getuser", nameless)
    for name in ("Api", "Operator", "login_with"):
        monkeypatch.setattr(command, name, MagicMock())
    monkeypatch.setattr(command.kopf, "run", lambda **_: identities.append(peering.detect_own_id(manual=False)))

    assert command.main([]) == 0
    assert identities == [socket.gethostname()]


def test_a_misspelt_flag_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--between-restart", "2m", "--liveliness", "http://0.0.0.0:8080/healthz"])
    assert ended.value.code == 2
    assert "did you mean '--liveness'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["jobs,more", "job*", "Jobs", "jobs_eu", "", "-jobs", "a" * 64])
def test_a_slip_in_a_namespace_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([f"--namespace={name}"])
    assert ended.value.code == 2
    assert re.search(rf"{re.escape(repr(name))} .* namespace; .* flag once", capsys.readouterr().err)
