"""Objects in every state that the operator reports, recorded from its own code: each is a short story of a `World`.

`test_gitops.py` checks that each reason of each condition is in one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dynamic_kafka.contract.driver_report import StandingClock
from dynamic_kafka.contract.termination_message import ChangedTopic
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.conditions.subscription import with_conditions
from kafkastream_operator.core.decide import after_refusal, decide, without_document, without_status
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING, Timing
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.topic_integrity import TopicVerdict
from kafkastream_operator.models.conditions import condition
from kafkastream_operator.models.fields import Part
from kafkastream_operator.models.stream import KafkaStreamStatus
from tests.unit.operator.test_waves import wave
from tests.unit.operator.world import World, cluster, running

EAST, WEST = cluster("east"), cluster("west")
SECRET = {"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}
SAFE_WEST = cluster("west", secretRef={"name": "login"})
FLINK = "- streamId: orders\n  clusterMetadataLst: []\n"
Json = dict[str, Any]


def recorded(kind: str, status: Part, generation: int) -> Json:
    """Return the object as the API server has it."""
    return {
        "apiVersion": "kafkastream.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "orders", "namespace": "jobs", "generation": generation},
        "status": status.model_dump(by_alias=True, exclude_none=True, mode="json"),
    }


def subscription(world: World) -> Json:
    """Return the subscription of a world."""
    return recorded("KafkaStreamSubscription", world.status, world.generation)


def stream(world: World, before: KafkaStreamStatus | None = None) -> Json:
    """Return the stream `orders` of a world, with the status that a reconcile of it writes now."""
    life = world.application.life if world.application is not None else "Absent"
    status = world.stream_status("orders", [world.reader(life)], before)
    return recorded("KafkaStream", status, status.observed_generation)


def failed_with(code: int) -> World:
    """Return an application whose driver has ended with this exit code, in Kubeflow's words."""
    cause = f"driver container failed with ExitCode: {code}, Reason: Error"
    return running().application_is("Failed", failure=cause).settle()


def asking(strategy: str = "Auto", **more: Any) -> World:
    """Return an application that runs on east, and whose stream is about to change."""
    return running(updateStrategy=strategy, **more)


def changed(strategy: str = "Auto", *clusters: Mapping[str, Any], **more: Any) -> World:
    """Return an application whose stream has changed, by default to east and west."""
    return asking(strategy, **more).stream("orders", *(clusters or (EAST, WEST))).settle()


def idle(life: Life) -> World:
    """Return an application in this state, whose stream has changed meanwhile."""
    world = asking().application_is(life)
    world.driver = None
    return world.stream("orders", EAST, WEST).settle()


def absent() -> World:
    """Return a subscription without an application."""
    return World().stream("orders", EAST).settle()


def orphaned() -> World:
    """Return a subscription by annotations whose application was deleted."""
    world = running()
    world.annotated, world.application, world.driver = True, None, None
    return world.settle()


def started() -> World:
    """Return an application that starts with its first document."""
    return World().stream("orders", EAST).application_is("Starting").settle()


def silent(seconds: float) -> World:
    """Return a driver that has run this long without a report."""
    world = started().driver_starts(reports=False)
    assert world.driver is not None
    world.driver = replace(world.driver, silent_s=seconds)
    return world.settle()


def unplanned() -> World:
    """Return a new driver whose first report names no revision, since its query has not planned."""
    return reporting(started().driver_starts(), applied=None)


def replaced() -> World:
    """Return a restart whose driver is there, and has not reported."""
    world = changed("Restart").application_is("Starting")
    world.driver = None
    return world.settle().driver_starts(reports=False).settle()


def of_driver(**change: Any) -> World:
    """Return an application with a change of how the operator sees its driver."""
    world = running()
    assert world.driver is not None
    world.driver = replace(world.driver, **change)
    return world.settle()


def reporting(world: World, **change: Any) -> World:
    """Change the driver's report."""
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, **change))
    return world.settle()


def finished(**more: Any) -> World:
    """Return an application whose queries have read everything, so that it has completed."""
    world = reporting(running(), finished=True).application_is("Completed", **more)
    assert world.driver is not None
    world.driver = replace(world.driver, running=False)
    return world.settle()


def confirmed() -> World:
    """Return a live change that is in force."""
    return changed().driver_reports().settle()


def restarting() -> World:
    """Return a restart whose driver has not come."""
    world = changed("Restart").application_is("Starting", submission="s2")
    world.driver = None
    return world.settle().later(seconds=DEFAULT_TIMING.confirm.total_seconds() + 1).settle()


