"""The command line `python -m dynamic_kafka.app <command> …`: the one entry of the application and its tools.

The console script `dynamic-kafka <command> …` is the same.

`COMMANDS` names the module of each command. A module is imported only when its command is used, so a tool that needs no
Spark starts none. The class `Command` lists the names that each module has. An error of ours that a command raises
becomes one line on standard error and its exit code (`failures.py`). So does a file that a tool cannot read or write.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from dynamic_kafka.app.failures import code_of, describe_error
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.installed import explained
from dynamic_kafka.wording import nearest

COMMANDS: Mapping[str, str] = {
    "run": "dynamic_kafka.app.run",
    "validate": "dynamic_kafka.app.tools.validate",
    "plan": "dynamic_kafka.app.tools.plan",
    "inspect": "dynamic_kafka.app.tools.inspect",
    "import-checkpoint": "dynamic_kafka.app.tools.import_checkpoint",
    "accept": "dynamic_kafka.app.tools.accept",
    "abandon": "dynamic_kafka.app.tools.abandon",
    "init": "dynamic_kafka.app.tools.init",
    "restore-offsets": "dynamic_kafka.app.tools.restore_offsets",
}
"""The module of each command."""


class Command(Protocol):
    """The module of a command."""

    HELP: str
    """One line for the list of commands."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return the exit code."""


def _program() -> str:
    """Return the program's name as the user typed it: there is a console script, too."""
    return "dynamic-kafka" if Path(sys.argv[0]).name == "dynamic-kafka" else "python -m dynamic_kafka.app"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the process's exit code. Ctrl-C leaves a line and no traceback."""
    try:
        return _run_command(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _run_command(arguments: Sequence[str] | None) -> int:
    from dynamic_kafka.options.command_line import parse_flags  # the slow import, where `main` takes Ctrl-C

    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog=_program(), description="Read many Kafka clusters as one Spark stream.")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    loaded, parsers = {}, {}
    if not given:
        parser.error(f"name a command: {', '.join(COMMANDS)}; --help describes them")
    used = given[0] if given and given[0] in COMMANDS else None
    near = nearest(given[0], COMMANDS) if given and not used else None
    if near:
        parser.error(f"no command {given[0]!r}; did you mean {near!r}?")
    # Import only the command that is used; the list of all commands needs all modules.
    for name in [used] if used else COMMANDS:
        try:
            module = cast(Command, importlib.import_module(COMMANDS[name]))
        except ImportError as error:
            parser.error(str(explained(error)))
        loaded[name] = module
        parsers[name] = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(parsers[name])
    parsed = parse_flags(parser, given, parsers[used] if used else None)
    if parsed.command != "run":
        # A tool prints its result itself. librdkafka logs hundreds of lines a minute, which would bury it.
        logging.getLogger("dynamic_kafka.librdkafka").setLevel(logging.CRITICAL)
    try:
        code = loaded[parsed.command].run(parsed)
        sys.stdout.flush()
        return code
    except DynamicKafkaError as error:
        print(describe_error(error), file=sys.stderr)
        return code_of(error)
    except ImportError as error:
        if (missing := explained(error)) is error:
            raise
        print(missing, file=sys.stderr)
        return ExitCode.CONFIGURATION
    except BrokenPipeError:
        # The interpreter flushes once more at its end, and must not fail on the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE_CLOSED
    except OSError as error:
        if parsed.command == "run":
            raise  # a tool fails on a path that the user gave; elsewhere the traceback is needed
        print(f"{describe_error(error)}; check the path, and that you may read and write it", file=sys.stderr)
        return ExitCode.CONFIGURATION
