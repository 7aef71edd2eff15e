"""Benchmarks of planning and reading on real brokers: `python -m tests.bench`. Results: docs/performance.md."""