def gathering(*clusters: Mapping[str, Any], **more: Any) -> World:
    """Return a restart that waits for further changes."""
    world = asking("Restart", **more)
    world.timing = Timing()
    return world.later(hours=1).stream("orders", *(clusters or (EAST, WEST))).settle()


def waiting() -> World:
    """Return a change that waits for the first report of a driver."""
    return started().driver_starts(reports=False).stream("orders", EAST, WEST).settle()


def coalescing() -> World:
    """Return a second restart soon after the first one."""
    world = changed("Restart").driver_starts().settle()
    return world.stream("orders", EAST).settle()


def queued() -> World:
    """Return a restart that waits for those of other applications."""
    return wave().change("west").worlds["app2"]


def wave_paused() -> World:
    """Return an application that is not restarted, since the restart of another one has failed."""
    fleet = wave().change("west")
    fleet.worlds["app0"].driver_starts().driver_fails("bad servers")
    return fleet.rest().worlds["app2"]


def reverted(times: int, minutes: int) -> World:
    """Return a restart whose patch another writer has taken back so often, once in so many minutes."""
    world = changed("Restart")
    for _ in range(times):
        assert world.application is not None
        world.application = replace(world.application, token="")
        world.settle().later(minutes=minutes)
    return world.settle()


def lost_patches() -> World:
    """Return a restart that no patch brought about."""
    world = changed("Restart")
    for _ in range(MAX_ATTEMPTS + 1):
        world.later(minutes=2).settle()
    return world


def patch_refused(why: str) -> World:
    """Return a restart whose patch the API server refuses."""
    world = asking("Restart").stream("orders", EAST, WEST)
    world.look()
    view = world.view()
    world.status = after_refusal(view, decide(view), why)
    return world.settle()


def rejected() -> World:
    """Return a live change that the driver rejects."""
    world = changed("Reload")
    assert world.document is not None
    return reporting(world, rejected=(world.document.revision.token, "west is another cluster than before"))


def foreign() -> World:
    """Return an application whose manifest comes from another Kubernetes."""
    return World().stream("orders", EAST).settle().application_is("Starting", token="other/57").settle()


def paused() -> World:
    """Return a pause that began in a roll-out."""
    return changed("Restart").changes(pause={"reason": "freeze"}).settle()


def with_config_map(**spec: Any) -> World:
    """Return a subscription of a stream that only an unreadable ConfigMap may have."""
    world = World(spec=spec)
    world.config_maps["flink"] = FLINK
    return world.settle()


def config_map_broken() -> World:
    """Return an application whose stream was in a ConfigMap that cannot be read any more."""
    world = World()
    world.config_maps["flink"] = (
        "- streamId: orders\n  clusterMetadataList:\n"
        "    - {clusterId: east, bootstrapServers: 'east:9092', topics: [orders]}\n"
    )
    world.settle()
    world.config_maps["flink"] = FLINK
    return world.settle()


def disagreeing() -> World:
    """Return an application with two streams that disagree about a cluster."""
    world = World(spec={"streams": {"ids": ["orders", "other"]}}).stream("orders", EAST)
    return world.stream("other", {**EAST, "bootstrapServers": "elsewhere:9092"}).settle()


def renamed_twice() -> World:
    """Return a cluster that is renamed once more before a driver has the first rename."""
    servers = {"bootstrapServers": "east:9092"}
    world = changed("Reload", cluster("e2", renamedFrom="east", **servers))
    return world.stream("orders", cluster("e3", renamedFrom="e2", **servers)).settle()


def too_large() -> World:
    """Return a stream whose document does not fit into a ConfigMap."""
    names = [hashlib.sha512(str(number).encode()).hexdigest() for number in range(63 * 250)]
    return changed("Reload", EAST, *(cluster(f"c{n}", *names[250 * n : 250 * (n + 1)]) for n in range(63)))


def taken(**change: Any) -> World:
    """Return a subscription whose application or ConfigMap belongs to another one."""
    return replace(World(**change), writes=[], events=[]).stream("orders", EAST).settle()


def contested() -> World:
    """Return a world whose document another writer has edited for the third time."""
    world = running(updateStrategy="Reload")
    for _ in range(3):
        world.edited = True
        world.look()
    return world


