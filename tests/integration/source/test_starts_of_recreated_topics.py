"""Where a topic starts that has taken the name of another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.fixtures import Brokers
from tests.support.source_run import reading
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata

Topic = Callable[[str], str]


def test_offsets_that_metadata_gave_for_a_topic_are_not_those_of_one_that_has_taken_its_name(
    brokers: Brokers, orders: str, topic: Topic, path: Path
) -> None:
    # Given explicit starts, as `import-checkpoint` writes them, and a topic that was created anew while it was parked
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

        # When it is named again
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other], **own)))
        run.until(lambda: ("a", orders) in run.next, "the new topic")
        while run.batch():
            pass

        # Then it is read whole: the offsets were said of the old one
        assert_rows(run.rows(), wanted)
