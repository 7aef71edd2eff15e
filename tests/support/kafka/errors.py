"""What can go wrong with a test's brokers."""

from __future__ import annotations


class BrokerError(RuntimeError):
    """A broker did not do what the test told it to; the message names its log."""
