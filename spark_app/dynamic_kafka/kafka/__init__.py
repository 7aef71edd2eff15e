"""Kafka clients: admin, probes, readers, commits, secrets. Driver and executors."""
