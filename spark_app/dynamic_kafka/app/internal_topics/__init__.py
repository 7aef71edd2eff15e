"""The application's internal topics (KIP-698): made at its start or by `init`, checked, and watched."""

from dynamic_kafka.app.internal_topics.initialise import init
from dynamic_kafka.app.internal_topics.parameters import InitParameters

__all__ = ["InitParameters", "init"]
