"""Tests on real brokers and a real Spark."""
