"""One Spark application of the stories: its manifests, and its results on the shared volume."""

from __future__ import annotations

import importlib.metadata
import json
import textwrap
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from string import Template

from demo import functions, sink
from demo.checkpoint import Checkpoint
from demo.proof import Delivered
from dynamic_kafka.contract.kubernetes_names import SECRETS_PATH

_MOUNTS = [f"    spark.kubernetes.{role}.secrets.b-login: {SECRETS_PATH}/b-login" for role in ("driver", "executor")]
MANIFESTS = Path(__file__).with_name("manifests")


class Application:
    """An application with two queries: one writes Parquet, the other counts in Spark's state store.

    Attributes:
        name: of the SparkApplication and its subscription.
        strategy: `updateStrategy` of the subscription; another text if it has none.
        streams: the ids of the streams to which it subscribes.
        rows: the rows of the sink, up to the last `refresh`.
        batches: (time when its rows became readable, rows by cluster) of each batch.
    """

    def __init__(self, name: str, strategy: str, data: Path) -> None:
        """Make the folder of the results in `data`, which is writable for the image's user."""
        self.name, self.strategy, self._data = name, strategy, data
        self.streams = ["orders"]
        folder = data / name
        folder.mkdir()
        folder.chmod(0o777)
        self._folder = folder
        self._sink = sink.Sink(folder / "sink")
        self.parquet = Checkpoint(folder / "checkpoint" / "parquet")
        self.rows: list[Delivered] = []
        self.batches: list[tuple[float, Counter[str]]] = []

    def manifest(self, image: str, servers: Mapping[str, str]) -> str:
        """Return its manifests as they are in Git; `servers` has the bootstrap servers by cluster."""
        code = Path(functions.__file__).read_text()
        values = {
            "name": self.name,
            "strategy": self.strategy,
            "streams": ", ".join(self.streams),
            "data": str(self._data),
            "image": image,
            "spark_version": importlib.metadata.version("pyspark"),
            # A restart mounts what a document needs; a live change does not.
            "mounts": "\n".join(_MOUNTS) if self.strategy != "Restart" else "",
            **servers,
            "functions": textwrap.indent(code, "    ").rstrip(),
        }
        return Template((MANIFESTS / "application.yaml").read_text()).substitute(values)

    def refresh(self) -> None:
        """Read the batches that the sink has committed since the last call."""
        for batch in self._sink.follow():
            rows = list(sink.read(batch))
            self.rows += rows
            self.batches.append((batch.visible_at, Counter(row.cluster for row in rows)))

    def runs_a_batch(self) -> bool:
        """Return whether a batch is planned that Spark has not committed."""
        return self.parquet.planned() > self.parquet.committed()

    def delivered(self) -> Counter[str]:
        """Return the rows of the sink by cluster."""
        return sum((counts for _, counts in self.batches), Counter[str]())

    def first_row(self, cluster: str, since: float) -> float | None:
        """Return when a row of a cluster first became readable at a time or later; None if none did."""
        return min((at for at, counts in self.batches if at >= since and counts[cluster]), default=None)

    def longest_pause(self, since: float, until: float) -> float:
        """Return the longest time without a new row, in seconds, that overlaps a period."""
        times = [at for at, counts in self.batches if counts]
        pauses = [after - before for before, after in pairwise(times) if after > since and before < until]
        return max(pauses, default=0.0)

    def pause_around(self, at: float) -> float | None:
        """Return the time from the last new row before a time to the first one after it, in seconds; None without."""
        times = [seen for seen, counts in self.batches if counts]
        before, after = [moment for moment in times if moment < at], [moment for moment in times if moment >= at]
        return after[0] - before[-1] if before and after else None

    def counted(self) -> dict[str, int]:
        """Return the running count by cluster, from Spark's state store."""
        try:
            return dict(json.loads((self._folder / "aggregate.json").read_text())["counts"])
        except FileNotFoundError:
            return {}

    def left_behind(self) -> int:
        """Return how many files of the sink belong to no committed batch."""
        return self._sink.left_behind()
