"""The shop: three Kafka clusters, producers of numbered records, and two applications that read them, for all stories.

The clusters stand outside of Kubernetes. All else comes from commits of a Git repository. The stories share the
applications, since their start takes longer than most stories. Each story ends with a proof over all records so far.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Template

import yaml

from demo.proof import prove
from demo.settings import PARTITIONS, TOPIC
from tests.e2e.application import MANIFESTS, Application
from tests.e2e.install import NAMESPACE
from tests.e2e.objects import Objects
from tests.e2e.say import say
from tests.e2e.story import Mark, Result, Story
from tests.e2e.stream import Stream
from tests.e2e.timeline import Timeline
from tests.support.kafka import KafkaCluster
from tests.support.kube import KubeCluster
from tests.support.places import BUILD
from tests.support.waiting import wait_until

SECRET, USER = "b-login", "reader"
"""The Secret with the log-in of cluster B, and its user. The other clusters take anybody."""
_PATIENCE_S = 600.0
_LOOK_S = 0.1


class Shop:
    """The shop: its life, its stories, and the events that a story waits for.

    Attributes:
        brokers: the Kafka clusters by name.
        data: the folder of the shared volume.
        applications: one with live changes, one with restarts.
        objects: the objects in the cluster.
        stream: the stream in Git, which a story changes.
        producers: those of the stream.
        story: the one that is played.
    """

    def __init__(self, cluster: KubeCluster, brokers: dict[str, KafkaCluster], folder: Path, image: str) -> None:
        """Prepare folders, manifests and producers; nothing is applied and nothing sent."""
        self.cluster, self.brokers = cluster, brokers
        data = folder / "data"
        data.mkdir()
        data.chmod(0o777)
        self.data = data
        self.applications = [Application("orders-live", "Reload", data), Application("orders-restart", "Restart", data)]
        self.objects = Objects(cluster, self.applications)
        self.stream = Stream(cluster, brokers, self.applications, image, folder / "git", mark=self.mark)
        self.producers = self.stream.producers
        self.timeline = Timeline(cluster.api, NAMESPACE)
        self.story = Story("", "")

    # Life

    def open(self) -> None:
        """Create the namespace and the volume, and start the producers and the timeline."""
        text = Template((MANIFESTS / "base.yaml").read_text()).substitute(data=self.data)
        self.cluster.kubectl("apply", "-f", "-", stdin=text)
        self.write_secret()
        self.timeline.start()
        for broker in self.brokers.values():
            broker.create_topic(TOPIC, PARTITIONS)
        self.producers.start()

    def write_secret(self) -> None:
        """Write the log-in of cluster B as it is now into its Secret."""
        broker = self.brokers["B"]
        content = {
            "sasl.username": USER,
            "sasl.password": broker.users[USER],
            "ssl.ca.pem": broker.authority.certificate_file.read_text(),
            "allowedServers": broker.sasl_bootstrap,
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": content}
        self.cluster.kubectl("--namespace", NAMESPACE, "apply", "--filename=-", stdin=yaml.safe_dump(secret))

    def close(self) -> None:
        """Stop producers and timeline."""
        self.producers.close()
        self.timeline.stop()

    # Stories

    @contextmanager
    def play(self, name: str, title: str, *, reads: str = "") -> Iterator[Story]:
        """Run a story: its body changes and breaks things, then all records are compared and its file is written.

        Args:
            reads: a cluster that the stream has when the story begins; it is added before, unless it is there.
        """
        self.start_applications()
        if reads and reads not in self.stream.clusters:
            self.wait_in_force(f"{reads} is added", self.stream.add(reads), added=reads)
        say(f"story {name}: {title}")
        story = self.story = Story(name, title)
        starts = {
            application.name: max(1, len(self.timeline.drivers[application.name])) for application in self.applications
        }
        produced = sum(self.producers.counts().values())
        yield story
        homes = self.producers.pause()
        self._settle()
        story.ended = time.time()
        confirmed = self.producers.confirmed()
        total = sum(self.producers.counts().values())
        for application in self.applications:
            verdict = prove(confirmed, application.rows)
            result = Result(
                application.name,
                application.strategy,
                produced=total - produced,
                delivered=verdict.delivered - produced,  # earlier stories have ended with all of theirs
                lost=verdict.lost,
                duplicated=verdict.duplicated,
                restarts=len(self.timeline.drivers[application.name]) - starts[application.name],
                longest_pause_s=round(application.longest_pause(story.began, story.ended), 2),
            )
            story.check(result, verdict, application.counted())
            say(f"{application.name}: {result}")
        self.producers.resume(homes)
        path = story.write(BUILD / "e2e")
        say(f"story {name} {'holds' if not story.problems else 'is WRONG'}: {path}")
        assert not story.problems, "\n".join(story.problems)

    def start_applications(self) -> None:
        """Commit the first state, with cluster A alone, and wait until both applications read it; only once."""
        if self.stream.clusters:
            return
        self.stream.commit("Read orders from cluster A", ["A"], home="A")
        for application in self.applications:
            self.wait(f"the first rows of {application.name}", application.delivered)
            self.mark(f"{application.name} reads A")

    def mark(self, text: str, at: float | None = None) -> None:
        """Note an event of the story."""
        self.story.marks.append(Mark(time.time() if at is None else at, text))
        say(text)

    # Events

    def wait(self, what: str, happened: Callable[[], object]) -> None:
        """Wait for an event; raise `AssertionError` with the state of the cluster when it does not come."""

        def look() -> object:
            self.producers.check()
            self.timeline.check()
            for application in self.applications:
                application.refresh()
            return happened()

        wait_until(
            lambda: look() or None,
            what,
            timeout_s=_PATIENCE_S,
            details=self.objects.describe,
            pause=lambda _: time.sleep(_LOOK_S),
        )

    def wait_in_force(self, what: str, at: float, added: str = "", *, disturbed: bool = False) -> None:
        """Wait until all applications have a change of the time `at` in force, and note its times.

        Args:
            added: a cluster of which a record has to arrive, too.
            disturbed: whether something was broken meanwhile.
        """
        changes = []
        for application in self.applications:
            self.wait(
                f"{application.name} to have in force: {what}", partial(self.timeline.applied_since, application, at)
            )
            self.wait(
                f"a row of {application.name} after a restart", partial(self.timeline.reads_again, application, at)
            )
            if added:
                self.wait(f"a record of {added} in {application.name}", partial(application.first_row, added, at))
            changes.append(replace(self.timeline.change(application, what, at, added), disturbed=disturbed))
        self.story.changes += changes
        for change in changes:
            say(f"{change}")

    def wait_drained(self, cluster: str) -> None:
        """Wait until a removed cluster has left all documents, and the stream says that it may be shut down."""
        for application in self.applications:
            self.wait_left(cluster, application)
        self.wait(f"{cluster} to be released", lambda: self.objects.is_released(cluster))
        self.mark(f"{cluster} is safe to shut down")

    def wait_left(self, cluster: str, application: Application) -> None:
        """Wait until a removed cluster has left the document of an application."""
        documents = self.timeline.rendered[application.name]
        gone = f"{cluster} to leave the document of {application.name}"
        self.wait(gone, lambda: cluster not in documents[-1].clusters)

    def wait_batch(self, application: Application) -> None:
        """Wait for one more batch of an application."""
        known = len(application.batches)
        self.wait(f"a batch of {application.name}", lambda: len(application.batches) > known)

    def wait_driver(self, application: Application) -> None:
        """Wait for one more driver pod of an application."""
        known = len(self.timeline.drivers[application.name])
        self.wait(f"a new driver of {application.name}", lambda: len(self.timeline.drivers[application.name]) > known)

    def scale(self, namespace: str, deployment: str, replicas: int) -> None:
        """Scale a Deployment, and wait until its pods have come or gone."""
        self.objects.scale(namespace, deployment, replicas)
        done = partial(self.objects.has_replicas, namespace, deployment, replicas)
        self.wait(f"{deployment} to have {replicas} replicas", done)
        self.mark(f"{deployment} has {replicas} replicas")

    def is_draining(self, cluster: str) -> bool:
        """Return whether a cluster drains in all documents."""
        newest = [self.timeline.rendered[application.name][-1].clusters for application in self.applications]
        return all(state_map.get(cluster) == "Draining" for state_map in newest)

    def _settle(self) -> None:
        """Wait until every record is in both sinks and both counts; the proof words what is missing."""
        for application in self.applications:
            try:
                self.wait(f"all records in {application.name}", partial(self._has_all, application))
            except AssertionError as error:
                self.story.problems.append(str(error).splitlines()[0])
                say(str(error))

    def _has_all(self, application: Application) -> bool:
        expected = Counter(self.producers.counts())
        return application.delivered() == expected == Counter(application.counted())
