"""One executor task: a range of a split, and how to read it. The driver makes it, Spark pickles it to an executor."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.splits import SplitRange


@dataclass(frozen=True)
class ReadTask:
    """Everything that an executor needs for one range. It holds references to secrets, never their values.

    Attributes:
        stream: stream id for the rows.
        kafka_id: Kafka's `cluster.id` that the offsets belong to; None if the cluster reports none.
        active: all clusters of the plan; an executor closes this source's consumers of other clusters.
        read_timeout_s: seconds without any progress after which the range fails.
        stall: `clusterFailurePolicy=stall`; it only changes the advice after a timeout.
        source: identifies the source among those of the application, by its options.
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
    source: str = ""

    @property
    def timeout_advice(self) -> str:
        """Return the advice at the end of a timeout's message."""
        if not self.stall:
            return "; check the cluster; raise readTimeout, or set clusterFailurePolicy=stall"
        return (
            "; check the cluster, or raise readTimeout. The next start of the query (clusterFailurePolicy=stall) leaves"
            " this cluster's ranges out of the batch, and reads them when the cluster answers"
        )
