"""Errors of a transformation's SQL that reads another view."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dynamic_kafka.app.config.loading import parse_config
from dynamic_kafka.app.query.sinks import start_query
from dynamic_kafka.errors import OptionError

APP = """\
name: orders
metadata: /etc/kafkastreams
streams: {ids: [orders]}
checkpoint: /nowhere
transformation: {sql: SELECT * FROM strem}
sinks: [{name: out, type: console}]
"""


class Spark:
    """A session whose SQL fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.readStream = self

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **options: self

    def sql(self, text: str) -> None:
        raise self.error


def test_a_misspelt_view_is_reported_with_the_views_name() -> None:
    config = parse_config(APP, source="app.yaml")
    spark = Spark(ValueError("[TABLE_OR_VIEW_NOT_FOUND] The table or view `strem` cannot be found.\nmore"))
    with pytest.raises(OptionError, match=r"`strem` .*found\. \(.*view `stream`\)"):
        start_query(cast(Any, spark), config, config.sink())


def test_other_errors_of_the_sql_stay_what_they_are() -> None:
    config = parse_config(APP, source="app.yaml")
    with pytest.raises(ValueError, match="PARSE_SYNTAX_ERROR"):
        start_query(cast(Any, Spark(ValueError("[PARSE_SYNTAX_ERROR]"))), config, config.sink())
