"""What may go wrong between the operator and the API server.

OperatorError
├── LoginError            there is no way to log in to one
└── ApiError              the API server refused, or did not answer
    ├── NotFoundError     404
    └── ConflictError     409: somebody else was first, or owns a field
"""

from __future__ import annotations


class OperatorError(Exception):
    """Base of all."""


class LoginError(OperatorError):
    """There is no kubeconfig, none that can be used, or this runs in no pod."""


class ApiError(OperatorError):
    """The API server refused, or did not answer.

    Attributes:
        status: HTTP's; 0: no answer.
        reason: Kubernetes' own word, such as `Conflict`.
        retry_after_s: how long the server asks to be left alone.
    """

    def __init__(self, what: str, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{what}: {status or 'no answer'} {reason}: {message}")
        self.status, self.reason, self.message, self.retry_after_s = status, reason, message, retry_after_s


class NotFoundError(ApiError):
    """There is no such object, or no such kind."""


class ConflictError(ApiError):
    """Somebody else was first, or owns a field of ours."""


BY_STATUS: dict[int, type[ApiError]] = {404: NotFoundError, 409: ConflictError}
