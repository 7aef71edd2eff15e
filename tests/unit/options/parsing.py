"""Option sets that parse, and short ways to parse options or to get the text of a refusal."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import Mode, SourceOptions, parse_options

FROM_FILE = {"streamIds": "orders", "metadataPath": "/etc/kafkastreams"}
SINGLE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}
GROUP = {"kafka.group.id": "g"}
STATE = {"stateLocation": "s3://bucket/state"}


def parse(*parts: dict[str, str], mode: Mode = "streaming") -> SourceOptions:
    given: dict[str, str] = {}
    for part in parts:
        given |= part
    return parse_options(given, mode=mode)


def refusal(*parts: dict[str, str], mode: Mode = "streaming") -> str:
    with pytest.raises(OptionError) as refused:
        parse(*parts, mode=mode)
    return str(refused.value)
