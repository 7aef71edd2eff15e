"""A client for a group's offsets: made whatever the deadline is, and refused in our words where it cannot be."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import ClusterRefusedError
from dynamic_kafka.kafka.groups import GroupClient

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("deadline_s", [0.005, 30.0, 600.0])
def test_a_client_is_made_whatever_the_deadline_is(deadline_s: float) -> None:
    """It follows `readTimeout`, which may be longer than librdkafka lets a socket wait."""
    GroupClient("east", "g", NOBODY, deadline_s=deadline_s).close_in_background()


def test_a_client_that_cannot_be_made_is_told_with_its_cluster_and_without_a_value() -> None:
    with pytest.raises(ClusterRefusedError, match="cluster=east") as raised:
        GroupClient("east", "g", {**NOBODY, "security.protocol": "hunter2"}, deadline_s=30.0)
    assert "hunter2" not in str(raised.value)
