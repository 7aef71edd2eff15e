"""Rights of users on a cluster, as Kafka's ACLs: brokers that check them, and functions that give and take them.

    with KafkaCluster("checked", users={"alice": "secret"}, overrides=CHECKS_RIGHTS) as cluster:
        allow(cluster, "alice", "READ", TOPIC, "orders")

The plaintext listener may do everything, so the cluster's own methods need no right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.content import results
from tests.support.kafka.errors import BrokerError
from tests.support.waiting import wait_until

CHECKS_RIGHTS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Settings of a broker whose users may do only what `allow` gives them."""
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def allow(cluster: KafkaCluster, user: str, operation: str, kind: ResourceType, name: str) -> None:
    """Give a right such as `READ` or `DESCRIBE`, and wait until the broker obeys it."""
    grant = (f"User:{user}", "*", AclOperation[operation], AclPermissionType.ALLOW)
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, *grant)
    results(cluster.admin.create_acls([binding]))
    _wait(cluster, lambda: binding in rights(cluster, user), f"the right {operation} of {user} on {name}")


def take_back(cluster: KafkaCluster, user: str) -> None:
    """Take every right of a user back, and wait until the broker obeys that."""
    results(cluster.admin.delete_acls([_all_of(user)]))
    _wait(cluster, lambda: not rights(cluster, user), f"the end of all rights of {user}")


def rights(cluster: KafkaCluster, user: str) -> list[AclBinding]:
    """Return the rights of a user, as the broker's authorizer has them."""
    return list(cluster.admin.describe_acls(_all_of(user)).result(60.0))


def _all_of(user: str) -> AclBindingFilter:
    anything: Any = None  # the filter takes None, and its annotations only texts
    grant = (f"User:{user}", anything, AclOperation.ANY, AclPermissionType.ANY)
    return AclBindingFilter(ResourceType.ANY, anything, ResourcePatternType.ANY, *grant)


def _wait(cluster: KafkaCluster, done: Callable[[], bool], what: str) -> None:
    wait_until(done, f"{what} on {cluster.name}", timeout_s=60.0, error=BrokerError)
