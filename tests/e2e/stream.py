"""The stream of the shop in Git, and its producers. Each change is a commit, which a tool brings to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template

import yaml

from demo.producers import COUNT, Producers
from tests.e2e.application import MANIFESTS, Application
from tests.e2e.install import NAMESPACE
from tests.support.gitops import Repository, Tool
from tests.support.kafka import KafkaCluster
from tests.support.kube import KubeCluster
from tests.support.operator import CONFIG_MAPS

RATE = 15.0
"""Records a second of one producer, on average."""
QUIET_S = 3.0
"""`drain.quietPeriod` of the stream, in seconds."""


class Stream:
    """The clusters of the stream, and where the producers write.

    Attributes:
        clusters: those of the newest commit; none before the first.
        home: the cluster of the stream to which the producers write.
        servers: the bootstrap servers by cluster, as the next commit has them.
        more: {name: content} of further files that the next commit has.
    """

    def __init__(
        self,
        cluster: KubeCluster,
        brokers: Mapping[str, KafkaCluster],
        applications: Sequence[Application],
        image: str,
        folder: Path,
        *,
        mark: Callable[[str, float], None],
    ) -> None:
        """Make an empty repository in `folder`. Nothing is applied, and nothing sent.

        Args:
            image: of the applications.
            mark: notes the subject of a commit, and the time at which kubectl was called.
        """
        self._cluster, self._brokers, self._applications = cluster, brokers, applications
        self._image, self._mark = image, mark
        self.repository = Repository(folder)
        self.tool = Tool(cluster, NAMESPACE, self.repository.manifests)
        self.servers = {name: broker.sasl_bootstrap or broker.bootstrap for name, broker in brokers.items()}
        self._listed = dict(self.servers)
        self.clusters, self.home = list[str](), "A"
        self.more: dict[str, str] = {}
        plain = {name: broker.bootstrap for name, broker in brokers.items()}
        self.producers = Producers(self.home, plain, seed=1, rate=RATE)

    def commit(self, subject: str, clusters: Sequence[str], home: str) -> float:
        """Commit a state of the repository and bring it to the cluster; return when kubectl was called.

        Args:
            clusters: of the stream.
            home: the cluster that all producers write to.
        """
        values = {**self.servers, "quiet": f"{QUIET_S:.0f}s"}
        stream = yaml.safe_load(Template((MANIFESTS / "stream.yaml").read_text()).substitute(values))
        stream["spec"]["clusters"] = [cluster for cluster in stream["spec"]["clusters"] if cluster["id"] in clusters]
        files = {
            "stream.yaml": yaml.safe_dump(stream, sort_keys=False),
            "producers.yaml": Template((MANIFESTS / "producers.yaml").read_text()).substitute(home=home),
            **{f"{application.name}.yaml": self.manifest(application) for application in self._applications},
            **self.more,
        }
        self.clusters, self.home = list(clusters), home
        self.repository.commit(subject, files)
        at = self.tool.sync()
        self._mark(f"commit: {subject}", at)
        return at

    def commit_again(self, subject: str) -> float:
        """Commit the stream with the clusters that it has, after a change of `servers` or `more`."""
        return self.commit(subject, self.clusters, self.home)

    def add(self, name: str, producers: int = 1) -> float:
        """Commit a stream with one more cluster, whose broker runs again, and move some producers there."""
        if not self._brokers[name].broker.running:
            self._brokers[name].start().wait_ready()
        self.producers.move(producers, name)
        return self.commit(f"Add cluster {name} to the stream", [*self.clusters, name], self.home)

    def remove(self, *names: str) -> float:
        """Commit a stream without some clusters, after their producers have moved away."""
        self.producers.move(COUNT, self.home)
        for name in names:
            self.producers.finish(name)
        left = [cluster for cluster in self.clusters if cluster not in names]
        return self.commit(f"Remove cluster {' and '.join(names)} from the stream", left, self.home)

    def manifest(self, application: Application) -> str:
        """Return the manifests of an application."""
        return application.manifest(self._image, self._listed)

    def move_producers(self) -> str:
        """Move the producers to the cluster that their ConfigMap names, and return its name."""
        target: str = self._cluster.api.get(CONFIG_MAPS, "producers", NAMESPACE)["data"]["cluster"]
        self.producers.move(COUNT, target)
        return target
