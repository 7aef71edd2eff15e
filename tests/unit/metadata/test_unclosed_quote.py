"""A quote that is never closed is reported where it opens, not at the end of the file."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document import parse_document

TEXT = """\
- streamId: orders
  clusterMetadataList:
    - clusterId: "east
      bootstrapServers: e1:9092
      topics: [orders]
- streamId: bills
  clusterMetadataList:
    - clusterId: west
      bootstrapServers: w1:9092
      topics: [bills]
"""


def test_a_quote_that_is_never_closed_is_reported_where_it_opens() -> None:
    with pytest.raises(MetadataInvalidError) as refused:
        parse_document(TEXT, source="streams.yaml")
    assert str(refused.value).startswith("streams.yaml:3: ")
