"""Kafka clients on driver and executors: their configuration, secrets, calls and errors."""
