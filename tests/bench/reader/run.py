"""The reading benchmark: brokers, topics, the Spark session, the result and its comparison with the recorded one.

It prints each turn, keeps the page up to date while it runs, and writes `build/bench/reader.json` at the end.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from tests.bench import memory
from tests.bench.clusters import clusters, create_topics, fill
from tests.bench.reader import figures, page
from tests.bench.reader.cases import (
    IDLE,
    LATENCY,
    MARK,
    MEMORY,
    NAMES,
    OTHER_ROUNDS,
    PARTITIONS,
    Case,
    chosen_cases,
    other_turns,
)
from tests.bench.report import machine
from tests.support.kafka import KafkaCluster
from tests.support.places import BUILD, ROOT
from tests.support.spark_kafka import SPARK42_PYTHON, connector_jars
from tests.support.supervise import dying_with_us, kill_session

RESULT, PAGE = BUILD / "bench" / "reader.json", BUILD / "bench" / "reader.html"
RECORDED = ROOT / "docs" / "bench" / "reader.json"
RECORD = "make bench ARGS=--record"

Json = dict[str, Any]


class Run:
    """A run of the benchmark: its turns so far, and the result that they give."""

    def __init__(self, names: Sequence[str], rounds: int | None, records: int | None) -> None:
        self.names = names
        self.cases, left_out = chosen_cases(names, rounds=rounds, records=records)
        turns = other_turns(min(rounds or OTHER_ROUNDS, OTHER_ROUNDS))
        self.others = {name: turns for name in (LATENCY, IDLE) if name in names}
        self.began = time.monotonic()
        self.turns: list[Json] = []
        self.total = sum((case.rounds + 1) * len(case.variants) for case in self.cases)
        self.total += sum(map(len, self.others.values()))
        self.result: Json = {
            "about": {
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "machine": machine(),
                "loadBefore": round(os.getloadavg()[0], 2),
                "leftOut": left_out,
            }
        }
        for reason in left_out:
            self.say(reason)

    def measure(self) -> None:
        """Run all turns, and then the memory of a worker."""
        if self.total:
            with clusters(1, 1) as (broker,):
                ends = {case.topic.name: self.filled(broker, case) for case in self.cases}
                plan = {
                    "bootstrap": broker.bootstrap,
                    "ends": ends,
                    "cases": [case.as_json() for case in self.cases],
                    "others": {
                        name: [[turn, asdict(variant)] for turn, variant in turns]
                        for name, turns in self.others.items()
                    },
                }
                with _session(plan) as session:
                    for line in _lines(session):
                        self.take(line, broker, session)
        if MEMORY in self.names:
            self.result[MEMORY] = list(memory.reading_worker())
            self.result[figures.PEAK] = round(self.result[MEMORY][0]["peak_mb"])

    def filled(self, broker: KafkaCluster, case: Case) -> list[int]:
        """Fill the topic of a case unless another case has, and return its ends by partition."""
        topic = case.topic
        if made_now(broker, topic.name, PARTITIONS):
            self.say(f"writing {topic.records:,} records of {topic.size:,} bytes, compression {topic.compression}")
            fill(
                broker,
                PARTITIONS,
                records=topic.records,
                size=topic.size,
                topic=topic.name,
                compression=topic.compression,
            )
        ends = broker.end_offsets(topic.name)
        return [ends[partition] for partition in range(PARTITIONS)]

    def take(self, line: Json, broker: KafkaCluster, session: subprocess.Popen[bytes]) -> None:
        """Act on a line of the session."""
        if line["kind"] == "topic":
            made_now(broker, line["topic"], line["partitions"])
            assert session.stdin is not None
            session.stdin.write(b"made\n")
            session.stdin.flush()
        elif line["kind"] == "session":
            self.result["about"]["spark"] = line["spark"]
            self.say(f"Spark {line['spark']} has started; {self.total} turns follow; {PAGE} shows them")
        else:
            self.turns.append(line)
            self.update()
            of_all = f"[{len(self.turns):3}/{self.total}]"
            self.say(f"{of_all} {line['case']:17} {_round(line['round'])}  {line['variant']:18} {_shown(line)}")

    def update(self) -> None:
        """Compute the result of the turns so far, and write the page."""
        by_case: dict[str, list[Json]] = {}
        for turn in self.turns:
            by_case.setdefault(turn["case"], []).append(turn)
        for case in self.cases:
            if any(turn["round"] >= 0 for turn in by_case.get(case.name, ())):
                self.result[case.name] = figures.case_figures(case.as_json(), by_case[case.name])
        for name, compute in ((LATENCY, figures.latency_figures), (IDLE, figures.idle_figures)):
            if len({turn["variant"] for turn in by_case.get(name, ())}) > 1:
                self.result |= compute(by_case[name])
        self.write_page([], progress=f"Turn {len(self.turns)} of {self.total}")

    def write_page(self, problems: list[str], *, progress: str = "") -> None:
        """Write the page."""
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page.render(self.result, problems, progress=progress))

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"{minutes:3}:{seconds:02}  {text}", flush=True)


def run(names: Sequence[str], *, rounds: int | None = None, records: int | None = None) -> bool:
    """Run the named cases and measurements, and return whether a ratio has fallen behind the recorded one."""
    if not SPARK42_PYTHON.exists():
        sys.exit("The Spark of the comparison is not installed: make setup-spark42")
    connector_jars()
    made = Run(names, rounds, records)
    made.measure()
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(made.result, indent=1) + "\n")
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    problems = figures.falls(made.result, recorded)
    made.write_page(problems)
    print("\n".join(table(made.result, recorded)))
    if not recorded:
        print(f"{RECORDED} is missing: nothing was compared with earlier figures")
    for problem in problems:
        print(f"FALLEN: {problem}")
    print(f"{RESULT}\n{PAGE}")
    return bool(problems)


def made_now(broker: KafkaCluster, topic: str, partitions: int) -> bool:
    """Create a topic unless it exists, and return whether it did not."""
    if topic in broker.admin.list_topics(timeout=30).topics:
        return False
    create_topics([broker], topic, partitions)
    return True


def table(result: Mapping[str, Any], recorded: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table: each ratio, its goal and the recorded value."""
    before, small = figures.all_ratios(recorded), figures.incomparable(result, recorded)
    yield f"\n{'ratio, above 1: ours is better':44}{'now':>8}{'goal':>8}{'recorded':>10}"
    for path, value in figures.all_ratios(result).items():
        goal = figures.GOALS.get(path)
        yield f"{path:44}{value:8.2f}{_or_dash(goal):>8}{_or_dash(before.get(path)):>10}"
    if (peak := result.get(figures.PEAK)) is not None:
        yield f"{figures.PEAK:44}{peak:8}{figures.PEAK_GOAL_MB:8}{recorded.get(figures.PEAK, '–'):>10}"
    if not recorded:
        yield f"Nothing is recorded to compare with; `{RECORD}` records this result."
    if small:
        yield f"Not compared, since they ran with other records or in fewer rounds: {', '.join(small)}"


