"""The command `init`: make the internal topics of an application (KIP-698)."""

from __future__ import annotations

import argparse

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics import InitParameters, init
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult
from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.options import parse_duration_ms
from dynamic_kafka.planning.sameness.identity import recreation

HELP = "make the internal topics that app.yaml declares, and check that its source topics exist"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `init`."""
    parser.add_argument("app", metavar="APP.YAML", help="the application's file")
    for kind, what in (
        ("repartition", "repartition topics"),
        ("changelog", "changelogs"),
        ("all", "topics of every kind"),
    ):
        text = f"make missing {what} although other internal topics exist; without it, `init` refuses"
        parser.add_argument(f"--setup-{kind}-topics-if-incomplete", action="store_true", help=text)
    parser.add_argument("--dry-run", action="store_true", help="show what would be made, and change nothing")
    parser.add_argument("--timeout", metavar="DURATION", help="the longest duration, instead of `timeout` in app.yaml")
    parser.add_argument(
        "--skip-source-topics",
        action="store_true",
        help="do not check the topics that the metadata names, for example before there is any metadata",
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the topics, print them, and return the exit code."""
    config = load_config(arguments.app)
    result = init(
        config,
        parameters_of(arguments),
        dry_run=arguments.dry_run,
        timeout_s=_seconds(arguments.timeout),
        check_sources=not arguments.skip_source_topics,
    )
    print(text_of(result, dry_run=arguments.dry_run))
    return ExitCode.DONE


def _seconds(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    timeout_ms = parse_duration_ms(timeout, where="--timeout")
    if timeout_ms < 1000:
        raise OptionError(
            f"--timeout is '{timeout}'; it must be at least 1s; a number without a unit means milliseconds"
        )
    return timeout_ms / 1000


def parameters_of(arguments: argparse.Namespace) -> InitParameters:
    """Return the parameters that the flags stand for."""
    return InitParameters(
        setup_repartition_topics_if_incomplete=arguments.setup_repartition_topics_if_incomplete,
        setup_changelog_topics_if_incomplete=arguments.setup_changelog_topics_if_incomplete,
        setup_internal_topics_if_incomplete=arguments.setup_all_topics_if_incomplete,
    )


def text_of(result: SetupResult, *, dry_run: bool) -> str:
    """Return the outcome as text: each topic, and what was done about it."""
    made = {topic.name: topic for topic in result.plan.create}
    done = "would be made" if dry_run else "made"
    rows = []
    for name in sorted(made.keys() | result.found.keys()):
        there = result.found.get(name)
        lost = "; it existed before, and its records are lost" if name in result.plan.deleted else ""
        if name in result.plan.recreated:
            before, now = result.plan.recreated[name]
            lost = f"; it {recreation(before, now)}, and its records are lost"
        partitions = there.partitions if there is not None else made[name].partitions
        topic_id = shown_topic_id(there.topic_id) if there is not None else None
        rows.append((name, partitions, topic_id, (done if name in made else "exists") + lost))
    head = f"home cluster {result.home}, cluster.id {result.kafka_id or '(unknown)'}"
    return f"{head}\n\n{table(('topic', 'partitions', 'topic id', 'what'), rows)}"
