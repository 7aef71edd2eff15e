"""A misspelt field of app.yaml is reported with the nearest known one, at every depth."""

from __future__ import annotations

import pytest

from dynamic_kafka.app.config.loading import parse_config
from dynamic_kafka.errors import OptionError

APP = """\
name: orders
metadata: /etc/kafkastreams
streams: {streams}
checkpoint: /data/checkpoint
sinks:
  - {{name: out, type: console{sink}}}
{more}
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"streams": "{id: [orders]}"}, "streams.id: unknown field; did you mean 'ids'?"),
        ({"streams": "{patern: 'a.*'}"}, "streams.patern: unknown field; did you mean 'pattern'?"),
        ({"more": "metrics: {prot: 9108}"}, "metrics.prot: unknown field; did you mean 'port'?"),
        ({"more": "metrics: {port: 9108, reportPort: 1}"}, "did you mean 'reportsPort'?"),
        ({"sink": ", trigger: {intervall: 10s}"}, "trigger.intervall: unknown field; did you mean 'interval'?"),
        ({"more": "trigger: {intervall: 10s}"}, "trigger.intervall: unknown field; did you mean 'interval'?"),
        ({"more": "transformation: {slq: x}"}, "transformation.slq: unknown field; did you mean 'sql'?"),
        ({"sink": ", grupId: x"}, "did you mean 'groupId'?"),
    ],
)
def test_a_misspelt_field_is_reported_with_the_nearest_one(given: dict[str, str], message: str) -> None:
    text = APP.format(**{"streams": "{ids: [orders]}", "sink": "", "more": "", **given})
    with pytest.raises(OptionError) as refused:
        parse_config(text, source="app.yaml")
    assert message in str(refused.value)
    assert "is missing" not in str(refused.value)
