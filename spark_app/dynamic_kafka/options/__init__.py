"""The options of the source: their declarations, their parser and the values that they become.

Pure, with no Kafka client and no Spark. It runs on the driver and in the source's other processes. The operator uses
`durations` and `command_line`. `parse_options` is the entry point, and `definitions` declares every option.
"""

from __future__ import annotations

from dynamic_kafka.options.durations import parse_duration_ms
from dynamic_kafka.options.index import OPTIONS
from dynamic_kafka.options.java_client_properties import translate_java
from dynamic_kafka.options.model import SourceOptions
from dynamic_kafka.options.option import Option
from dynamic_kafka.options.parse import check_stream, parse_options
from dynamic_kafka.options.values import (
    CustomSubscriber,
    Mode,
    NamedOptions,
    PerCluster,
    SingleCluster,
    StreamIds,
    StreamPattern,
    Subscribe,
)

__all__ = [
    "OPTIONS",
    "CustomSubscriber",
    "Mode",
    "NamedOptions",
    "Option",
    "PerCluster",
    "SingleCluster",
    "SourceOptions",
    "StreamIds",
    "StreamPattern",
    "Subscribe",
    "check_stream",
    "parse_duration_ms",
    "parse_options",
    "translate_java",
]
