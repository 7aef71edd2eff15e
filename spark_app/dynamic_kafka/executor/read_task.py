"""One executor task: a range of a split, how to read it, and where to report. The driver makes it, Spark pickles it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.executor.state_folder import StateFolder
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.splits import Split, SplitRange


@dataclass(frozen=True)
class BatchReports:
    """The place where executors make durable what only they see in a batch (`StateFolder.save_seen`).

    Attributes:
        location: the `stateLocation`.
        batch: fingerprint of the batch's end document.
    """

    location: str
    query: str
    batch: str

    def save(self, kind: str, split: Split, content: Mapping[str, Any]) -> None:
        """Make a report durable, as `StateFolder.save_seen` does.

        Raises:
            OptionError: the location is another folder here than on the driver; or as `StateFolder`.
            DynamicKafkaError: as `StateFolder`.
        """
        folder = StateFolder(self.location)
        if not folder.list_folders(self.query):
            raise OptionError(
                f"stateLocation: executors must write {folder.uri}/{self.query}/seen, but the driver's files are not in"
                " that folder on this host: name a folder that the driver and all executors share"
            )
        folder.save_seen(self.query, self.batch, kind, split, content)


@dataclass(frozen=True)
class ReadTask:
    """Everything that an executor needs for one range. It holds references to secrets, never their values.

    Attributes:
        stream: stream id for the rows.
        kafka_id: Kafka's `cluster.id` that the offsets belong to; None if the cluster reports none.
        topic_id: Kafka's id of the topic that the offsets belong to; None if the cluster reports none.
        active: all clusters of the plan; an executor closes this source's consumers of other clusters.
        read_timeout_s: seconds without any progress after which the range fails.
        stall: `clusterFailurePolicy=stall`; it only changes the advice after a timeout.
        source: identifies the source among those of the application, by its options.
        reports: the place for reports about the batch; None if no check needs it, or without a `stateLocation`.
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
    topic_id: str | None = None
    reports: BatchReports | None = None

    @property
    def timeout_advice(self) -> str:
        """Return the advice at the end of a timeout's message."""
        if not self.stall:
            return "; check the cluster; raise readTimeout, or set clusterFailurePolicy=stall"
        return (
            "; check the cluster, or raise readTimeout. The next start of the query (clusterFailurePolicy=stall) leaves"
            " this cluster's ranges out of the batch, and reads them when the cluster answers"
        )
