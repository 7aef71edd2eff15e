"""Whether the brokers of one cluster agree on the ids of topics. Driver and executors; blocks the calling thread.

One broker may have old metadata, and answer with the id of a topic that was re-created since. The client sends the
request for ids to the broker that the cluster has named as its controller last. With KRaft that is any broker that is
alive, another one in each answer. So a small request comes first, and its answer shows which broker will be asked. With
ZooKeeper it is always the controller, which has no old metadata.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.kafka.admin import CONFIRMING_BROKERS, ClusterAdmin
from dynamic_kafka.wording import first_few

SAME_BROKER = 3
"""Requests after the first that name the same broker as the controller, if no other one may be asked."""
SMALL_REQUESTS = 12
"""The most requests that look for a broker that was not asked yet."""

log = logging.getLogger(__name__)


def disputed_ids(admin: ClusterAdmin, ids: Mapping[str, str]) -> frozenset[str]:
    """Return those of the topics to which a broker gives another id, or none; at most four brokers are asked.

    All are disputed if only one broker answers, and the cluster lists more: that one may be the one with old metadata.

    Args:
        admin: a client of the cluster. Another one with its configuration asks, over new connections.
        ids: {topic: the id that is doubtful}.

    Raises:
        ClusterError: no broker answers, or the cluster refuses to describe a topic.
    """
    asker = _Asker(admin.cluster, admin.config, read_committed=False, deadline_s=admin.deadline_s)
    deadline = time.monotonic() + admin.deadline_s
    asked: set[int] = set()
    named_again, brokers = 0, 1
    answers: list[Mapping[str, str | None]] = []
    try:
        for _ in range(SMALL_REQUESTS):
            # A broker that hangs must leave time for another one.
            asker.deadline_s = max(0.1, (deadline - time.monotonic()) / 2)
            broker, brokers = asker.next_broker(min(ids))
            named_again += broker in asked
            if broker not in asked:
                asked.add(broker)
                try:
                    answers.append({name: topic_id for name, (topic_id, _) in asker.describe_topics(ids)[0].items()})
                except ClusterUnreachableError as error:
                    log.warning(
                        "broker %s of cluster %s does not describe its topics: %s", broker, admin.cluster, error
                    )
            if len(asked) >= min(brokers, 1 + CONFIRMING_BROKERS) or time.monotonic() > deadline:
                break
    finally:
        asker.close_in_background()
    if not answers:
        text = f"one broker gives the topics {first_few(sorted(ids), 5)} another id, and no other one answers"
        raise ClusterUnreachableError(admin.cluster, text)
    # With ZooKeeper, the controller is named each time, and has no old metadata.
    is_controller = len(asked) == 1 and named_again >= SAME_BROKER
    if len(answers) < min(brokers, 2) and not is_controller:
        return frozenset(ids)
    return frozenset(name for name, expected in ids.items() if any(answer.get(name) != expected for answer in answers))


class _Asker(ClusterAdmin):
    """An admin client that shows which broker it asks."""

    def next_broker(self, topic: str) -> tuple[int, int]:
        """Return the broker that `describe_topics` asks next, and the number of all brokers. Raises ClusterError."""
        try:
            listed = self._metadata(topic, self.deadline_s)
        except Exception as raised:
            raise self._translated("describe the cluster", raised) from None
        return listed.controller_id, len(listed.brokers)
