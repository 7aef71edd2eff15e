"""What an executor is told of one range of a split. Made on the driver, travels pickled."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.splits import SplitRange

AFTER_TIMEOUT = {
    False: "; check the cluster; raise readTimeout, or set clusterFailurePolicy=stall",
    True: "; check the cluster, or raise readTimeout. When the query starts again (clusterFailurePolicy=stall) this"
    " cluster's ranges are left out of the batch, and read once it answers",
}
"""What to do about a time-out, by `ReadTask.stall`."""


@dataclass(frozen=True)
class ReadTask:
    """Everything an executor needs for one range. Travels pickled; holds references to secrets, never secrets.

    Attributes:
        part: the range.
        stream: stream id for the rows.
        kafka_id: Kafka's `cluster.id` that the offsets belong to; None where it is not known.
        client: how to reach the cluster.
        active: all clusters of the plan: consumers of others are closed.
        read_timeout_s: seconds without any progress after which the range fails.
        include_headers, fail_on_data_loss: the options of these names.
        stall: `clusterFailurePolicy=stall`; for what a time-out says only.
    """

    part: SplitRange
    stream: str
    kafka_id: str | None
    client: ClusterClient
    active: frozenset[str]
    read_timeout_s: float
    include_headers: bool
    fail_on_data_loss: bool
    stall: bool = False
