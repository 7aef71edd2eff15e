"""Records in, offsets out: the conveniences of a cluster for tests, over confluent-kafka.

Everything waits until the broker has confirmed it and raises what the broker refused. Used through
`KafkaCluster`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_SECONDS = 30.0


@dataclass(frozen=True)
class Record:
    """A record to send; without a partition the key, or chance, chooses one."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


# A bare value stands for a record that has nothing else.
Value = Record | bytes | str


def produce(properties: Mapping[str, str], topic: str, records: Iterable[Value], partition: int | None = None) -> None:
    """Send `records` and wait until all are acknowledged. Raises `KafkaException` when one is refused."""
    producer = Producer({**properties, "linger.ms": 5, "log_level": 0})
    failures: list[KafkaError] = []
    _send(producer, topic, records, partition, failures)
    _flush(producer, failures)


def _send(
    producer: Producer,
    topic: str,
    records: Iterable[Value],
    partition: int | None,
    failures: list[KafkaError],
) -> None:
    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    for given in records:
        record = _as_record(given)
        chosen = partition if record.partition is None else record.partition
        send = functools.partial(
            producer.produce,
            topic,
            value=record.value,
            key=record.key,
            partition=-1 if chosen is None else chosen,
            timestamp=record.timestamp_ms or 0,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        try:
            send()
        except BufferError:
            producer.poll(_SECONDS)
            send()
        producer.poll(0)


def _as_record(given: Value) -> Record:
    if isinstance(given, str):
        return Record(given.encode())
    return Record(given) if isinstance(given, bytes) else given


def _flush(producer: Producer, failures: list[KafkaError]) -> None:
    left = producer.flush(_SECONDS)
    if failures:
        raise KafkaException(failures[0])
    if left:
        raise TimeoutError(f"{left} records were not acknowledged within {_SECONDS:.0f} s")


class Transaction:
    """One open transaction. As a context manager it commits, or aborts when its block raises."""

    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        """Begin. Its records count for `read_uncommitted` as soon as they are sent."""
        self._producer = Producer({**properties, "transactional.id": transactional_id, "log_level": 0})
        self._producer.init_transactions(_SECONDS)
        self._producer.begin_transaction()
        self._failures: list[KafkaError] = []

    def produce(self, topic: str, records: Iterable[Value], *, partition: int | None = None) -> None:
        """Send `records` within the transaction and wait until they are in the log."""
        _send(self._producer, topic, records, partition, self._failures)
        _flush(self._producer, self._failures)

    def commit(self) -> None:
        """Make its records visible to `read_committed`."""
        self._producer.commit_transaction(_SECONDS)

    def abort(self) -> None:
        """Hide its records from `read_committed` for good; they and the marker keep their offsets."""
        self._producer.abort_transaction(_SECONDS)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()
