"""The shop: three Kafka clusters, producers of numbered records, and two applications that read them, for all stories.

The clusters stand outside of Kubernetes. All else comes from commits of a Git repository. The stories share the
applications, since their start takes longer than most stories. Each story ends with a proof over all records so far.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from string import Template

import yaml

from demo.producers import COUNT, Producers
from demo.proof import prove
from demo.settings import PARTITIONS, TOPIC
from tests.e2e.application import MANIFESTS, Application
from tests.e2e.gitops import Repository, Sync
from tests.e2e.install import NAMESPACE, OPERATOR, OPERATOR_NAMESPACE
from tests.e2e.say import say
from tests.e2e.story import Change, Mark, Result, Story
from tests.e2e.timeline import Timeline
from tests.support.kafka import KafkaCluster
from tests.support.kube import APPLICATIONS, PODS, KubeCluster, KubeError
from tests.support.operator import STREAMS
from tests.support.places import BUILD
from tests.support.resources import condition
from tests.support.waiting import wait_until

SECRET, USER = "b-login", "reader"
"""The Secret with the log-in of cluster B, and its user. The other clusters take anybody."""
RATE = 15.0
"""Records a second of one producer, on average."""
_GROUPS = ["system:authenticated", "system:serviceaccounts"]
_PATIENCE_S = 600.0
_LOOK_S = 0.1


class Shop:
    """The shop, and what the stories do with it.

    Attributes:
        brokers: the Kafka clusters by name.
        applications: one with live changes, one with restarts.
        servers: the bootstrap servers by cluster, as the stream has them.
    """

    def __init__(self, cluster: KubeCluster, brokers: dict[str, KafkaCluster], folder: Path, image: str) -> None:
        """Prepare folders, manifests and producers; nothing is applied and nothing sent."""
        self.cluster, self.brokers, self._image = cluster, brokers, image
        data = folder / "data"
        data.mkdir()
        data.chmod(0o777)
        self._data = data
        self.applications = [Application("orders-live", "Reload", data), Application("orders-restart", "Restart", data)]
        self.repository = Repository(folder / "git")
        self.sync = Sync(cluster, NAMESPACE, self.repository)
        self.timeline = Timeline(cluster.api, NAMESPACE)
        self.servers = {name: each.sasl_bootstrap or each.bootstrap for name, each in brokers.items()}
        self._listed = dict(self.servers)
        servers = {name: each.bootstrap for name, each in brokers.items()}
        self.producers = Producers("A", servers, seed=1, rate=RATE)
        self.story = Story("", "")
        self._clusters, self._home = list[str](), "A"

    @property
    def home(self) -> str:
        """The cluster of the stream to which the producers write."""
        return self._home

    # Life

    def open(self) -> None:
        """Create the namespace and the volume, and start the producers and the timeline."""
        text = Template((MANIFESTS / "base.yaml").read_text()).substitute(data=self._data)
        self.cluster.kubectl("apply", "-f", "-", stdin=text)
        self.write_secret()
        self.timeline.start()
        for each in self.brokers.values():
            each.create_topic(TOPIC, PARTITIONS)
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

    @contextmanager
    def play(self, name: str, title: str, *, reads: str = "") -> Iterator[Story]:
        """Run a story: its body changes and breaks things, then all records are compared and its file is written.

        Args:
            reads: a cluster that the stream has when the story begins; it is added before, unless it is there.
        """
        self.start_applications()
        if reads and reads not in self._clusters:
            self.wait_in_force(f"{reads} is added", self.add(reads), added=reads)
        say(f"story {name}: {title}")
        story = self.story = Story(name, title)
        starts = {each.name: max(1, len(self.timeline.drivers[each.name])) for each in self.applications}
        produced = sum(self.producers.counts().values())
        yield story
        homes = self.producers.pause()
        self._settle()
        story.ended = time.time()
        confirmed = self.producers.confirmed()
        total = sum(self.producers.counts().values())
        for each in self.applications:
            verdict = prove(confirmed, each.rows)
            result = Result(
                each.name,
                each.strategy,
                produced=total - produced,
                delivered=verdict.delivered - produced,  # earlier stories have ended with all of theirs
                lost=verdict.lost,
                duplicated=verdict.duplicated,
                restarts=len(self.timeline.drivers[each.name]) - starts[each.name],
                longest_pause_s=round(each.longest_pause(story.began, story.ended), 2),
            )
            story.check(result, verdict, each.counted())
            say(f"{each.name}: {result}")
        self.producers.resume(homes)
        path = story.write(BUILD / "e2e")
        say(f"story {name} {'holds' if not story.problems else 'is WRONG'}: {path}")
        assert not story.problems, "\n".join(story.problems)

    def start_applications(self) -> None:
        """Commit the first state, with cluster A alone, and wait until both applications read it; only once."""
        if self._clusters:
            return
        self.commit("Read orders from cluster A", ["A"], home="A")
        for each in self.applications:
            self.wait(f"the first rows of {each.name}", each.delivered, seconds=_PATIENCE_S)
            self.mark(f"{each.name} reads A")

    # Changes

    def commit(self, subject: str, clusters: Sequence[str], home: str) -> float:
        """Commit a state of the repository and bring it to the cluster; return when kubectl was called.

        Args:
            clusters: of the stream.
            home: the cluster that all producers write to.
        """
        stream = yaml.safe_load(Template((MANIFESTS / "stream.yaml").read_text()).substitute(self.servers))
        stream["spec"]["clusters"] = [each for each in stream["spec"]["clusters"] if each["id"] in clusters]
        files = {
            "stream.yaml": yaml.safe_dump(stream, sort_keys=False),
            "producers.yaml": Template((MANIFESTS / "producers.yaml").read_text()).substitute(home=home),
            **{f"{each.name}.yaml": each.manifest(self._image, self._listed) for each in self.applications},
        }
        self._clusters, self._home = list(clusters), home
        self.repository.commit(subject, files)
        at = self.sync.sync()
        self.mark(f"commit: {subject}", at)
        return at

    def commit_stream(self, subject: str) -> float:
        """Commit the stream with the clusters that it has, after a change of `servers`."""
        return self.commit(subject, self._clusters, self._home)

    def add(self, name: str) -> float:
        """Commit a stream with one more cluster, whose broker runs again, and move one producer there."""
        if not self.brokers[name].broker.running:
            self.brokers[name].start().wait_ready()
        self.producers.move(1, name)
        return self.commit(f"Add cluster {name} to the stream", [*self._clusters, name], self._home)

    def remove(self, name: str) -> float:
        """Commit a stream without a cluster, after its producers have moved away."""
        self.producers.move(COUNT, self._home)
        self.producers.finish(name)
        left = [each for each in self._clusters if each != name]
        return self.commit(f"Remove cluster {name} from the stream", left, self._home)

    def move_producers(self) -> None:
        """Move the producers to the cluster that their ConfigMap names."""
        target = self.cluster.api.get("v1/configmaps", "producers", NAMESPACE)["data"]["cluster"]
        self.producers.move(COUNT, target)
        self.mark(f"all producers write to {target}")

    def wait_in_force(self, what: str, at: float, added: str = "") -> list[Change]:
        """Wait until all applications have a change of the time `at` in force, and note its times.

        Args:
            added: a cluster of which a record has to arrive, too.
        """
        changes = []
        for each in self.applications:
            self.wait(f"{each.name} to have in force: {what}", partial(self.timeline.applied_since, each.name, at))
            if added:
                self.wait(f"a record of {added} in {each.name}", partial(each.first_row, added, at))
            changes.append(self._change(what, each, at, added))
        self.story.changes += changes
        for change in changes:
            say(f"{change}")
        return changes

    def wait_drained(self, cluster: str) -> None:
        """Wait until a removed cluster has left all documents, and the stream says that it may be shut down."""
        for each in self.applications:
            self.wait(
                f"{cluster} to leave the document of {each.name}",
                partial(self._is_gone, cluster, each),
            )
        self.wait("SafeToDecommission", self._is_safe)
        self.mark(f"{cluster} is safe to shut down")

    def wait_batch(self, application: Application) -> None:
        """Wait for one more batch of an application."""
        known = len(application.batches)
        self.wait(f"a batch of {application.name}", lambda: len(application.batches) > known)

    def is_rendered(self, at: float) -> bool:
        """Return whether all applications have a document of this time or later."""
        return all(self.timeline.documents_since(each.name, at) for each in self.applications)

    def wait_driver(self, application: Application) -> None:
        """Wait for one more driver pod of an application."""
        known = len(self.timeline.drivers[application.name])
        self.wait(f"a new driver of {application.name}", lambda: len(self.timeline.drivers[application.name]) > known)

    def pods(self, application: Application, role: str) -> list[str]:
        """Return the names of the running pods of a role: `driver` or `executor`."""
        labels = f"spark-role={role},sparkoperator.k8s.io/app-name={application.name}"
        found = self.cluster.api.list(PODS, NAMESPACE, labelSelector=labels)
        alive = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return [each["metadata"]["name"] for each in alive if each["status"]["phase"] == "Running"]

    def is_draining(self, cluster: str) -> bool:
        """Return whether a cluster drains in all documents."""
        newest = [self.timeline.rendered[each.name][-1].clusters for each in self.applications]
        return all(each.get(cluster) == "Draining" for each in newest)

    def scale(self, namespace: str, deployment: str, replicas: int) -> None:
        """Scale a Deployment, and wait until its pods have come or gone."""
        self.cluster.kubectl("--namespace", namespace, "scale", deployment, f"--replicas={replicas}")
        jsonpath = "{.status.replicas}={.status.readyReplicas}"
        wanted = f"{replicas}={replicas}" if replicas else "="
        self.wait(
            f"{deployment} to have {replicas} replicas",
            lambda: wanted == self.cluster.kubectl("-n", namespace, "get", deployment, f"--output=jsonpath={jsonpath}"),
        )
        self.mark(f"{deployment} has {replicas} replicas")

    def can_i(self, account: str, verb: str, resource: str, namespace: str) -> str:
        """Return `yes` or `no`, as `kubectl auth can-i` answers for an account."""
        question = {"verb": verb, "namespace": namespace}
        kind, _, question["subresource"] = resource.partition("/")
        question["resource"], _, question["group"] = kind.partition(".")
        review = {"spec": {"user": account, "groups": _GROUPS, "resourceAttributes": question}}
        answer = self.cluster.api.create("authorization.k8s.io/v1/subjectaccessreviews", {"metadata": {}} | review)
        return "yes" if answer["status"]["allowed"] else "no"

    def written(self) -> dict[str, str]:
        """Return the version of each object that the operator writes, without those that others write, too."""
        found = {}
        for each in self.applications:
            document = self.cluster.api.get("v1/configmaps", f"{each.name}-kafkastreams", NAMESPACE)
            application = self.cluster.api.get(APPLICATIONS, each.name, NAMESPACE)
            found[f"document of {each.name}"] = document["metadata"]["resourceVersion"]
            found[f"spec of {each.name}"] = str(application["metadata"]["generation"])
        return found

    def leader(self) -> str:
        """Return the operator's process that holds the Lease, as `POD-ID`; empty if none does."""
        lease = self.cluster.api.get("coordination.k8s.io/v1/leases", OPERATOR, OPERATOR_NAMESPACE)
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def mark(self, text: str, at: float | None = None) -> None:
        """Note an event of the story."""
        self.story.marks.append(Mark(time.time() if at is None else at, text))
        say(text)

    def wait(self, what: str, happened: Callable[[], object], seconds: float = _PATIENCE_S) -> None:
        """Wait for an event; raise `AssertionError` with the state of the cluster when it does not come."""

        def look() -> object:
            self.producers.check()
            self.timeline.check()
            for each in self.applications:
                each.refresh()
            return happened()

        wait_until(
            lambda: look() or None, what, timeout_s=seconds, details=self.describe, pause=lambda _: time.sleep(_LOOK_S)
        )

    def describe(self) -> str:
        """Return the state of the cluster, for messages."""
        parts = []
        for arguments in (
            ("get", "pods", "-A", "-o", "wide"),
            ("get", "sparkapplications,kst,kss", "-n", NAMESPACE, "-o", "wide"),
            ("get", "events", "-n", NAMESPACE, "--sort-by=.lastTimestamp"),
            ("logs", "-n", NAMESPACE, "-l", "spark-role=driver", "--tail=25", "--prefix"),
        ):
            try:
                lines = self.cluster.kubectl(*arguments).splitlines()
            except KubeError as error:
                lines = [str(error)]
            parts += [f"$ kubectl {' '.join(arguments)}", *lines[-60:]]
        return "\n".join(parts)

    def _settle(self) -> None:
        """Wait until every record is in both sinks and both counts; the proof words what is missing."""
        for each in self.applications:
            try:
                self.wait(f"all records in {each.name}", partial(self._has_all, each))
            except AssertionError as error:
                self.story.problems.append(str(error).splitlines()[0])
                say(str(error))

    def _change(self, what: str, application: Application, at: float, added: str) -> Change:
        rendered = self.timeline.documents_since(application.name, at)[0].at
        applied = self.timeline.applied_since(application.name, at)
        assert applied is not None
        first = application.first_row(added, at) if added else None
        restarted = any(each.at >= at for each in self.timeline.drivers[application.name])
        return Change(
            what,
            application.name,
            at,
            apply_to_rendered=round(rendered - at, 2),
            rendered_to_applied=round(applied - rendered, 2),
            applied_to_first_record=round(first - applied, 2) if first else None,
            apply_to_first_record=round(first - at, 2) if first else None,
            restart_total=round(application.longest_pause(at, max(applied, first or 0)), 2) if restarted else None,
        )

    def _is_gone(self, cluster: str, application: Application) -> bool:
        return cluster not in self.timeline.rendered[application.name][-1].clusters

    def _has_all(self, application: Application) -> bool:
        expected = Counter(self.producers.counts())
        return application.delivered() == expected == Counter(application.counted())

    def _is_safe(self) -> bool:
        stream = self.cluster.api.get(STREAMS, "orders", NAMESPACE)
        seen = stream.get("status", {}).get("observedGeneration") == stream["metadata"]["generation"]
        return bool(seen and condition(stream, "SafeToDecommission").get("status") == "True")
