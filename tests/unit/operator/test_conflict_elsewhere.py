"""A conflict is visible on both sides, and gone from both when it is over: whoever brought it about."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import STREAMS
from kafkastream_operator.kube.cache import Ref


def stream(name: str, servers: str, version: int = 1) -> dict[str, Any]:
    """A KafkaStream on the cluster `east`."""
    meta = {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": str(version)}
    clusters = [{"id": "east", "bootstrapServers": servers, "topics": [name]}]
    return {"metadata": meta, "spec": {"clusters": clusters}}


def looked_at(kind: str) -> set[str]:
    """The streams that are looked at when `bills` comes, changes or goes; no subscription reads either."""
    seen: set[str] = set()

    async def story() -> None:
        server: Any = None
        operator = Operator(server)
        operator._loop = asyncio.get_running_loop()
        operator.take(STREAMS, "ADDED", stream("orders", "e:9092"))
        if kind != "ADDED":
            operator.take(STREAMS, "ADDED", stream("bills", "e:9092"))
        await asyncio.sleep(0)
        while operator.queue._waiting:
            operator.queue._waiting.discard(await operator.queue._ready.get())
        operator.take(STREAMS, kind, stream("bills", "other:9092", version=2))
        await asyncio.sleep(0)
        seen.update(each.name for each in operator.queue._waiting if isinstance(each, Ref))

    asyncio.run(story())
    return seen


def test_a_stream_that_comes_is_looked_at_with_the_one_that_it_may_disagree_with() -> None:
    assert looked_at("ADDED") == {"orders", "bills"}


def test_a_stream_that_changes_is_looked_at_with_the_one_that_it_may_disagree_with() -> None:
    assert looked_at("MODIFIED") == {"orders", "bills"}


def test_when_a_stream_goes_the_one_that_disagreed_with_it_is_looked_at() -> None:
    assert "orders" in looked_at("DELETED")
