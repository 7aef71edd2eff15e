"""Commands in messages: names of any characters reach the tools unchanged, and the shell runs none of them."""

from __future__ import annotations

import argparse
import re
import subprocess

import pytest

from dynamic_kafka.app.tools import abandon, accept
from dynamic_kafka.app.tools.preview import unreadable_error
from dynamic_kafka.metadata.names import check_cluster_id
from dynamic_kafka.planning.losses.dataloss import recreated_while_pending
from dynamic_kafka.planning.sameness.identity import identity_choices
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.wording import tool_command
from tests.support.places import ROOT

SERVERS = "e1:9092,e2:9092"


def parse_commands(message: str) -> list[argparse.Namespace]:
    """Return the commands of a message as their tools get them from a shell."""
    parsers = {"accept": argparse.ArgumentParser(), "abandon": argparse.ArgumentParser()}
    accept.add_arguments(parsers["accept"])
    abandon.add_arguments(parsers["abandon"])
    namespaces = []
    for command in re.findall(r"`(python .+?)`", message):
        shell = subprocess.run(["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, check=True, text=True)
        _, _, _, tool, *rest = shell.stdout.splitlines()
        namespaces.append(parsers[tool].parse_args(rest))
    return namespaces


@pytest.mark.parametrize("name", ["east;echo${IFS}x|cat;#", "it's", "-east", "--state", SERVERS])
def test_a_copied_command_names_the_very_cluster(name: str) -> None:
    split = Split(check_cluster_id(name), "orders", 0)

    left_out, accepted = parse_commands(identity_choices(name, "Qx", pending_as=name))
    assert (left_out.what, accepted.identity) == (name, [f"{name}=Qx"])
    left_out, _ = parse_commands(recreated_while_pending(SplitRange(split, 0, 4), "old", "new"))
    assert left_out.what == f"{name}/orders"
    left_out, accepted = parse_commands(str(unreadable_error({split: "records have expired"})))
    assert (left_out.what, accepted.data_loss) == (f"{name}/orders/0", [f"{name}/orders/0"])


def test_the_servers_as_an_id_stay_readable() -> None:
    assert tool_command("abandon", SERVERS) == f"`python -m dynamic_kafka.app abandon app.yaml {SERVERS}`"
    assert tool_command("accept", flag="--state") == "`python -m dynamic_kafka.app accept app.yaml --state`"


def test_no_other_code_writes_these_commands() -> None:
    written = re.compile(r"(accept|abandon) app\.yaml")
    modules = [file for folder in ("spark_app", "operator") for file in sorted((ROOT / folder).rglob("*.py"))]
    writers = {file.name for file in modules if written.search(file.read_text(encoding="utf-8"))}
    assert writers == {"wording.py"}  # its doctests
