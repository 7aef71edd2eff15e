"""The error of a test's brokers."""

from __future__ import annotations


class BrokerError(RuntimeError):
    """A broker failed, or did not do what a test asked for; the message names its log."""
