"""The revision that an application waits for before it plans. Driver; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import Revision

_HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
_COUNTER = re.compile(r"(?:(?P<lineage>.+)/)?(?P<counter>[0-9]{1,18})\Z")


@dataclass(frozen=True)
class AwaitedRevision:
    """`metadataRevision`: a counter, with or without its lineage, or the hash of exact content."""

    hash: str | None = None
    counter: int | None = None
    lineage: str | None = None

    @classmethod
    def parse(cls, text: str) -> AwaitedRevision:
        """`17`, `<lineage>/17` or `sha256:<64 hex>`.

        Raises:
            OptionError: it is none of these.
        """
        if _HASH.match(text):
            return cls(hash=text)
        found = _COUNTER.match(text)
        if not found:
            raise OptionError(
                f"{text!r} is no revision; write `metadataRevision` as a number, `<lineage>/<number>` or "
                "`sha256:<64 hex>`"
            )
        return cls(counter=int(found["counter"]), lineage=found["lineage"])

    def reached_by(self, revision: Revision) -> bool:
        """Whether `revision` is at least as new. A hash has no order: only the very content reaches it."""
        if self.counter is None:
            return revision.hash == self.hash
        if revision.counter is None or (self.lineage is not None and revision.lineage != self.lineage):
            return False
        return revision.counter >= self.counter

    def __str__(self) -> str:
        if self.counter is None:
            return str(self.hash)
        return f"{self.lineage}/{self.counter}" if self.lineage is not None else str(self.counter)


def described(revision: Revision) -> str:
    """`revision` for a message: `<lineage>/17 (sha256:0123…)`."""
    digest = revision.hash[:19] + "…"
    if revision.counter is None:
        return digest
    lineage = f"{revision.lineage}/" if revision.lineage is not None else ""
    return f"{lineage}{revision.counter} ({digest})"
