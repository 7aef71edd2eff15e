"""Benchmarks: what planning and reading cost on real brokers. `python -m tests.bench`; see docs/performance.md."""
