"""Logs that lost their end in a power failure and have grown again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamic_kafka.errors import DataLossError
from tests.integration.source.test_truncations import accept_loss, records_from_10, truncated
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, reading
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("a log that lost its end")

__all__ = ["truncated"]


@pytest.fixture
def fragile() -> Iterator[KafkaCluster]:
    with KafkaCluster("fragile") as made:
        yield made.start().wait_ready()


def truncate(at: KafkaCluster, topic: str) -> int:
    """Cut off half of a log, as a power failure may if it was not synced. Returns its new end."""
    at.kill()
    log = at.folder / "data" / f"{topic}-0" / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)
    at.start().wait_ready()
    return at.end_offsets(topic)[0]


@pytest.mark.parametrize("read_before", [True, False], ids=["read before", "opened only"])
def test_a_truncated_log_that_grew_again_is_data_loss(fragile: KafkaCluster, path: Path, read_before: bool) -> None:
    # Given a split that a query starts at the end of its log
    fragile.create_topic("orders")
    for _ in range(10):
        produce("east", fragile, "orders", 10)
    write_metadata(path, stream("orders", cluster("east", fragile, ["orders"])))
    with reading(path, startingOffsets="latest", readTimeout="10s") as run:
        run.batch()
        assert run.next == {("east", "orders"): {0: 100}}
        if read_before:
            produce("east", fragile, "orders", 5)
            run.batch()
        before = run.next["east", "orders"][0]
        run.stop()

        # When the log loses its end, and producers write until it is longer than before
        end = truncate(fragile, "orders")
        assert 0 < end < 100
        produce("east", fragile, "orders", before + 10 - end, prefix="new")

        # Then the query fails, since it would skip the new records before the saved offset
        with pytest.raises(DataLossError):
            run.until(lambda: run.next["east", "orders"] == {0: before + 10}, "the end")
            pytest.fail(f"records {end}..{before} were never delivered: {sorted(run.rows())[:1]}")


def test_records_after_an_accepted_truncation_are_read(truncated: SourceRun, elected: KafkaCluster, path: Path) -> None:
    # Given a log that is shorter than the saved offset, and a user who has accepted the loss: the tool `accept` has
    # recorded the log's end
    end = accept_loss(truncated, elected, path)

    # When records arrive between that and the restart
    produce("east", elected, "orders", 3)
    truncated.until(lambda: truncated.next["east", "orders"] == {0: end + 3}, "the end")

    # Then they are read, and so are the other records that the log has from where it was cut off
    assert records_from_10(truncated) == list(range(10, end + 3))
