"""The main job: one stream that migrates between three real Kafka clusters while it is killed, and the proof.

`make demo` runs it (`python -m demo` in `examples/`). `docs/demo.md` tells its story.
"""
