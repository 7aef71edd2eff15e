"""Which streams a query reads: by ids, by a pattern, or as a user's own class decides. Driver; pure.

One call of `get_subscribed_streams` makes one look-up at the service.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence

from dynamic_kafka.errors import MetadataInvalidError, OptionError
from dynamic_kafka.metadata.model import KafkaStream
from dynamic_kafka.metadata.properties import nearest
from dynamic_kafka.metadata.services.service import KafkaMetadataService

_log = logging.getLogger(__name__)


class KafkaStreamSubscriber(ABC):
    """Chooses streams (FLIP-246). A user's own class is created with the source's options as one mapping."""

    @abstractmethod
    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        """The streams to read now, out of what `service` knows. Raises what the service raises."""

    def check_at_start(self, service: KafkaMetadataService, found: Sequence[KafkaStream]) -> None:  # noqa: B027
        """Refuse a first look-up that cannot be meant; `found` is its result. Default: anything may be meant.

        Raises:
            MetadataInvalidError: something subscribed does not exist.
        """

    def missing(self, stream_ids: Collection[str]) -> list[str]:
        """What is subscribed by name and is not among the streams that exist. Default: nothing is known by name."""
        return []


class StreamIdsSubscriber(KafkaStreamSubscriber):
    """The streams of these ids. One that vanishes is no longer read; where a query starts for the first time each must
    exist."""

    def __init__(self, stream_ids: Iterable[str]) -> None:
        self._ids = tuple(dict.fromkeys(stream_ids))
        if not self._ids:
            raise OptionError("no stream ids are given; name at least one, as in `streamIds=orders;payments`")

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return list(service.describe_streams(self._ids).values())

    def check_at_start(self, service: KafkaMetadataService, found: Sequence[KafkaStream]) -> None:
        missing = self.missing([stream.stream_id for stream in found])
        if not missing:
            return
        known = sorted(stream.stream_id for stream in service.get_all_streams())
        problems = [f"the subscribed stream {each!r} does not exist; {known_streams(each, known)}" for each in missing]
        raise MetadataInvalidError("; ".join(problems), tuple(problems))

    def missing(self, stream_ids: Collection[str]) -> list[str]:
        return [each for each in self._ids if each not in stream_ids]


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """The streams whose whole id matches a regular expression, as Spark's `subscribePattern` (Flink: any
    substring)."""

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise OptionError(f"{pattern!r} is no regular expression: {error}; correct `streamPattern`") from None

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return [stream for stream in service.get_all_streams() if self._pattern.fullmatch(stream.stream_id)]

    def check_at_start(self, service: KafkaMetadataService, found: Sequence[KafkaStream]) -> None:
        """Refuse nothing; tell of a pattern that is meant to match a part of a name, as elsewhere it may."""
        if found:
            return
        part = sorted(each.stream_id for each in service.get_all_streams() if self._pattern.search(each.stream_id))
        if part:
            _log.warning(
                "the pattern %r matches no whole name, so nothing is read; it matches a part of %s: write .*(%s).* to"
                " read what contains it",
                self._pattern.pattern,
                ", ".join(part[:10]) + (f" and {len(part) - 10} more" if len(part) > 10 else ""),
                self._pattern.pattern,
            )


def known_streams(wanted: str, known: Sequence[str]) -> str:
    """The streams that exist, those first that may be meant by `wanted`."""
    if not known:
        return "the metadata names no streams at all"
    close = nearest(wanted, list(known), count=3)
    listed = (close + [each for each in known if each not in close])[:10]
    more = f" and {len(known) - len(listed)} more" if len(known) > len(listed) else ""
    return f"known are {', '.join(listed)}{more}"
