"""Batches of records with flipped bits: no process crashes or hangs, and no row is wrong that a checksum covers.

A checksum covers a batch from its attributes on. Its first offset and its length have none: there TCP's own checksums
have to do, and those of TLS.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.native import broker_within, readers, reading_with
from tests.support.native.damage import DamagingProxy
from tests.support.places import ROOT
from tests.support.spark import spark_environment

RECORDS, BATCHES = 20, 10
SECONDS, LEAST_READS = 3, 20

READ = """
import hashlib, json, sys, time
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.executor.reading.range_reader import read_range
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.splits import Split, SplitRange

given = json.loads(sys.argv[1])
client = ClusterClient("east", given["properties"], {})
part = SplitRange(Split("east", "orders", 0), 0, given["end"])
task = ReadTask(part, "shop", None, client, frozenset({"east"}), 1.0, True, True, reader=given["reader"])
ends, reads = time.monotonic() + given["seconds"], 0
while time.monotonic() < ends or reads < given["reads"]:
    reads += 1
    found = hashlib.sha256()
    try:
        for batch in read_range(task):
            for row in batch.select(["key", "value", "offset"]).to_pylist():
                found.update(repr(row).encode())
        print("rows", found.hexdigest(), flush=True)
    except (DynamicKafkaError, OverflowError) as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """Yield the address of a broker with batches of random records."""
    with broker_within() as (producer, address):
        chance = random.Random(1)
        for _ in range(BATCHES):
            fill(producer, chance)
        yield address


def fill(producer: Producer, chance: random.Random) -> None:
    for _ in range(RECORDS):
        key, value = chance.randbytes(chance.randrange(40)), chance.randbytes(chance.randrange(300))
        producer.produce("orders", value, key, partition=0, headers=[("h", b"x")])
    assert producer.flush(30) == 0


def outcomes(address: str, reader: str, *, seconds: int = SECONDS, reads: int = LEAST_READS, **more: str) -> list[str]:
    """Read the topic again and again in a process of its own; return what each time has given."""
    given: dict[str, Any] = {"properties": {"bootstrap.servers": address, **more}, "end": BATCHES * RECORDS}
    given |= {"reader": reader, "seconds": seconds, "reads": reads}
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(given)],
        cwd=ROOT,
        env=spark_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout.splitlines()


@pytest.mark.parametrize("reader", readers())
def test_no_damaged_record_becomes_a_row(broker: str, reader: str) -> None:
    """Neither is a record missing. The client reports a batch with a wrong checksum."""
    [whole] = set(outcomes(broker, reader, seconds=0, reads=1))
    seed = random.randrange(1 << 32)
    with DamagingProxy(broker, seed, only_checked=True) as proxy, reading_with(reader):
        counts = Counter(outcomes(proxy.address, reader))
    print(f"seed {seed}: {proxy.damaged} answers were damaged: {dict(counts)}")
    assert whole.startswith("rows ")
    assert counts.keys() - {"ReadTimeoutError"} == {whole, "ClusterError"}, f"seed {seed}: {counts}"


@pytest.mark.parametrize("crcs", ["true", "false"])
@pytest.mark.parametrize("reader", readers())
def test_no_damage_crashes_or_hangs_a_process(broker: str, reader: str, crcs: str) -> None:
    seed = random.randrange(1 << 32)
    with DamagingProxy(broker, seed, only_checked=False) as proxy, reading_with(reader):
        counts = Counter(outcomes(proxy.address, reader, **{"check.crcs": crcs}))
    print(f"seed {seed}: {proxy.damaged} answers were damaged: {dict(counts)}")
    assert proxy.damaged and counts.total() >= LEAST_READS, f"seed {seed}: {counts}"
