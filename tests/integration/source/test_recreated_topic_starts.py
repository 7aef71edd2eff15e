"""The start of a topic that was re-created under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import Brokers, Topic
from tests.support.source_run import reading
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("a re-creation before the start")


def test_explicit_offsets_do_not_apply_to_a_re_created_topic(
    brokers: Brokers, orders: str, topic: Topic, path: Path
) -> None:
    # Given explicit starts, as `import-checkpoint` writes them, and a topic that was re-created while parked
    other = brokers.a.create_topic(topic("other"))
    own = {"startingOffsets": {orders: {0: 5}}}
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other], **own)))
    wanted = produce("a", brokers.a, orders, 10)
    wanted = type(wanted)({row: 1 for row in wanted if row.offset >= 5})
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [other])))
        run.until(lambda: bool(run.parked), "the topic to be parked")
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        wanted += produce("a", brokers.a, orders, 8, prefix="new")

        # When the topic is added back
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other], **own)))
        run.until(lambda: ("a", orders) in run.next, "the new topic")
        while run.batch():
            pass

        # Then it is read from its first record: the offsets apply to the old topic
        assert_rows(run.rows(), wanted)
