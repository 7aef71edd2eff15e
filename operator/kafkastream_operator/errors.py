"""Errors between the operator and the API server.

OperatorError
├── LoginError            the operator cannot log in
└── ApiError              the API server refused a call, or did not answer
    ├── NotFoundError     404
    └── ConflictError     409: the object has changed, or another manager owns a field
"""

from __future__ import annotations


class OperatorError(Exception):
    """Base class of all errors of the operator."""


class LoginError(OperatorError):
    """A login that is not possible: the kubeconfig is missing or unusable, or this process does not run in a pod."""


class ApiError(OperatorError):
    """A call that the API server refused or did not answer.

    Attributes:
        status: the HTTP status; 0 without an answer.
        reason: the reason in Kubernetes' words, such as `Conflict`.
        message: the message of the answer, or of the connection's error.
        retry_after_s: seconds that the server asks to wait before the next try.
    """

    def __init__(self, what: str, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{what}: {status or 'no answer'} {reason}: {message}")
        self.status, self.reason, self.message, self.retry_after_s = status, reason, message, retry_after_s


class NotFoundError(ApiError):
    """A call for an object or a kind that does not exist."""


class ConflictError(ApiError):
    """A write that came too late, or that needs a field of another manager's."""


BY_STATUS: dict[int, type[ApiError]] = {404: NotFoundError, 409: ConflictError}
