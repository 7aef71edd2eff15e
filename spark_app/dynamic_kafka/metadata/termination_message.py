"""The termination message: the text in which a driver's container leaves its exit code and reason to Kubernetes.

This module owns the form of the text and nothing else. The application writes it (`dynamic_kafka.app.outcome`), the
kubelet keeps it in the pod's status, and the operator parses it there. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dynamic_kafka.wording import counted

MAX_BYTES = 3000
"""Kubernetes keeps only the last 4096 bytes. The condition that quotes the text has 4096 characters, too."""
_FOR_GOOD = "finished for good: "
_FORM = re.compile(r"exit code (\d{1,3}): (.+)", re.DOTALL)


class TerminationMessage(NamedTuple):
    """The end of a driver: its exit code, and the reason in words."""

    code: int
    reason: str

    @classmethod
    def of_finished(cls, sinks: int, splits: int) -> TerminationMessage:
        """Return the message of a driver that has read everything, so that a further start reads nothing."""
        return cls(0, f"{_FOR_GOOD}{counted(sinks, 'sink')}, {counted(splits, 'split')} read to the end")

    @classmethod
    def parse(cls, text: str) -> TerminationMessage | None:
        """Return the message in a text; None if the text is of another program."""
        found = _FORM.match(text)
        return cls(int(found[1]), found[2]) if found is not None else None

    @property
    def is_finished(self) -> bool:
        """Whether a further start of the application reads nothing."""
        return self.code == 0 and self.reason.startswith(_FOR_GOOD)

    def text(self) -> str:
        """Return the text for the container's termination log."""
        text = f"exit code {self.code:d}: {self.reason}".encode(errors="replace")
        return text[:MAX_BYTES].decode(errors="ignore")