def document_refused() -> World:
    """Return a document that the API server refuses."""
    world = asking().stream("orders", EAST, WEST)
    world.status = without_document(world.view(), decide(world.view()), "exceeded quota")
    return world


def status_refused() -> World:
    """Return a subscription whose newest status the API server refuses."""
    world = running().stream("orders", EAST, WEST)
    world.status = without_status(world.view(), "etcdserver: request is too large")
    return world


def unreadable_spec() -> World:
    """Return a subscription whose spec is one of a newer CRD."""
    world = running()
    conditions = (condition("StreamsResolved", "InvalidSubscription", "unknown field"),)
    world.status = with_conditions(world.status, conditions, generation=world.generation, now=stamp(world.now))
    return world


TOPIC_CHANGED = TopicVerdict(
    "[TOPIC_CHANGED cluster=east topic=orders id=9tQ_vI2NQ-mPHLbQyJ0jXA now=AbCdEfGhIjKlMnOpQrStUQ] the topic was"
    " re-created. To read the new topic from its first record, write `topicIds: {…}` into the metadata",
    (ChangedTopic(cluster="east", topic="orders", expected="9tQ_vI2NQ-mPHLbQyJ0jXA"),),
)


def topic_changed(life: Life = "Failed", strategy: str = "Auto", **pins: str) -> World:
    """Return an application that has ended because a topic was re-created, with a later change of its stream."""
    world = asking(strategy).application_is(life)
    assert world.driver is not None
    world.driver = replace(world.driver, running=False, verdict=TOPIC_CHANGED)
    return world.settle().stream("orders", {**EAST, "topicIds": pins}, WEST).settle()


def draining(**later: float) -> World:
    """Return an application that reads a removed cluster on."""
    world = changed("Reload", WEST).driver_reports().settle()
    return world.later(**later).settle()


