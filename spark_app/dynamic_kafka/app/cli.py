"""The command line: `python -m dynamic_kafka.app <command> …`. The one entry of the application and its tools.

`COMMANDS` names the module of each command; it is imported only when the command is used, so that a tool that needs
no Spark starts none. A command's module has three names: `HELP`, one line; `add_arguments(parser)`; and
`run(arguments) -> int`, whose answer is the exit code. An error of ours that it raises becomes one line on standard
error and the error's exit code (`exit_codes.py`); so does a file that a tool cannot read or write.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from dynamic_kafka.app.exit_codes import ExitCode, code_of
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.options.command_line import parse_flags

COMMANDS: Mapping[str, str] = {
    "run": "dynamic_kafka.app.run",
    "validate": "dynamic_kafka.app.tools.validate",
    "plan": "dynamic_kafka.app.tools.plan",
    "inspect": "dynamic_kafka.app.tools.inspect",
    "import-checkpoint": "dynamic_kafka.app.tools.import_checkpoint",
    "accept": "dynamic_kafka.app.tools.accept",
    "abandon": "dynamic_kafka.app.tools.abandon",
    "manifest": "dynamic_kafka.app.tools.manifest",
}
"""The module of each command."""


class Command(Protocol):
    """What a command's module has."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it. Returns the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The process's exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m dynamic_kafka.app", description="Read many Kafka clusters as one Spark stream."
    )
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    loaded, parsers = {}, {}
    near = difflib.get_close_matches(given[0], COMMANDS, n=1) if given and given[0] not in COMMANDS else []
    if near:
        parser.error(f"no command {given[0]!r}; did you mean {near[0]!r}?")
    # Only the one that is used has to be imported; for a list of all of them, all.
    asked = given[0] if given and given[0] in COMMANDS else None
    for name in [asked] if asked else COMMANDS:
        module = cast(Command, importlib.import_module(COMMANDS[name]))
        loaded[name] = module
        parsers[name] = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(parsers[name])
    parsed = parse_flags(parser, given, parsers[asked] if asked else None)
    if parsed.command != "run":
        # A tool's answer says what came of it; librdkafka's lines, hundreds a minute, would bury it.
        logging.getLogger("dynamic_kafka.librdkafka").setLevel(logging.CRITICAL)
    try:
        code = loaded[parsed.command].run(parsed)
        sys.stdout.flush()
        return code
    except DynamicKafkaError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return code_of(error)
    except BrokenPipeError:
        # The interpreter flushes once more at its end: that must find somebody who takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE_CLOSED
    except OSError as error:
        if parsed.command == "run":
            raise  # there it is no matter of a path: the traceback is needed
        print(f"{type(error).__name__}: {error}; check the path, and that you may read and write it", file=sys.stderr)
        return ExitCode.CONFIGURATION
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
