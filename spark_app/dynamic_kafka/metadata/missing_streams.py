"""Streams that are subscribed by id and that metadata names no more: a rename or a slip, told once each. Driver.

Nothing of such a stream is read, its clusters are parked as if they had been taken out. That may be meant, so it ends
nothing; but it must not pass in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber, known_streams
from dynamic_kafka.metadata.subscription import Subscription

_log = logging.getLogger(__name__)


class MissingStreams:
    """The account of one discovery. `ids` are those that the metadata in force does not name."""

    def __init__(self, subscriber: KafkaStreamSubscriber, service: KafkaMetadataService) -> None:
        self.ids: tuple[str, ...] = ()
        self._subscriber, self._service = subscriber, service

    def look(self, subscription: Subscription) -> list[str]:
        """What to say of those that a look-up misses for the first time. May ask the service."""
        news = [each for each in self._subscriber.missing(subscription.stream_ids) if each not in self.ids]
        if not news:
            return []
        try:
            known = sorted(stream.stream_id for stream in self._service.get_all_streams())
        except Exception:  # that something is missing is known without it
            known = list(subscription.stream_ids)
        return [
            f"the subscribed stream {each!r} is no longer in the metadata: nothing of it is read;"
            f" {known_streams(each, known)}"
            for each in news
        ]

    def settle(self, in_force: Subscription, told: Sequence[str]) -> None:
        """Compare with what is in force now, which may be other metadata than was looked up, and tell."""
        missing = tuple(self._subscriber.missing(in_force.stream_ids))
        for text in told if set(missing) - set(self.ids) else ():
            _log.warning("%s", text)
        for each in set(self.ids) - set(missing):
            _log.info("the subscribed stream %r is in the metadata again", each)
        self.ids = missing
