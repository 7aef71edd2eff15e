"""The client for a group's offsets: any deadline works, and wrong settings are refused."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import ClusterRefusedError
from dynamic_kafka.kafka.groups import GroupClient

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("deadline_s", [0.005, 30.0, 600.0])
def test_a_client_is_made_with_any_deadline(deadline_s: float) -> None:
    """The deadline follows `readTimeout`, which may be longer than librdkafka's longest socket time-out."""
    GroupClient("east", "g", NOBODY, deadline_s=deadline_s).close_in_background()


def test_a_refused_client_names_its_cluster_and_no_value() -> None:
    with pytest.raises(ClusterRefusedError, match="cluster=east") as raised:
        GroupClient("east", "g", {**NOBODY, "security.protocol": "hunter2"}, deadline_s=30.0)
    assert "hunter2" not in str(raised.value)
