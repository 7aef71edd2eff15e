"""Freed memory goes back to the system after every so many rounds."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path

from dynamic_kafka.driver.heap_trim import TRIM_EVERY, HeapTrimmer


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def test_fragmented_memory_is_returned_after_enough_rounds() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(40_000) for _ in range(2_000)]
    for block in blocks:
        ctypes.memset(block, 1, 40_000)
    for block in blocks[:-1]:  # the last block keeps the C library from returning the others by itself
        libc.free(block)
    trimmer, full = HeapTrimmer(), resident_mb()
    for _ in range(TRIM_EVERY - 1):
        trimmer.count_round()
    assert resident_mb() > full - 10, "a trim after each round would cost more than it saves"
    trimmer.count_round()
    assert resident_mb() < full - 50
    libc.free(blocks[-1])
