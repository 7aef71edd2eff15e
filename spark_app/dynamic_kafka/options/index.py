"""Every option that the parser accepts or refuses by name: by section, by name and by alias.

Pure; built once from the modules of definitions. `recognition`, `parse` and `reference` use it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynamic_kafka.options.definitions import FailureOptions, OffsetOptions, ReadingOptions
from dynamic_kafka.options.evaluation_definitions import EvaluationOptions
from dynamic_kafka.options.integrity_definitions import IntegrityOptions
from dynamic_kafka.options.internal_topic_definitions import InternalTopicOptions
from dynamic_kafka.options.metadata_definitions import MetadataOptions, StreamOptions
from dynamic_kafka.options.option import Option, declared_options
from dynamic_kafka.options.secret_definitions import SecretOptions
from dynamic_kafka.options.time_definitions import TimeOptions
from dynamic_kafka.options.value_definitions import ValueOptions

SECTIONS: Mapping[str, type] = {
    "Which streams": StreamOptions,
    "Metadata": MetadataOptions,
    "Where reading starts and stops": OffsetOptions,
    "Reading, rates, commits": ReadingOptions,
    "Time": TimeOptions,
    "Typed values": ValueOptions,
    "Ending by a record": EvaluationOptions,
    "Failures and state": FailureOptions,
    "Topic integrity": IntegrityOptions,
    "Internal topics": InternalTopicOptions,
    "Secrets": SecretOptions,
}
"""The sections of the documentation, in its order."""

_RETRIES = "librdkafka retries by itself within its time-outs"
IGNORED_OPTIONS = (
    Option("fetchOffset.numRetries", "text", _RETRIES, "count"),
    Option("fetchOffset.retryIntervalMs", "text", _RETRIES, "milliseconds"),
    Option(
        "stream-enumerator-mode",
        "word",
        "Spark gives each range to the next free task, whatever its cluster, as Flink does with `global`",
        words=("per_cluster", "per-cluster", "global"),
    ),
    Option(
        "register.consumer.metrics", "boolean", "the application's metrics have the clients' statistics by themselves"
    ),
)
"""Options of Spark's and Flink's sources that are accepted without effect, each with the reason."""

REFUSED_OPTIONS = (
    Option("watermarkInterval", "text", "each batch moves the clock; set the interval of the query's trigger"),
    Option(
        "punctuationAssigner",
        "text",
        "the driver chooses the clock before a record is read, so no record can set it; set watermarkMode=periodic",
    ),
)
"""Options of Flink's source and its watermarks that have no place here, each with the reason and what to do."""

OPTIONS: Mapping[str, Option] = {
    option.name: option
    for options in (*map(declared_options, SECTIONS.values()), IGNORED_OPTIONS, REFUSED_OPTIONS)
    for option in options
}
"""Every known option by name."""

BY_KEY: Mapping[str, Option] = {
    key.lower(): option for option in OPTIONS.values() for key in (option.name, *option.aliases)
}
"""Every option by each of its names and aliases, in lower case. No name is another option's alias."""
