"""An application whose streams match or name its own internal topics, and the tools that refuse it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.state.checkpoints import Checkpoint
from tests.integration.app.driving import RunApp, write_app
from tests.integration.app_tools.story import Tools
from tests.integration.internal_topics.conftest import CHANGELOG, REPARTITION, Shop
from tests.support.streams import assert_rows, cluster, produce, write_metadata

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(900), pytest.mark.deep("patterns that match internal topics")]


def application(shop: Shop, **fields: Any) -> Path:
    """An application with a changelog, whose home is given by servers of its own, that reads what there is and ends."""
    home = {"bootstrapServers": shop.east.bootstrap, "offsetChangelog": shop.names[CHANGELOG]}
    internal = {**home, "topics": shop.declared}
    return write_app(shop.folder, internalTopics=internal, trigger={"availableNow": True}, **fields)


def test_a_pattern_reads_no_internal_topic(shop: Shop, run_app: RunApp) -> None:
    names = "|".join([shop.orders, *shop.names.values()])
    options = {
        "metadataService": "single-cluster",
        "kafka.bootstrap.servers": shop.east.bootstrap,
        "startingOffsets": "earliest",
    }
    app = application(shop, metadata=None, streams={"pattern": names}, options=options)
    shop.make(REPARTITION, 3, retention_ms="-1", segment_ms="600000")
    shop.east.produce(shop.names[REPARTITION], ["of another program"], partition=0)
    wanted = produce("default", shop.east, shop.orders, 5)
    for _ in range(2):  # the second run finds the records that the first one has written to the changelog
        with run_app(app) as run:
            assert run.wait_exit() == 0, run.last_lines()
            assert_rows(run.rows(), wanted)
        wanted += produce("default", shop.east, shop.orders, 5)
    assert shop.east.end_offsets(shop.names[CHANGELOG])[0] > 0
    checkpoint = Checkpoint(str(shop.folder / "checkpoints" / "lake"))
    (document,) = checkpoint.documents(checkpoint.committed)
    assert document.clusters["default"].topics.keys() == {shop.orders}


def test_a_named_changelog_is_refused_by_tools_and_start(shop: Shop, tools: Tools, run_app: RunApp) -> None:
    shop.make(CHANGELOG, 1, cleanup_policy="compact")
    streams = cluster("east", shop.east, [shop.orders, shop.names[CHANGELOG]])
    write_metadata(shop.folder / "streams.json", {"streamId": "st", "clusterMetadataList": [streams]})
    text = "name topics of cluster 'east'"
    app = application(shop)
    assert tools("validate", app, "--connect") == 2
    assert text in tools.output
    assert tools("plan", app) == 2
    assert text in tools.output
    with run_app(app) as run:
        assert run.wait_exit() == 2, run.last_lines()
        assert re.search(f"{text} .*dead letters: {shop.names[CHANGELOG]}", run.text())

    # Given a home that is named, no cluster has to be asked
    shop.write(cluster="east", offsetChangelog=shop.names[CHANGELOG])
    assert tools("validate", shop.app) == 2
    assert text in tools.output
