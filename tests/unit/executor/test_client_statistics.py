"""librdkafka's statistics as counts: totals of a client grow, windows of an interval add up."""

from __future__ import annotations

import json

from dynamic_kafka.executor.client_statistics import ClientCounts, ClientStatistics


def emitted(received: int, sent: int, *brokers: tuple[int, int, int]) -> str:
    """Return a client's statistics; of each broker the count and sum of round trips, and the throttled milliseconds."""
    windows = {
        f"b{number}": {"rtt": {"cnt": count, "sum": total}, "throttle": {"cnt": 1, "sum": paused}}
        for number, (count, total, paused) in enumerate(brokers)
    }
    return json.dumps({"rx_bytes": received, "tx_bytes": sent, "brokers": windows})


def test_totals_count_by_their_growth_and_windows_add_up() -> None:
    statistics = ClientStatistics()
    first, second = statistics.callback("east"), statistics.callback("east")
    first(emitted(1000, 100, (5, 2_000, 0), (1, 500, 30)))
    first(emitted(1500, 130, (2, 900, 0), (0, 0, 0)))
    second(emitted(10, 1, (1, 7, 0)))
    assert statistics.take() == {"east": ClientCounts(1510, 131, 9, 3_407, 30)}
    assert statistics.take() == {}


def test_an_idle_client_counts_nothing() -> None:
    statistics = ClientStatistics()
    callback = statistics.callback("east")
    callback(emitted(10, 1, (0, 0, 0)))
    statistics.take()
    callback(emitted(10, 1, (0, 0, 0)))
    assert statistics.take() == {}


def test_errors_of_clusters_are_counted_apart() -> None:
    statistics = ClientStatistics()
    for cluster in ("east", "west", "east"):
        statistics.add(cluster, ClientCounts(errors=1))
    assert statistics.take() == {"east": ClientCounts(errors=2), "west": ClientCounts(errors=1)}
