"""Subscribers choose the streams of a query: by ids, by a pattern, or by a user's own class. Driver.

One call of `get_subscribed_streams` makes one lookup at the service.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence

from dynamic_kafka.errors import MetadataInvalidError, OptionError
from dynamic_kafka.metadata.model import KafkaStream
from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.wording import did_you_mean, first_few, nearest_names

_log = logging.getLogger(__name__)


class KafkaStreamSubscriber(ABC):
    """The choice of streams (FLIP-246). A user's own class is created with the source's options as one mapping."""

    @abstractmethod
    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        """Return the streams of `service` to read now. Raises as the service does."""

    def check_at_start(self, service: KafkaMetadataService, streams: Sequence[KafkaStream]) -> None:  # noqa: B027
        """Refuse a first lookup that must be a mistake; `streams` is its result. By default nothing is refused.

        Raises:
            MetadataInvalidError: something subscribed does not exist.
        """

    def missing(self, stream_ids: Collection[str]) -> list[str]:
        """Return the streams that are subscribed by name and are not in `stream_ids`. Default: none."""
        return []


class StreamIdsSubscriber(KafkaStreamSubscriber):
    """The streams of these ids. At a query's first start each must exist; later a removed one is no longer read."""

    def __init__(self, stream_ids: Iterable[str]) -> None:
        self._ids = tuple(dict.fromkeys(stream_ids))
        if not self._ids:
            raise OptionError("no stream ids are given; name at least one, as in `streamIds=orders;payments`")

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return list(service.describe_streams(self._ids).values())

    def check_at_start(self, service: KafkaMetadataService, streams: Sequence[KafkaStream]) -> None:
        missing = self.missing([stream.stream_id for stream in streams])
        if not missing:
            return
        known = sorted(stream.stream_id for stream in service.get_all_streams())
        problems = [f"the subscribed stream {name!r} does not exist; {known_streams(name, known)}" for name in missing]
        raise MetadataInvalidError("; ".join(problems), tuple(problems))

    def missing(self, stream_ids: Collection[str]) -> list[str]:
        return [stream_id for stream_id in self._ids if stream_id not in stream_ids]


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """The streams whose whole id matches a regular expression, as in Spark; Flink matches any part of the id."""

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise OptionError(f"{pattern!r} is no regular expression: {error}; correct `streamPattern`") from None

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return [stream for stream in service.get_all_streams() if self._pattern.fullmatch(stream.stream_id)]

    def check_at_start(self, service: KafkaMetadataService, streams: Sequence[KafkaStream]) -> None:
        """Warn of a pattern that matches no whole id but parts of ids, as a pattern for Flink may."""
        if streams:
            return
        part = sorted(
            stream.stream_id for stream in service.get_all_streams() if self._pattern.search(stream.stream_id)
        )
        if part:
            _log.warning(
                "the pattern %r matches no whole name, so nothing is read; write .*(%s).* to read streams like %s",
                self._pattern.pattern,
                self._pattern.pattern,
                first_few(part),
            )


def known_streams(wanted: str, known: Sequence[str]) -> str:
    """Return a text that lists the streams that exist, the most similar to `wanted` first."""
    if not known:
        return "the metadata names no streams at all"
    close = nearest_names(wanted, list(known), count=3)
    listed = first_few([*close, *(name for name in known if name not in close)])
    return f"known are {listed}{did_you_mean(wanted, known)}"