def record() -> str:
    """Make the last result the recorded one, and return a line about it. Exits if that result is not whole."""
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if missing := not_whole(result):
        sys.exit(f"{RESULT} is of a small run, or lacks {', '.join(missing)}: run `make bench ARGS=reader` first")
    RECORDED.parent.mkdir(parents=True, exist_ok=True)
    RECORDED.write_text(json.dumps(result, indent=1) + "\n")
    return f"Recorded in {RECORDED.relative_to(ROOT)}: the run of {result['about']['at']}"


def not_whole(result: Mapping[str, Any]) -> list[str]:
    """Return the cases and measurements that a result lacks, or that are smaller than by default."""
    cases, _ = chosen_cases(NAMES)
    full = {case.name: (asdict(case.topic), case.rounds) for case in cases}
    lacking = [name for name in (*full, LATENCY, IDLE, MEMORY) if name not in result]
    small = [
        name
        for name, (topic, rounds) in full.items()
        if name in result and (result[name]["topic"] != topic or result[name]["rounds"] < rounds)
    ]
    return lacking + small


@contextmanager
def _session(plan: Json) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the running `session.py`.

    Raises:
        RuntimeError: it has failed.
    """
    place = BUILD / "bench"
    place.mkdir(parents=True, exist_ok=True)
    (place / "plan.json").write_text(json.dumps(plan))
    log = place / "session.log"
    command = [str(SPARK42_PYTHON), "-m", "tests.bench.reader.session", str(place / "plan.json")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'spark_app'}"}
    with log.open("w") as errors:
        process = subprocess.Popen(
            dying_with_us(command),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process
            if process.wait(60):
                raise RuntimeError(f"the Spark session has failed; {log} ends with\n{log.read_text()[-2000:]}")
        finally:
            kill_session(process)


def _lines(process: subprocess.Popen[bytes]) -> Iterable[Json]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(MARK.encode()):
            yield json.loads(line.removeprefix(MARK.encode()))


def _round(number: int) -> str:
    return "warm-up" if number < 0 else f"round {number + 1}"


def _shown(turn: Json) -> str:
    if "ms" in turn:
        return f"p50 {sorted(turn['ms'])[len(turn['ms']) // 2]:.0f} ms"
    if "rows" not in turn:
        return f"{turn['cpu_s'] / turn['wall_s'] * 1000:.0f} ms of CPU a second"
    rate, cpu = turn["rows"] / turn["wall_s"] / 1e6, turn["cpu_s"] / turn["rows"] * 1e6
    return f"{turn['wall_s']:6.2f} s  {rate:5.2f} M rows/s  {cpu:5.2f} µs CPU a row"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
