"""The options about internal topics, declared as those in `definitions`; a section of `docs/options.md`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.options.option import option


@dataclass(frozen=True, kw_only=True)
class InternalTopicOptions:
    """The topics of the application's own."""

    internal_topics_setup: Literal["automatic", "manual"] = option(
        "internalTopicsSetup",
        "word",
        "How the bundled application sets up its [internal topics](internal-topics.md): `automatic` makes missing ones"
        " at each start; `manual` refuses to start without them, and `init` makes them.",
        default="automatic",
        words=("automatic", "manual"),
        aliases=("internal.topics.setup",),
        streaming_only=True,
    )
