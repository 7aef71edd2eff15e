"""The options of a run, and the numbers that its promises use. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CLUSTERS = ("A", "B", "C")
APPLICATION = "orders"
STREAM = "orders"
TOPIC = "orders"
PARTITIONS = 3
END_OF_DAY = b"end of day"
"""The value of the record that ends a split, as `functions.EndOfDay` has it."""

TRIGGER_S = 1.0
"""The Parquet query's trigger, as `manifests/app.yaml` has it."""
DISCOVERY_S = 5.0
"""`metadataDiscoveryInterval` in the same file. (The promise ignores that the source checks the file each second.)"""
RESTART_S = 90.0
"""Longest restart: the old driver ends, Kubeflow's operator submits the new one, and Spark starts. The operator may
lose one patch, and repeats it after 60 s."""

DEFAULT_DURATION_S = SHORTEST_S = 60

Strategy = Literal["live", "restart"]
UPDATE_STRATEGIES: dict[Strategy, str] = {"live": "Reload", "restart": "Restart"}
"""`updateStrategy` of the subscription, by the demo's strategy."""


@dataclass(frozen=True)
class Settings:
    """The options of one run.

    Attributes:
        strategy: changes reach the driver live, or each by a restart.
        seed: decides when the driver is killed, and the rate of the producers.
        duration: target for the length of the story in seconds, without set-up and checks; slow events extend it.
        keep: keep data, checkpoint and logs.
        build: the report goes to `build/demo`.
    """

    seed: int
    duration: float
    keep: bool
    build: Path
    strategy: Strategy = "live"

    @property
    def update_strategy(self) -> str:
        """Return `updateStrategy` of the subscription."""
        return UPDATE_STRATEGIES[self.strategy]

    @property
    def first_record_bound_s(self) -> float:
        """Return the limit of the median time, in seconds, from `kubectl apply` to an added cluster's first record."""
        return DISCOVERY_S + 2 * TRIGGER_S + (RESTART_S if self.strategy == "restart" else 0.0)

    @property
    def report_folder(self) -> Path:
        """Return the folder for `report.json` and `report.html`."""
        return self.build / "demo"


def parse(arguments: Sequence[str], build: Path) -> Settings:
    """Parse the command line. Unknown options end the process with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="make demo",
        description="Migrate a stream between three Kafka clusters, kill its driver, and check every record.",
        allow_abbrev=False,
    )
    parser.add_argument("--seed", type=int, default=1, help="decides when the driver is killed (default 1)")
    parser.add_argument(
        "--duration",
        type=_duration,
        default=float(DEFAULT_DURATION_S),
        metavar="SECONDS",
        help=f"target for the story's length, at least {SHORTEST_S} (default {DEFAULT_DURATION_S})",
    )
    parser.add_argument(
        "--strategy",
        choices=tuple(UPDATE_STRATEGIES),
        default="live",
        help="how changes reach the driver: live, or each by a restart (default live)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the data, the checkpoint and the brokers' logs")
    given = parser.parse_args(arguments)
    return Settings(seed=given.seed, duration=given.duration, keep=given.keep, build=build, strategy=given.strategy)


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not SHORTEST_S <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between {SHORTEST_S} and 3600 seconds")
    return seconds
