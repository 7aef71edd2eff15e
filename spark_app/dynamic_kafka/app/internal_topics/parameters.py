"""The parameters of `init`: which kinds of topics it may complete (KIP-698's `InitParameters`). Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dynamic_kafka.app.config.internal_topics import Kind


@dataclass(frozen=True)
class InitParameters:
    """Which kinds of internal topics `init` may complete if some, but not all, internal topics exist.

    `InitParameters()` completes none: `init` then raises an error. Each method returns new parameters.
    """

    _completed: frozenset[Kind] = frozenset()

    def enable_setup_repartition_topics_if_incomplete(self) -> InitParameters:
        """Make missing repartition topics."""
        return self._with("repartition")

    def disable_setup_repartition_topics_if_incomplete(self) -> InitParameters:
        """Refuse missing repartition topics if other internal topics exist."""
        return self._without("repartition")

    @property
    def setup_repartition_topics_if_incomplete_enabled(self) -> bool:
        """Whether missing repartition topics are made."""
        return self.completes("repartition")

    def enable_setup_changelog_topics_if_incomplete(self) -> InitParameters:
        """Make missing changelogs."""
        return self._with("changelog")

    def disable_setup_changelog_topics_if_incomplete(self) -> InitParameters:
        """Refuse missing changelogs if other internal topics exist."""
        return self._without("changelog")

    @property
    def setup_changelog_topics_if_incomplete_enabled(self) -> bool:
        """Whether missing changelogs are made."""
        return self.completes("changelog")

    def enable_setup_internal_topics_if_incomplete(self) -> InitParameters:
        """Make missing topics of each kind; those for dead letters have no parameter of their own."""
        return self._with("repartition", "changelog", "deadLetters")

    def disable_setup_internal_topics_if_incomplete(self) -> InitParameters:
        """Refuse missing topics of each kind if other internal topics exist."""
        return self._without("repartition", "changelog", "deadLetters")

    @property
    def setup_internal_topics_if_incomplete_enabled(self) -> bool:
        """Whether missing topics of each kind are made."""
        return self._completed == {"repartition", "changelog", "deadLetters"}

    def completes(self, kind: Kind) -> bool:
        """Return whether missing topics of this kind are made."""
        return kind in self._completed

    def _with(self, *kinds: Kind) -> InitParameters:
        return replace(self, _completed=self._completed | set(kinds))

    def _without(self, *kinds: Kind) -> InitParameters:
        return replace(self, _completed=self._completed - set(kinds))
