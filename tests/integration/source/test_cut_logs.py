"""Logs that a broker has lost the end of, and that have grown again: before anything was read of them, and after a loss
that was accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamic_kafka.errors import DataLossError
from tests.integration.source.test_truncations import accepted, truncated
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, reading
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata

__all__ = ["truncated"]


@pytest.fixture
def fragile() -> Iterator[KafkaCluster]:
    with KafkaCluster("fragile") as made:
        yield made.start().wait_ready()


def cut(at: KafkaCluster, topic: str) -> int:
    """What a power failure does to a log that was not synced: half of it is gone. Returns its new end."""
    at.kill()
    log = at.folder / "data" / f"{topic}-0" / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)
    at.start().wait_ready()
    return at.end_offsets(topic)[0]


@pytest.mark.parametrize("read_before", [True, False], ids=["read before", "opened only"])
def test_a_log_that_was_cut_off_and_has_grown_again_is_noticed(
    fragile: KafkaCluster, path: Path, read_before: bool
) -> None:
    # Given a split that a query has opened at the end of its log
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

        # When the log loses its end, and producers go on until it is longer than before
        end = cut(fragile, "orders")
        assert 0 < end < 100
        produce("east", fragile, "orders", before + 10 - end, prefix="new")

        # Then the new records before the saved offset are not passed over in silence
        with pytest.raises(DataLossError):
            run.until(lambda: run.next["east", "orders"] == {0: before + 10}, "the end")
            pytest.fail(f"records {end}..{before} were never delivered: {sorted(run.rows())[:1]}")


def test_after_a_truncation_that_was_accepted_what_came_since_is_read(
    truncated: SourceRun, elected: KafkaCluster, path: Path
) -> None:
    # Given a log that is shorter by now than what was read of it, and a person who has accepted that reading goes on at
    # its end, as `accept` says and records
    end = accepted(truncated, elected, path)

    # When records come between that and the restart
    wanted = produce("east", elected, "orders", 3)
    truncated.until(lambda: truncated.next["east", "orders"] == {0: end + 3}, "the end")

    # Then they are read: nobody has given them up
    assert_rows(truncated.rows(), wanted)
