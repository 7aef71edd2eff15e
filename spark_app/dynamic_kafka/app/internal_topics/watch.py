"""The watch over the internal topics while the application runs. Driver; a thread of its own, for which nothing waits.

A topic that is deleted within a run is never made again within it. Under `internalTopicsSetup=manual` its loss ends the
application; under `automatic` it is logged, counted, and made again at the next start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from dynamic_kafka.app.config.internal_topics import InternalTopic
from dynamic_kafka.app.internal_topics.home import Home
from dynamic_kafka.app.internal_topics.setup_plan import (
    Remembered,
    check_home,
    missing_text,
    recreated_text,
    recreated_topics,
)
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult
from dynamic_kafka.errors import DynamicKafkaError, IdentityError, MissingInternalTopicError
from dynamic_kafka.kafka.topic_admin import FoundTopic, TopicAdmin

INTERVAL_S = 10.0
"""Seconds between two looks."""
DEADLINE_S = 30.0

log = logging.getLogger(__name__)


class TopicWatch:
    """The watch over one application's internal topics.

    Args:
        topics: the declared topics.
        manual: whether the loss of a topic ends the application.

    Attributes:
        failure: why the application has to end; None while it may run.
    """

    def __init__(self, topics: Sequence[InternalTopic], *, manual: bool) -> None:
        self._topics, self._manual = topics, manual
        self.failure: DynamicKafkaError | None = None
        self._lost: frozenset[str] = frozenset()
        self._at_start: frozenset[str] = frozenset()
        self._failing = False
        self._stopped = threading.Event()

    def start(self, home: Home, result: SetupResult) -> None:
        """Begin to look, after the set-up of the start."""
        self._at_start = frozenset((*result.plan.deleted, *result.plan.recreated))
        remembered = Remembered(result.kafka_id, {name: topic.topic_id for name, topic in result.found.items()})
        threading.Thread(target=self._run, args=(home, remembered), name="internal-topics", daemon=True).start()

    def stop(self) -> None:
        """End the looks, without waiting for the present one."""
        self._stopped.set()

    def lost(self) -> Mapping[str, bool]:
        """Return for each topic whether it is missing or re-created, or was so when the application started."""
        return {topic.name: topic.name in self._lost | self._at_start for topic in self._topics}

    def compare(self, existing: Mapping[str, FoundTopic], remembered: Remembered) -> None:
        """Take over the outcome of one look."""
        recreated = recreated_topics(existing, remembered)
        missing = [topic for topic in self._topics if topic.name not in existing]
        lost = frozenset(recreated) | {topic.name for topic in missing}
        if lost == self._lost:
            return
        self._lost = lost
        if not lost:
            return
        texts = [missing_text(missing, self._topics, existing, remembered)] if missing else []
        texts += [recreated_text(recreated)] if recreated else []
        text = "; ".join(texts)
        if self._manual:
            self.failure = MissingInternalTopicError(text)
        names = sorted(topic.name for topic in missing)
        fields = {"event": "internal-topics", "made": [], "deleted": names, "recreated": sorted(recreated)}
        log.warning("%s%s", text, "" if self._manual else ". The next start does so, too", extra=fields)

    def _check_home(self, home: Home, kafka_id: str | None, remembered: Remembered) -> None:
        """Refuse another cluster than that of the start: its topics say nothing about ours. Raises IdentityError."""
        try:
            check_home(home.name, kafka_id, remembered, None)
        except IdentityError as error:
            self.failure = error if self._manual else None
            raise

    def _run(self, home: Home, remembered: Remembered) -> None:
        admin: TopicAdmin | None = None
        while not self._stopped.wait(INTERVAL_S):
            try:
                admin = admin if admin is not None else home.admin(DEADLINE_S)
                self._check_home(home, admin.kafka_id(self._topics[0].name), remembered)
                existing = admin.found([topic.name for topic in self._topics])
                self.compare(existing, remembered)
                self._failing = False
            except Exception as error:  # no failure of a look may stop reading, or later looks
                if not self._failing:
                    log.warning("cannot look at the internal topics; reading goes on: %s", error)
                self._failing = True
                if admin is not None:
                    admin.close_in_background()
                admin = None  # a client that lost its brokers never finds them again (see `admin.kafka_id`)
        if admin is not None:
            admin.close_in_background()
