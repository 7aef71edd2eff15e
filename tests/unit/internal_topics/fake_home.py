"""A home cluster in memory, whose requests fail as a test asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dynamic_kafka.app.internal_topics.home import Home
from dynamic_kafka.errors import ClusterError, ClusterUnreachableError
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.kafka.topic_admin import Creation, FoundTopic, TopicAdmin, WantedTopic

DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000", "min.insync.replicas": "1"}


class FakeAdmin(TopicAdmin):
    """The topics of one cluster.

    Attributes:
        refuse, silent: topics whose creation the cluster refuses, or about which it sends no answer.
        silent_makes: whether it makes the silent ones all the same.
        undeletable: topics that it does not delete.
        before: is called with the name of each request; may raise, or change the topics.
        requests: the requests in order, those that change something.
    """

    def __init__(self, kafka_id: str | None = "K1") -> None:
        self.cluster, self.deadline_s = "home", 1.0
        self.id = kafka_id
        self.topics: dict[str, FoundTopic] = {}
        self.refuse: set[str] = set()
        self.silent: set[str] = set()
        self.silent_makes = False
        self.undeletable: set[str] = set()
        self.before: Callable[[str], None] = lambda request: None
        self.requests: list[tuple[str, list[str]]] = []
        self._made = 0

    def kafka_id(self, topic: str) -> str | None:
        self.before("kafka_id")
        return self.id

    def found(self, names: Sequence[str]) -> dict[str, FoundTopic]:
        self.before("found")
        return {name: self.topics[name] for name in names if name in self.topics}

    def make(self, name: str, partitions: int = 1, replicas: int = 1, **config: str) -> None:
        """Make a topic as another program does."""
        self._made += 1
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.topics[name] = FoundTopic(f"i+d/{self._made}", partitions, replicas, {**DEFAULTS, **given})

    def create(self, topics: Sequence[WantedTopic], *, validate_only: bool = False) -> Creation:
        names = {topic.name for topic in topics}
        if validate_only:
            self.before("validate")
            return Creation(frozenset(), frozenset(), frozenset(), {})
        self.before("create")
        self.requests.append(("create", sorted(names)))
        existed = names & self.topics.keys()
        made = names - existed - self.refuse - self.silent
        for topic in topics:
            if topic.name in made or (topic.name in self.silent and self.silent_makes):
                self.make(topic.name, topic.partitions, topic.replication_factor or 1, **topic.config)
        refused = {name: ClusterError(self.cluster, f"{name} is refused") for name in names & self.refuse}
        self.before("created")
        return Creation(frozenset(made), frozenset(existed), frozenset(names & self.silent), refused)

    def delete(self, names: Sequence[str]) -> dict[str, ClusterError]:
        self.before("delete")
        self.requests.append(("delete", sorted(names)))
        for name in set(names) - self.undeletable:
            self.topics.pop(name, None)
        failed = set(names) & self.undeletable
        return {name: ClusterUnreachableError(self.cluster, "does not answer") for name in failed}

    def close_in_background(self) -> None:
        pass


class FakeHome(Home):
    """The home `east`, with one fake client."""

    def __init__(self, fake: FakeAdmin) -> None:
        super().__init__("east", lambda: ClusterClient(cluster="east", common={}, own={"bootstrap.servers": "h:9092"}))
        self.fake = fake

    def admin(self, deadline_s: float) -> TopicAdmin:
        self.fake.deadline_s = deadline_s
        return self.fake
