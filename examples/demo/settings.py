"""What a run of the demo is given, and the few numbers that it states its promises with. No I/O."""

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

TRIGGER_S = 1.0
"""The Parquet query's trigger, as `manifests/app.yaml` has it."""
DISCOVERY_S = 5.0
"""`metadataDiscoveryInterval` in the same file. (The source looks at the document each second besides; that is its
affair.)"""
RESTART_S = 90.0
"""What a restart may take, with one patch that is lost and made again after 60 s. The old driver ends in order,
Kubeflow's operator submits the new one, and Spark starts."""

DEFAULT_DURATION_S = 150
SHORTEST_S = 60

Strategy = Literal["live", "restart"]
UPDATE_STRATEGIES: dict[Strategy, str] = {"live": "Reload", "restart": "Restart"}
"""`updateStrategy` of the subscription."""


@dataclass(frozen=True)
class Settings:
    """One run.

    Attributes:
        strategy: how changes reach the driver: live, or by a patched restart each.
        seed: decides when and where the driver is killed, and the rate of the producers.
        duration: aim for the length of the story in seconds, without set-up and proof; events that take longer win.
        keep: leave data, checkpoint and logs behind.
        build: the report goes to `build/demo`.
    """

    seed: int
    duration: float
    keep: bool
    build: Path
    strategy: Strategy = "live"

    @property
    def update_strategy(self) -> str:
        """The same as the subscription has it."""
        return UPDATE_STRATEGIES[self.strategy]

    @property
    def first_record_bound_s(self) -> float:
        """How soon after `kubectl apply` the first record of an added cluster has to be readable in the sink, in the
        median of all additions."""
        return DISCOVERY_S + 2 * TRIGGER_S + (RESTART_S if self.strategy == "restart" else 0.0)

    @property
    def report_folder(self) -> Path:
        """Where `report.json` and `report.html` go."""
        return self.build / "demo"


def parse(arguments: Sequence[str], build: Path) -> Settings:
    """Read the command line; what it does not know is refused with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="make demo",
        description="A Spark stream migrates between three Kafka clusters while its driver is killed. Then the proof.",
        allow_abbrev=False,
    )
    parser.add_argument("--seed", type=int, default=1, help="when and where the driver is killed (default 1)")
    parser.add_argument(
        "--duration",
        type=_duration,
        default=float(DEFAULT_DURATION_S),
        metavar="SECONDS",
        help=f"aim for the story's length, at least {SHORTEST_S} (default {DEFAULT_DURATION_S})",
    )
    parser.add_argument(
        "--strategy",
        choices=tuple(UPDATE_STRATEGIES),
        default="live",
        help="how changes reach the driver: live, or by a confirmed restart each (default live)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the data, the checkpoint and the brokers' logs")
    given = parser.parse_args(arguments)
    return Settings(seed=given.seed, duration=given.duration, keep=given.keep, build=build, strategy=given.strategy)


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not SHORTEST_S <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between {SHORTEST_S} and 3600 seconds")
    return seconds
