"""The driver report: the JSON that a driver writes into the annotation `kafkastream.dev/report` of its own pod.

This module owns the form of the report and nothing else. The application builds a `DriverReport` and writes its text
(`dynamic_kafka.driver.report`); the operator parses that text (`kafkastream_operator.core.drain_evidence`). Pure.

Readers ignore fields that they do not have, so a newer driver may add some. A report names streams, clusters, topics
and servers, as the document does. It never holds a secret, because a document has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

REPORT_CONTRACT = 1
"""The edition of this form."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
MAX_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: a later time has no date."""
LIVE = "live"
"""The ability to take up a new revision without a restart."""


class _ReportPart(BaseModel):
    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class ReportedTopic(_ReportPart):
    """The progress of one topic that drains.

    Attributes:
        lag: the records that no committed batch has yet, over all partitions; None if that is not known.
        quiet_s: seconds for which no end offset has moved, since the driver has the revision in which the topic drains.
        open_transaction: whether an open transaction hides records of a partition.
        kafka_id: the `cluster.id` that the brokers report; None if they report none.
        never_reached: whether no query has ever read its cluster, and the cluster answers none.
        finished: whether all queries have read all its splits to their ends, and read them no more: nothing drains.
    """

    cluster: str
    topic: str
    lag: int | None = None
    quiet_s: float = Field(default=0.0, alias="quiet")
    open_transaction: StrictBool = False
    kafka_id: str | None = None
    never_reached: StrictBool = False
    finished: StrictBool = False


class NeverReachedCluster(_ReportPart):
    """A cluster that a query has never read because it does not answer, and the cause with its servers."""

    cluster: str
    reason: str


class StandingClock(_ReportPart):
    """The clock of a query that has stood for a while, although there are unread records.

    Attributes:
        clock_ms: milliseconds since the epoch; None without a first clock.
        held_by: the split that holds it, such as `west/orders[3]`; empty if none does.
        waits_for: the announced clusters for whose first records it waits.
    """

    query: str
    clock_ms: Annotated[int, Field(ge=-1, le=MAX_TIME_MS)] | None = Field(default=None, alias="clock")
    held_by: str = ""
    waits_for: tuple[str, ...] = ()


class RejectedRevision(_ReportPart):
    """A revision that the driver does not use, and the reason.

    Attributes:
        revision: `<lineage>/<counter>`; empty if it is not known.
    """

    revision: str
    reason: str


def _streams_or_none(streams: Any) -> Any:
    """Drop streams that do not have the form of a document's; the rest of the report still counts.

    The readers of the document check whether the streams are valid.
    """
    try:
        for stream in dict(streams).values():
            for content in stream["clusters"].values():
                if not all(isinstance(topic, str) for topic in content["topics"]):
                    return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return dict(streams)


class DriverReport(_ReportPart):
    """One report of one driver.

    Attributes:
        contract: the edition of this form.
        reader: the newest edition of documents that the driver's image reads.
        abilities: what the driver can do, such as `live`.
        applied: `<lineage>/<counter>` of the revision that the driver and all its planners use; None before the first.
        hash: the hash of that revision's streams; empty before the first.
        rejected: the newest revision that the driver does not use, and why.
        subscription: UID of the subscription that the document was rendered for; empty if the document has none.
        pod: UID of the pod that reports.
        beat: a number that grows with each report.
        never_reached: the clusters that a query has never read because they do not answer.
        unanswered: the new clusters that have neither answered a query nor failed yet.
        finished: whether all queries have ended by themselves, and a further start of them reads nothing. No report
            follows.
        open_splits: splits that have not reached their stop record, once another one has; not all of them.
        lost_topics: internal topics of the application that are missing or were re-created.
        homes: the clusters of the metadata that hold internal topics. Without them the application cannot go on.
        standing_clocks: the clocks of queries that stand although there are unread records; not all of them.
        streams: the streams of the applied revision, word for word; None, and absent from the text, if they are large.
    """

    contract: int = REPORT_CONTRACT
    reader: int = 1
    abilities: tuple[str, ...] = ()
    applied: str | None = None
    hash: str = ""
    rejected: RejectedRevision | None = None
    subscription: str = ""
    pod: str = ""
    beat: int = 0
    draining: tuple[ReportedTopic, ...] = ()
    never_reached: tuple[NeverReachedCluster, ...] = ()
    unanswered: tuple[str, ...] = ()
    finished: StrictBool = False
    open_splits: tuple[str, ...] = ()
    lost_topics: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    standing_clocks: tuple[StandingClock, ...] = ()
    streams: Annotated[dict[str, Any] | None, BeforeValidator(_streams_or_none)] = None

    @classmethod
    def parse(cls, text: str) -> DriverReport:
        """Parse the text of an annotation.

        Raises:
            ValueError: the text is no JSON, or not of this form.
        """
        if _SURROGATE.search(text) is None:
            return cls.model_validate_json(text)
        # Half a surrogate pair may stand for a byte of a path in a reason. pydantic refuses it.
        try:
            report = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return cls.model_validate_json(json.dumps(report, ensure_ascii=False).encode(errors="replace"))

    def text(self) -> str:
        """Return the compact JSON text, in ASCII, so that its characters are its bytes."""
        return _compact_json(self.model_dump(by_alias=True, exclude={"streams"} if self.streams is None else None))


def reported_size(topic: ReportedTopic) -> int:
    """Return the bytes that one topic, with its comma, adds to the text of a report."""
    return len(_compact_json(topic.model_dump(by_alias=True))) + 1


def _compact_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))
