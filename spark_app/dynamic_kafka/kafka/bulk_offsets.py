"""Lists of the offsets of many partitions. Driver and executors; `kafka.admin` calls it.

`AdminClient.list_offsets` makes a future for each partition, each with a lock and a condition: for 2,000 partitions
these take 20 ms of CPU, more than the rest of the request. The method of confluent-kafka's C module, which it calls,
takes one future for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo

from dynamic_kafka.planning.starting import OffsetQuery

PARTITIONS_PER_CALL = 500
"""The most partitions in one call of librdkafka. It finds each answer's partition by a linear search, so that the CPU
time of a call grows with the square of its partitions."""

Answers = dict[TopicPartition, ListOffsetsResultInfo | KafkaError]

_NEWEST_RECORD = -3
"""The timestamp that asks for the record with the greatest timestamp (ListOffsets, version 7)."""
_MARKS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END, "newest": _NEWEST_RECORD}


def list_offsets(
    client: AdminClient, queries: Mapping[tuple[str, int], OffsetQuery], isolation: IsolationLevel, timeout_s: float
) -> Iterator[tuple[tuple[str, int], ListOffsetsResultInfo | Exception]]:
    """Send all queries at once, in calls of at most `PARTITIONS_PER_CALL`, and yield an answer or an error for each.

    Args:
        queries: one query per (topic, partition): earliest, latest, newest or timestamp.
    """
    keys = list(queries)
    calls = []
    for first in range(0, len(keys), PARTITIONS_PER_CALL):
        part = keys[first : first + PARTITIONS_PER_CALL]
        asked = [TopicPartition(*key, _wanted(queries[key])) for key in part]
        calls.append((part, asked, _sent(client, asked, isolation, timeout_s)))
    for part, asked, future in calls:
        try:
            answers = future.result(timeout_s + 1)
        except Exception as raised:
            yield from ((key, raised) for key in part)
            continue
        for key, partition in zip(part, asked, strict=True):
            answer = answers.get(partition)
            if answer is None:
                answer = KafkaError(KafkaError._FAIL, f"the answer of the brokers lacks {key[0]}[{key[1]}]")
            yield key, KafkaException(answer) if isinstance(answer, KafkaError) else answer


def _wanted(query: OffsetQuery) -> int:
    return query.timestamp_ms or 0 if query.kind == "timestamp" else _MARKS[query.kind]


def _sent(
    client: AdminClient, asked: list[TopicPartition], isolation: IsolationLevel, timeout_s: float
) -> Future[Answers]:
    future: Future[Answers] = Future()
    # Arguments and answers are those of the C module: a test holds them.
    super(AdminClient, client).list_offsets(
        asked, future, isolation_level_value=isolation.value, request_timeout=timeout_s
    )
    return future
