"""What the operator's command line refuses: before it connects to anything, with what to write instead."""

from __future__ import annotations

import pytest

from kafkastream_operator import __main__ as command

REFUSED = {
    "--lease kafkastream-operator": "names no Lease; write NAMESPACE/NAME",
    "--lease /kafkastream-operator": "names no Lease; write NAMESPACE/NAME",
    "--lease kafkastream-system/": "names no Lease; write NAMESPACE/NAME",
    "--workers 0": "is no count; write 1 or more",
    "--workers many": "is no count; write 1 or more",
    "--confirm soon": "soon",
    "--liveness 8080": "write it as http://0.0.0.0:8080/healthz",
}


@pytest.mark.parametrize("given", REFUSED)
def test_a_flag_that_means_nothing_is_refused_by_name(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {given.split(maxsplit=1)[0]}: " in said
    assert REFUSED[given] in said
