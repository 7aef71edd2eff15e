"""The internal topics of a running application: set up at its start, watched, and its offset changelog written. Driver.

`app.run` makes one `InternalTopicsAtWork`; the supervisor asks it for a failure, and gives it committed documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.internal_topics.changelog import ChangelogWriter
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.app.internal_topics.initialise import is_manual, set_up_at_start
from dynamic_kafka.app.internal_topics.watch import TopicWatch
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.metadata.subscription import Subscription


class InternalTopicsAtWork:
    """The internal topics of one run; nothing happens if `app.yaml` declares none.

    Args:
        subscription: returns the clusters of the metadata in force.

    Attributes:
        changelog: writes the offset changelog; None before the start, and without one.
        home_id: the `cluster.id` of the home; None before the start, and if its brokers report none.
    """

    def __init__(self, config: AppConfig, subscription: Callable[[], Subscription]) -> None:
        self._config, self._subscription = config, subscription
        declared = config.file.internal_topics
        self._watch = TopicWatch(declared.topics, manual=is_manual(config)) if declared is not None else None
        self.changelog: ChangelogWriter | None = None
        self.home_id: str | None = None

    def start(self) -> None:
        """Set the topics up, then watch them. Raises as `set_up_at_start`."""
        declared = self._config.file.internal_topics
        if declared is None or self._watch is None:
            return
        home = find_home(self._config, declared, self._subscription)
        result = set_up_at_start(self._config, declared, home)
        self.home_id = result.kafka_id
        self._watch.start(home, result)
        if declared.offset_changelog is not None:
            self.changelog = ChangelogWriter(home, declared.offset_changelog, self._config.name)

    @property
    def failure(self) -> DynamicKafkaError | None:
        """Why the application has to end; None while it may run."""
        return self._watch.failure if self._watch is not None else None

    def lost(self) -> Mapping[str, bool]:
        """Return for each internal topic whether it was lost (`TopicWatch.lost`)."""
        return self._watch.lost() if self._watch is not None else {}

    @property
    def homes(self) -> tuple[str, ...]:
        """The cluster of the metadata that is the home, by its id in `app.yaml`; none for servers of its own."""
        declared = self._config.file.internal_topics
        cluster = declared.cluster if declared is not None else None
        return (cluster,) if cluster is not None else ()

    def changelog_unwritten_s(self) -> float | None:
        """Return how long the changelog lacks a document (`ChangelogWriter.unwritten_s`); None without a changelog."""
        return self.changelog.unwritten_s() if self.changelog is not None else None

    def stop(self) -> None:
        """End all threads, without waiting for them."""
        if self._watch is not None:
            self._watch.stop()
        if self.changelog is not None:
            self.changelog.close()
