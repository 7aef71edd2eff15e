"""librdkafka alone, as the limit of a reader on it: records arrive in the client, and nothing is made of them.

Runs as `python -m tests.bench.reader.librdkafka <given>`, in a process of its own for each turn of `session.py`. It
needs no compiler, since it calls the library in confluent-kafka's wheel: `rd_kafka_consume_callback_queue` hands each
message to a C function and then frees it. That function is `rd_kafka_version`, which does nothing with its arguments.
"""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SETTINGS = {
    "check.crcs": "true",
    "enable.auto.commit": "false",
    "fetch.queue.backoff.ms": "2",
    "fetch.wait.max.ms": "10",
    "group.id": "librdkafka-alone",
    "queued.max.messages.kbytes": "65536",
    "queued.min.messages": "1000000",
}
"""The source's own settings where it has some (`kafka/config.py`), with a longer queue."""
_CONSUMER, _FIRST, _TEXT = 1, 0, 512


def in_a_process(given: Mapping[str, Any]) -> dict[str, Any]:
    """Call `read_all` in a process of its own, and return its figures."""
    command = [sys.executable, "-m", "tests.bench.reader.librdkafka", json.dumps(given)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def read_all(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read a whole topic by several consumers at once, as many as Spark has tasks, and return seconds and records."""
    library = _library()
    count, partitions = given["consumers"], range(given["partitions"])
    began, cpu = time.perf_counter(), _cpu()
    with ThreadPoolExecutor(count) as pool:  # ctypes releases the GIL
        shares = [list(partitions)[number::count] for number in range(count)]
        rows = sum(pool.map(lambda share: _consume(library, given, share), shares))
    return {"rows": rows, "wall_s": time.perf_counter() - began, "cpu_s": _cpu() - cpu}


def _consume(library: ctypes.CDLL, given: Mapping[str, Any], partitions: list[int]) -> int:
    """Read partitions to their ends, and return the number of records."""
    wanted = sum(given["ends"][partition] for partition in partitions)
    client = _client(library, {**SETTINGS, "bootstrap.servers": given["bootstrap"]})
    assigned = library.rd_kafka_topic_partition_list_new(len(partitions))
    for partition in partitions:
        library.rd_kafka_topic_partition_list_add(assigned, given["topic"].encode(), partition)
        library.rd_kafka_topic_partition_list_set_offset(assigned, given["topic"].encode(), partition, _FIRST)
    if failed := library.rd_kafka_assign(client, assigned):
        raise RuntimeError(f"librdkafka refuses the partitions: error {failed}")
    queue = library.rd_kafka_queue_get_consumer(client)
    nothing = ctypes.cast(library.rd_kafka_version, ctypes.c_void_p)
    # The call also counts an event for each new partition: at the end, a handful of records may be missing.
    read, deadline = 0, time.monotonic() + 120
    while read < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"librdkafka has read {read:,} of {wanted:,} records")
        read += max(0, library.rd_kafka_consume_callback_queue(queue, 100, nothing, None))
    library.rd_kafka_queue_destroy(queue)
    library.rd_kafka_topic_partition_list_destroy(assigned)
    library.rd_kafka_consumer_close(client)
    library.rd_kafka_destroy(client)
    return read


def _client(library: ctypes.CDLL, settings: Mapping[str, str]) -> ctypes.c_void_p:
    why = ctypes.create_string_buffer(_TEXT)
    configuration = ctypes.c_void_p(library.rd_kafka_conf_new())
    for name, value in settings.items():
        if library.rd_kafka_conf_set(configuration, name.encode(), value.encode(), why, ctypes.c_size_t(_TEXT)):
            raise RuntimeError(f"librdkafka refuses a setting: {why.value.decode()}")
    client = library.rd_kafka_new(_CONSUMER, configuration, why, ctypes.c_size_t(_TEXT))
    if not client:
        raise RuntimeError(f"librdkafka refuses a client: {why.value.decode()}")
    library.rd_kafka_poll_set_consumer(ctypes.c_void_p(client))
    return ctypes.c_void_p(client)


def _library() -> ctypes.CDLL:
    """Return the library that confluent-kafka has loaded."""
    import confluent_kafka  # noqa: F401  # loads it

    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    library = ctypes.CDLL(next(path for path in mapped if "librdkafka" in Path(path).name))
    pointer = ctypes.c_void_p
    library.rd_kafka_new.restype = pointer
    library.rd_kafka_conf_new.restype = pointer
    library.rd_kafka_conf_set.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_new.argtypes = [ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_topic_partition_list_new.restype = pointer
    library.rd_kafka_topic_partition_list_add.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int32]
    library.rd_kafka_topic_partition_list_set_offset.argtypes = [
        pointer,
        ctypes.c_char_p,
        ctypes.c_int32,
        ctypes.c_int64,
    ]
    library.rd_kafka_topic_partition_list_destroy.argtypes = [pointer]
    library.rd_kafka_assign.argtypes = [pointer, pointer]
    library.rd_kafka_queue_get_consumer.restype = pointer
    library.rd_kafka_queue_get_consumer.argtypes = [pointer]
    library.rd_kafka_queue_destroy.argtypes = [pointer]
    library.rd_kafka_consume_callback_queue.argtypes = [pointer, ctypes.c_int, pointer, pointer]
    library.rd_kafka_consumer_close.argtypes = [pointer]
    library.rd_kafka_destroy.argtypes = [pointer]
    return library


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(json.dumps(read_all(json.loads(sys.argv[1]))))
