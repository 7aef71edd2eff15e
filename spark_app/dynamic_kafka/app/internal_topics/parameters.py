"""The parameters of `init`: which kinds of topics it may complete (KIP-698's `InitParameters`). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.app.config.internal_topics import Kind


@dataclass(frozen=True, kw_only=True)
class InitParameters:
    """Which kinds of internal topics `init` may complete if some, but not all, internal topics exist.

    `InitParameters()` completes none: `init` then raises an error.

    Attributes:
        setup_repartition_topics_if_incomplete: make missing repartition topics.
        setup_changelog_topics_if_incomplete: make missing changelogs.
        setup_internal_topics_if_incomplete: make missing topics of each kind; those for dead letters have no parameter
            of their own.
    """

    setup_repartition_topics_if_incomplete: bool = False
    setup_changelog_topics_if_incomplete: bool = False
    setup_internal_topics_if_incomplete: bool = False

    def completes(self, kind: Kind) -> bool:
        """Return whether missing topics of this kind are made."""
        by_kind = {
            "repartition": self.setup_repartition_topics_if_incomplete,
            "changelog": self.setup_changelog_topics_if_incomplete,
        }
        return self.setup_internal_topics_if_incomplete or by_kind.get(kind, False)
