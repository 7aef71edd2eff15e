"""The application ends by itself, with exit code 0, once all splits have reached their stop records."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from tests.integration.app.driving import RunApp, run_to_end, write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.ports import reserve_ports
from tests.support.streams import assert_rows, cluster, last_document, produce, stream, write_metadata

RULES = """
import pyarrow.compute as pc
from dynamic_kafka import RecordEvaluator

END = b"end of day"


class EndOfDay(RecordEvaluator):
    def end_of_stream_mask(self, batch):
        return pc.equal(batch.column("value"), END)
"""


def test_the_application_ends_by_itself_and_stays_ended(
    brokers: Brokers, topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str], run_app: RunApp
) -> None:
    # Given an evaluator in a module beside app.yaml, which executors do not have
    name = topic("day")
    for at in (brokers.a, brokers.b, brokers.c):
        at.create_topic(name, partitions=2)
    (tmp_path / "rules.py").write_text(RULES)
    write_metadata(tmp_path / "streams.json", stream("st", *(cluster(c, getattr(brokers, c), [name]) for c in "ab")))
    options = {"startingOffsets": "earliest", "recordEvaluator": "rules:EndOfDay"}
    lake = {"name": "lake", "type": "parquet", "options": {"path": str(tmp_path / "lake")}, "groupId": name}
    [port] = reserve_ports(1)
    metrics = {"port": port, "host": "127.0.0.1"}
    config = write_app(tmp_path, name=name, options=options, metrics=metrics, sinks=[lake])
    splits = [(c, getattr(brokers, c), partition) for c in "ab" for partition in range(2)]
    wanted = sum((produce(c, at, name, 5, partition=p) for c, at, p in splits), start=produce("a", brokers.a, name, 3))
    for _, at, partition in splits[:-1]:
        at.produce(name, ["end of day", "tomorrow"], partition=partition)

    # When all splits but one have ended, then the metrics show the one
    with run_app(config) as run:
        run.wait_rows(wanted)

        def finished() -> dict[str, str]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
                lines = response.read().decode().splitlines()
            return dict(line.rsplit(" ", 1) for line in lines if line.startswith("dynamic_kafka_split_finished{"))

        run.wait_until(lambda: sorted(finished().values()) == ["0.0", "1.0", "1.0", "1.0"], "three finished splits")
        [waiting] = [series for series, value in finished().items() if value == "0.0"]
        assert 'cluster="b"' in waiting and 'partition="1"' in waiting

        # When the last one ends, then the application ends with exit code 0
        brokers.b.produce(name, ["end of day", "tomorrow"], partition=1)
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
        assert run.events("finished") and run.events("ended")[-1]["code"] == 0
    ends = {("a", 0): 8, ("a", 1): 5, ("b", 0): 5, ("b", 1): 5}
    document = last_document(tmp_path / "checkpoints" / "lake")
    assert document is not None and document.over
    ended = {(c, p): at for c, entry in document.clusters.items() for p, at in entry.topics[name].ended.items()}
    assert ended == ends

    # And no commit is behind a stop record
    for c in "ab":
        expected = {(name, p): ends[c, p] for p in range(2)}
        assert getattr(brokers, c).committed_offsets(name) == expected

    # And nothing revives it: neither a cluster that metadata adds nor more records
    named = (cluster(c, getattr(brokers, c), [name]) for c in "abc")
    write_metadata(tmp_path / "streams.json", stream("st", *named))
    produce("c", brokers.c, name, 5)
    produce("a", brokers.a, name, 5)
    batches = run.committed_batch()
    again = run_app(config)
    run_to_end(again, wanted)
    assert again.committed_batch() == batches

    # And `inspect` shows where it has ended
    assert main(["inspect", str(config), "--json"]) == 0
    wire = json.loads(capsys.readouterr().out)
    assert wire["over"] and wire["clusters"]["a"]["topics"][name]["ended"] == {"0": 8, "1": 5}


@pytest.mark.parametrize(
    "mistake",
    [
        ({"recordEvaluator": "rules:Missing"}, "has no 'Missing'"),
        ({"recordEvaluator": "rules:END"}, "is neither a function nor has it is_end_of_stream"),
        ({"recordEvaluator": "value = 'x'"}, "no SQL expression"),
        ({"recordEvaluator": "rules:EndOfDay", "minPartitions": "4"}, "does not go with option 'recordEvaluator'"),
    ],
)
def test_a_wrong_evaluator_ends_the_start_with_code_2(
    brokers: Brokers, topic: Topic, tmp_path: Path, mistake: tuple[dict[str, str], str], run_app: RunApp
) -> None:
    options, why = mistake
    name = topic("day")
    brokers.a.create_topic(name)
    (tmp_path / "rules.py").write_text(RULES)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    config = write_app(tmp_path, name=name, options=options)
    with run_app(config) as run:
        assert run.wait_exit() == 2
        assert why in run.text()
    assert main(["validate", str(config)]) == 2