SUBSCRIPTIONS: dict[str, tuple[Callable[[], World], str]] = {
    "the first document": (started, "Progressing"),
    "a driver that is new": (lambda: silent(0), "Progressing"),
    "a driver without a plan": (unplanned, "Progressing"),
    "a restart whose driver is new": (replaced, "Progressing"),
    "a driver that is silent": (lambda: silent(3600), "Healthy"),
    "at rest": (running, "Healthy"),
    "a live change under way": (changed, "Progressing"),
    "a live change in force": (confirmed, "Healthy"),
    "a change that waits for a report": (waiting, "Progressing"),
    "a restart that gathers changes": (gathering, "Progressing"),
    "a restart under way": (lambda: changed("Restart"), "Progressing"),
    "a restart whose driver is late": (restarting, "Progressing"),
    "a restart soon after another": (coalescing, "Progressing"),
    "a restart that waits for others": (queued, "Progressing"),
    "a restart in a paused wave": (wave_paused, "Progressing"),
    "a patch taken back once": (lambda: reverted(1, minutes=0), "Progressing"),
    "a patch taken back for good": (lambda: reverted(6, minutes=1), "Degraded"),
    "patches that bring no driver": (lost_patches, "Degraded"),
    "a patch with a conflict": (lambda: patch_refused("conflict with manager gitops"), "Degraded"),
    "a patch that is refused": (lambda: patch_refused("forbidden"), "Degraded"),
    "a restart that the strategy forbids": (
        lambda: changed("Reload", EAST, SAFE_WEST, secrets=[SECRET]),
        "Degraded",
    ),
    "a Secret that a restart mounts": (lambda: gathering(EAST, SAFE_WEST, secrets=[SECRET]), "Progressing"),
    "a rejected revision": (rejected, "Degraded"),
    "a live change unconfirmed": (lambda: changed("Reload").later(minutes=5).settle(), "Degraded"),
    "a manifest from elsewhere": (foreign, "Degraded"),
    "a pause in a roll-out": (paused, "Suspended"),
    "an application that is suspended": (lambda: idle("Suspended"), "Healthy"),
    "an application that is completed": (lambda: idle("Completed"), "Healthy"),
    "an application that has finished": (finished, "Healthy"),
    "an application that has finished and runs again": (
        lambda: finished(runs_again="spec.restartPolicy.type to OnFailure"),
        "Healthy",
    ),
    "splits that keep an application from its end": (
        lambda: reporting(running(), open_splits=("east/orders[0]",)),
        "Healthy",
    ),
    "an application that has failed": (lambda: idle("Failed"), "Degraded"),
    "a source topic that is missing": (lambda: failed_with(10), "Degraded"),
    "an internal topic that is missing": (lambda: failed_with(11), "Degraded"),
    "an internal topic that is wrong": (lambda: failed_with(12), "Degraded"),
    "an internal topic that was lost": (lambda: reporting(running(), lost_topics=("log",)), "Healthy"),
    "an application that fails at rest": (lambda: running().application_is("Failed").settle(), "Degraded"),
    "an application that fails and is tried again": (
        lambda: running().application_is("Failing").settle(),
        "Progressing",
    ),
    "a driver that ended for a changed topic": (topic_changed, "Degraded"),
    "a changed topic that ends each attempt": (lambda: topic_changed("Failing"), "Degraded"),
    "a changed topic that the stream accepts": (
        lambda: topic_changed(orders="AbCdEfGhIjKlMnOpQrStUQ"),
        "Progressing",
    ),
    "no application": (absent, "Healthy"),
    "an orphan": (orphaned, "Healthy"),
    "no stream": (with_config_map, "Degraded"),
    "no stream for the pattern": (lambda: with_config_map(streams={"pattern": "ord.*"}), "Degraded"),
    "a spec of a newer version": (unreadable_spec, "Degraded"),
    "an invalid stream": (lambda: changed("Auto", cluster("west", startingOffsets="sometimes")), "Degraded"),
    "an invalid ConfigMap": (config_map_broken, "Degraded"),
    "streams that disagree": (disagreeing, "Degraded"),
    "a second rename": (renamed_twice, "Progressing"),
    "a Secret that is not bound": (lambda: changed("Auto", EAST, SAFE_WEST), "Degraded"),
    "a Secret for other servers": (
        lambda: changed("Auto", EAST, {**SAFE_WEST, "bootstrapServers": "evil:9092"}, secrets=[SECRET]),
        "Degraded",
    ),
    "a document too large": (too_large, "Degraded"),
    "an application that is taken": (lambda: taken(rival="older"), "Degraded"),
    "a ConfigMap that is taken": (lambda: taken(taken=True), "Degraded"),
    "a document that is contested": (contested, "Degraded"),
    "a document that is refused": (document_refused, "Degraded"),
    "a status that is refused": (status_refused, "Degraded"),
    "a driver without the mount": (lambda: of_driver(mounted=False), "Degraded"),
    "a report that is unreadable": (lambda: of_driver(report=None, unreadable=True), "Healthy"),
    "an image that is too old": (lambda: reporting(running(), reader=0), "Healthy"),
    "a cluster without an answer yet": (
        lambda: reporting(running(), unanswered=frozenset({"east"})),
        "Healthy",
    ),
    "a cluster that does not answer": (lambda: reporting(running(), never_reached={"east": "timed out"}), "Healthy"),
    "a clock that stands": (
        lambda: reporting(running(), standing_clocks=(StandingClock(query="lake", waits_for=("south",)),)),
        "Healthy",
    ),
    "a drain": (draining, "Healthy"),
    "a drain that takes long": (lambda: draining(days=2), "Healthy"),
}
"""{state: how it comes about, and Argo CD's health of the subscription}."""


def shadowing() -> Json:
    """Return a stream that wins over the same one in a ConfigMap."""
    world = running()
    world.config_maps["flink"] = "- streamId: orders\n  clusterMetadataList: []\n"
    return stream(world)


def unsubscribed() -> Json:
    """Return a stream that no subscription asks for."""
    status = World().stream("orders", EAST).stream_status("orders", [])
    return recorded("KafkaStream", status, status.observed_generation)


STREAMS: dict[str, tuple[Callable[[], Json], str]] = {
    "at rest": (lambda: stream(running()), "Healthy"),
    "a change under way": (lambda: stream(changed()), "Progressing"),
    "a change that no subscription has yet": (lambda: stream(asking().stream("orders", EAST, WEST)), "Progressing"),
    "a change in a pause": (lambda: stream(paused()), "Progressing"),
    "a change that a driver rejects": (lambda: stream(rejected()), "Degraded"),
    "a drain": (lambda: stream(draining()), "Healthy"),
    "an invalid stream": (
        lambda: stream(changed("Auto", cluster("west", startingOffsets="sometimes"))),
        "Degraded",
    ),
    "streams that disagree": (lambda: stream(disagreeing()), "Degraded"),
    "a stream that shadows another": (shadowing, "Healthy"),
    "a stream without subscriptions": (unsubscribed, "Healthy"),
}
"""{state: the stream, and Argo CD's health of it}."""
