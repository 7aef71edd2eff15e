"""Tests of the pure parts: no broker, no Spark."""
