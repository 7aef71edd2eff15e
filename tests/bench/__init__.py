"""Benchmarks of planning and reading on brokers: `python -m tests.bench`. Results: docs/contributing/performance.md."""
