"""Read tasks: the ranges of a batch with everything that executors need to read them. Driver; no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dynamic_kafka.driver.amendment_refusal import REMOVED_RANGES_CHOICES
from dynamic_kafka.driver.cluster_clients import client_of, home_client
from dynamic_kafka.errors import PendingRangesError
from dynamic_kafka.executor.read_task import BatchReports, DeadLetterTarget, ReadTask
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.clock_of_values import horizon_ms
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.observation import Observation
from dynamic_kafka.planning.sameness.cluster_renames import current_ids
from dynamic_kafka.planning.sameness.identity import saved_identity
from dynamic_kafka.planning.splits import SplitRange, slice_ranges
from dynamic_kafka.state.folder import RANGE_END, STOP_RECORD


def make_tasks(
    options: SourceOptions,
    observation: Observation,
    document: OffsetDocument,
    ranges: Sequence[SplitRange],
    *,
    clock_ms: int | None = None,
    driver: str = "",
    ended: Iterable[StopRecord] = (),
) -> list[ReadTask]:
    """Return one read task per range, or several where `minPartitions` or `maxRecordsPerPartition` cut it.

    Rows keep the cluster and stream ids of the document, so that a replay yields the same rows even if metadata has
    renamed the cluster since.

    Args:
        observation: the metadata in force, and for a replay the answers by which it was decided.
        clock_ms: the clock before the batch, by which rows are late.
        driver: the name of this driver (`state.incarnation`).
        ended: the stop records at which the ranges end.
    """
    subscription = observation.subscription
    active = frozenset(subscription.clusters)
    source = hashlib.blake2b(repr(sorted(options.raw.items())).encode(), digest_size=8).hexdigest()
    # By the document's cluster id. The tasks of a cluster share the set: one for each of 50,000 tasks takes 110 MB.
    location = options.state_location if options.mode == "streaming" else None
    reports = None
    if location:
        kind = RANGE_END if document.by_value is not None else STOP_RECORD
        reports = BatchReports(location, document.query, fingerprint(document), document.number, driver, kind)
    known = {record.split for record in ended}
    dead_letters = _dead_letters(options, subscription)
    current = current_ids(document, observation)
    shared: dict[str, tuple[str, ClusterClient, frozenset[str], str | None]] = {}
    tasks = []
    late_before_ms = None
    if options.watermark_mode == "periodic" and clock_ms is not None:
        late_before_ms = clock_ms - options.allowed_lateness_ms
    pauses_at_ms, drift_ms = None, document.drift_ms or options.alignment_max_drift_ms
    if document.by_value is not None and options.timestamp_assigner is not None and drift_ms is not None:
        pauses_at_ms = horizon_ms(document, drift_ms)
    least, most = options.min_partitions, options.max_records_per_partition
    for part in slice_ranges(ranges, min_partitions=least, max_records=most):
        saved = part.split.cluster
        if saved not in shared:
            current_id = current.get(saved)
            if current_id is None:
                raise PendingRangesError(f"metadata no longer names the cluster of {part}. {REMOVED_RANGES_CHOICES}")
            client = client_of(options, subscription, current_id)
            shared[saved] = (current_id, client, active | {saved}, saved_identity(document, saved))
        cluster, client, named, kafka_id = shared[saved]
        topic = document.topic(saved, part.split.topic)
        tasks.append(
            ReadTask(
                part=part,
                stream=topic.stream if topic else "",
                kafka_id=kafka_id,
                client=client,
                active=named,
                read_timeout_s=options.read_timeout_ms / 1000,
                include_headers=options.include_headers,
                fail_on_data_loss=options.fail_on_data_loss,
                stall=options.cluster_failure_policy == "stall",
                source=source,
                topic_id=topic.topic_id if topic else None,
                statistics=options.read_reports is not None and options.mode == "streaming",
                reports=reports
                if options.record_evaluator or document.by_value is not None or (topic and topic.topic_id)
                else None,
                dead_letters=dead_letters,
                has_stop_record=part.split in known or (topic is not None and part.split.partition in topic.ended),
                pin=saved_topic_id(subscription.clusters[cluster].topic_ids.get(part.split.topic)),
                topic_integrity=options.topic_integrity_check,
                reader=options.reader,
                columns=options.columns,
                late_before_ms=late_before_ms,
                time_column=options.time_column,
                is_reported=part.split in known,
                pauses_at_ms=None if part.split in known else pauses_at_ms,
            )
        )
    return tasks


def _dead_letters(options: SourceOptions, subscription: Subscription) -> DeadLetterTarget | None:
    target = options.dead_letters
    if target is None:
        return None
    client = home_client(
        options,
        lambda: subscription,
        cluster=target.cluster,
        properties=target.properties,
        where="option 'deadLetters'",
    )
    refused, late = options.refused_records == "deadletter", options.late_rows == "deadletter"
    return DeadLetterTarget(client, target.topic, target.kafka_id, refused=refused, late=late)
