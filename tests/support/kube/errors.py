"""The errors of the test cluster.

KubeError                 a part of the cluster failed, or did not do what the test asked for
├── ApiError              the API server refused, and said why
└── ApiUnreachableError   the API server did not answer
"""

from __future__ import annotations


class KubeError(RuntimeError):
    """A part of the cluster failed, or did not do what the test asked for; the message names its log, if any."""


class ApiError(KubeError):
    """The API server refused.

    Attributes:
        status: of HTTP.
        reason: one word of Kubernetes, such as `Forbidden` or `AlreadyExists`; empty when it gave none.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        """`message` is the API server's own, with what was asked of it."""
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def passes(self) -> bool:
        """Whether it may be otherwise in a moment: the API server is starting, stopping or busy."""
        return self.status == 429 or self.status >= 500


class ApiUnreachableError(KubeError):
    """The API server did not answer: it is down, hangs, or its certificate is not the one expected."""
