"""`init` in a process of its own that is killed at one step. Arguments: the step, then those of the command.

A step is the n-th call of a function below, `before` or `after` it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.internal_topics.memory import SetupMemory
from dynamic_kafka.kafka.topic_admin import TopicAdmin

PLACES: dict[str, tuple[type, str, int]] = {
    "look": (TopicAdmin, "found", 1),
    "validate": (TopicAdmin, "create", 1),
    "begin": (SetupMemory, "write", 1),
    "create": (TopicAdmin, "create", 2),
    "look-again": (TopicAdmin, "found", 2),
    "remember": (SetupMemory, "write", 2),
}
"""The steps of a set-up, in their order: class, function, and which of its calls."""
STEPS = [f"{when}-{place}" for place in PLACES for when in ("before", "after")]


def kill_at(step: str) -> None:
    """Let this process be killed at a step, without a chance to clean up."""
    when, _, place = step.partition("-")
    owner, name, number = PLACES[place]
    original = getattr(owner, name)
    calls = 0

    def killed(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(self, *arguments, **named)
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, killed)


if __name__ == "__main__":
    kill_at(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
