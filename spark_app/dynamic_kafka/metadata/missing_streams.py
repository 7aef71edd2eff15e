"""Subscribed streams that the metadata does not name, each logged once. Driver; discovery calls it.

A rename or a typo may be the cause. The query reads nothing of such a stream, and its clusters are parked as if they
had been removed. That may be intended, so the query goes on, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber, known_streams
from dynamic_kafka.metadata.subscription import Subscription

_log = logging.getLogger(__name__)


class MissingStreams:
    """The account of one discovery. `ids` are the streams that the metadata in force does not name."""

    def __init__(self, subscriber: KafkaStreamSubscriber, service: KafkaMetadataService) -> None:
        self.ids: tuple[str, ...] = ()
        self._subscriber, self._service = subscriber, service
        self._answered = False  # whether an earlier lookup named every stream that is not in `ids`

    def among(self, subscription: Subscription) -> tuple[str, ...]:
        """Return the ids of subscribed streams that an answer does not name. Raises whatever a user's class raises."""
        return tuple(map(str, self._subscriber.missing(subscription.stream_ids)))

    def warnings(self, missing: Sequence[str], subscription: Subscription) -> list[str]:
        """Return a warning for each stream that a lookup misses for the first time. May ask the service."""
        news = [name for name in missing if name not in self.ids]
        if not news:
            return []
        try:
            known = sorted(stream.stream_id for stream in self._service.get_all_streams())
        except Exception:  # the known streams are only a hint
            known = list(subscription.stream_ids)
        absent = "no longer" if self._answered else "not"
        return [
            f"subscribed stream {name!r} is {absent} in the metadata: it is not read; {known_streams(name, known)}"
            for name in news
        ]

    def update(self, missing: tuple[str, ...], warnings: Sequence[str]) -> None:
        """Take over what the metadata in force misses, and log `warnings` and the streams that are back.

        Discovery may have rejected the answer for which the warnings were made: then nothing is missing, nor logged.
        """
        for text in warnings if set(missing) - set(self.ids) else ():
            _log.warning("%s", text)
        for name in set(self.ids) - set(missing):
            _log.info("the subscribed stream %r is in the metadata again", name)
        self.ids, self._answered = missing, True
