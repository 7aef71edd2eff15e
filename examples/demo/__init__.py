"""A demo: one stream migrates between three real Kafka clusters while its driver is killed, and no record is lost.

`make demo` runs it (`python -m demo` in `examples/`). `docs/contributing/demo.md` describes it.
"""
