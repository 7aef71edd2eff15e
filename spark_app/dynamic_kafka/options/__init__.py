"""The source's options: what there is, what a set of them means, what is refused.

Pure; knows metadata's values and the errors, nothing of Kafka's clients or Spark. `parse_options` is the way
in.
"""

from __future__ import annotations

from dynamic_kafka.options.definitions import OPTIONS, Option
from dynamic_kafka.options.durations import parse_duration_ms
from dynamic_kafka.options.java_client import translate_java
from dynamic_kafka.options.model import (
    CustomSubscriber,
    Mode,
    NamedOptions,
    PerCluster,
    SingleCluster,
    SourceOptions,
    StreamIds,
    StreamPattern,
    Subscribe,
)
from dynamic_kafka.options.parse import parse_options

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
    "parse_duration_ms",
    "parse_options",
    "translate_java",
]
