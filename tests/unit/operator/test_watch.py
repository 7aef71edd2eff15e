"""What has to go on beside kopf's handlers: it goes on, or the probe for liveness tells."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import kopf
import pytest

from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers import watch
from kafkastream_operator.handlers.watch import Operator


class Server:
    """Has nothing to list; each listing but the first of each kind fails, once it is told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.listed = threading.Semaphore(0)

    def list(self, *_: Any, **__: Any) -> list[Any]:
        self.listed.release()
        if self.error is not None:
            raise self.error
        return []


def started(operator: Operator) -> Any:
    """Its beginning, as kopf calls it."""
    return operator._start(settings=kopf.OperatorSettings())


def test_a_queue_that_has_ended_is_not_live() -> None:
    server: Any = Server()
    operator = Operator(server)
    queue: Any = operator.queue

    async def breaks() -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [OverflowError()])

    async def story() -> None:
        queue.run = breaks
        await started(operator)
        await asyncio.gather(*operator._tasks[1:2], return_exceptions=True)
        assert operator.health.live() == (False, "broken: see the log")
        await operator._stop()

    asyncio.run(story())


def test_who_is_stopped_is_not_broken() -> None:
    server: Any = Server()
    operator = Operator(server)

    async def story() -> None:
        await started(operator)
        await operator._stop()
        assert operator.health.live() == (True, "serving")

    asyncio.run(story())


def test_a_listing_that_fails_in_a_way_that_nobody_thought_of_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "UNHEARD_S", 0.01)
    server = Server()
    api: Any = server
    operator = Operator(api)

    async def story() -> None:
        await started(operator)
        server.error = KeyError("metadata")
        first = len(watch.WATCHED)
        for _ in range(first + 3):
            assert await asyncio.to_thread(server.listed.acquire, True, 30)
        assert operator.health.live()[0]
        await operator._stop()

    asyncio.run(story())


def test_who_is_told_to_stop_while_nobody_answers_ends() -> None:
    server = Server()
    api: Any = server
    operator = Operator(api)
    server.error = ApiError("GET x", 0, "NewConnectionError", "refused")

    async def story() -> None:
        starting = asyncio.create_task(started(operator))
        assert await asyncio.to_thread(server.listed.acquire, True, 30)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await operator._stop()

    ending = threading.Thread(target=asyncio.run, args=(story(),), daemon=True)
    ending.start()
    ending.join(30)
    ended = not ending.is_alive()
    server.error = None  # whatever still waits for an answer has one
    ending.join(30)
    assert ended
