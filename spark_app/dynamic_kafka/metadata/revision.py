"""The revision that an application waits for before it plans, and the text of a revision in messages. Driver; pure.

Equal content has one hash, and counters order the revisions of one lineage. Revisions of two lineages have no order,
nor have documents without a lineage, as most documents that users write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynamic_kafka.contract.kubernetes_names import REVISION_ENVIRONMENT
from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import Revision

_HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
_COUNTER = re.compile(r"(?:(?P<lineage>.+)/)?(?P<counter>[0-9]{1,18})\Z")


@dataclass(frozen=True)
class AwaitedRevision:
    """The revision of `metadataRevision`: a counter, with or without its lineage, or the hash of exact content.

    Attributes:
        by_operator: the revision comes from the environment, which all sources of a driver share. So it holds only for
            documents that the operator writes.
    """

    hash: str | None = None
    counter: int | None = None
    lineage: str | None = None
    by_operator: bool = False

    @classmethod
    def parse(cls, text: str) -> AwaitedRevision:
        """Return the revision that a text names: `17`, `<lineage>/17` or `sha256:<64 hex>`.

        Raises:
            OptionError: the text has none of these forms.
        """
        if _HASH.match(text):
            return cls(hash=text)
        match = _COUNTER.match(text)
        if not match:
            raise OptionError(
                f"{text!r} is no `metadataRevision`; write a number, `<lineage>/<number>` or `sha256:<64 hex>`"
            )
        return cls(counter=int(match["counter"]), lineage=match["lineage"])

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> AwaitedRevision | None:
        """Return the revision that the operator wrote into `KAFKASTREAMS_REVISION`; None if that is unset or empty.

        Raises:
            OptionError: the variable holds no revision.
        """
        text = environment.get(REVISION_ENVIRONMENT)
        if not text:
            return None
        try:
            return replace(cls.parse(text), by_operator=True)
        except OptionError as error:
            raise OptionError(f"{REVISION_ENVIRONMENT} in the environment: {error}") from None

    def reached_by(self, revision: Revision) -> bool:
        """Return whether `revision` is at least as new. A hash has no order: only the same content reaches it.

        A revision of the operator is also reached by another lineage: its subscription was then created again, and the
        awaited revision will never arrive.
        """
        if self.is_replaced_by(revision) or (self.by_operator and revision.rendering is None):
            return True
        if self.counter is None:
            return revision.hash == self.hash
        if self.lineage is None:
            return revision.counter is not None and revision.counter >= self.counter
        return revision.is_at_least(Revision(counter=self.counter, lineage=self.lineage))

    def is_replaced_by(self, revision: Revision) -> bool:
        """Return whether the operator has since rendered another lineage than the awaited one."""
        if not self.by_operator or revision.rendering is None or self.lineage is None:
            return False
        return revision.lineage not in (None, self.lineage)

    def __str__(self) -> str:
        origin = f" ({REVISION_ENVIRONMENT})" if self.by_operator else ""
        if self.counter is None:
            return f"{self.hash}{origin}"
        return f"{self.lineage}/{self.counter}{origin}" if self.lineage is not None else f"{self.counter}{origin}"


def described(revision: Revision) -> str:
    """Return the text of a revision for a message: `<lineage>/17 (sha256:0123…)`."""
    digest = revision.hash[:19] + "…"
    if revision.counter is None:
        return digest
    lineage = f"{revision.lineage}/" if revision.lineage is not None else ""
    return f"{lineage}{revision.counter} ({digest})"
