"""The flags of the tools: users write them in scripts, so a change breaks those."""

from __future__ import annotations

import argparse
import importlib
import re

import pytest

from dynamic_kafka.app.cli import COMMANDS
from tests.support.places import ROOT

FLAGS = {
    "run": "--log-format",
    "validate": "--connect --json",
    "plan": "--sink --source --metadata --json",
    "inspect": "--sink --source --state-location --json",
    "import-checkpoint": "--cluster --source --after-pending -o --output --state-location",
    "accept": "--sink --source --state-location --identity --data-loss --topic --state --yes",
    "abandon": "--sink --source --state-location --yes --stopped --undelivered",
    "init": "--setup-repartition-topics-if-incomplete --setup-changelog-topics-if-incomplete"
    " --setup-all-topics-if-incomplete --dry-run --timeout --skip-source-topics",
    "restore-offsets": "--sink --source --from --leave-out --json",
}
"""The flags of each command."""
PAGES = "".join(
    (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8") for name in ("tools.md", "lost-checkpoint.md")
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_flags_of_each_command_are_pinned(command: str) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(COMMANDS[command]).add_arguments(parser)
    assert {flag for action in parser._actions for flag in action.option_strings} == set(FLAGS[command].split())


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"run"}))
def test_each_flag_of_a_tool_is_on_its_page(command: str) -> None:
    documented = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", PAGES))
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(COMMANDS[command]).add_arguments(parser)
    flags = [action.option_strings for action in parser._actions if action.option_strings]
    assert [names for names in flags if not documented.intersection(names)] == []
