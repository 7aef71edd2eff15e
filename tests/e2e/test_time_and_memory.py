"""The comparison with changes by hand, and the memory of a driver over many changes.

The module's name puts it after the stories that break things: their changes count in the figures, too.
"""

from __future__ import annotations

import time
from functools import partial

from tests.e2e import audit
from tests.e2e.by_hand import ByHand
from tests.e2e.install import NAMESPACE
from tests.e2e.memory import TakenRevisions, by_role, problems, summary
from tests.e2e.shop import Shop
from tests.support.kube import APPLICATIONS, PODS
from tests.support.node.followed_file import FollowedFile
from tests.support.node.pod_node import PodNode
from tests.support.node.processes import tree

_BY_HAND = 5
_CHANGES = 100


def test_the_same_change_by_hand_takes_a_restart(shop: Shop) -> None:
    title = "The document of an application without the operator is edited by hand, and its driver deleted"
    with shop.play("by-hand", title) as story:
        home, restarted = shop.stream.home, shop.applications[1]
        others = [name for name in shop.brokers if name != home]
        added = [name for name in others if name not in shop.stream.clusters]
        for place, name in enumerate(added):
            at = shop.stream.add(name, producers=len(added) - place)  # the next cluster gets one of them
            shop.wait_in_force(f"{name} is added", at, added=name)

        # The application by hand takes the place of the other one, so that the machine has the same to do.
        _suspend(shop, suspended=True)
        shop.wait(f"{restarted.name} to end", lambda: not shop.objects.pods(restarted, "driver"))
        by_hand = ByHand(shop)
        by_hand.start([home, others[0]])
        for number in range(1, _BY_HAND + 1):
            # Each change adds one cluster and takes the other one out: one restart a change, not two.
            name = others[number % 2]
            story.changes.append(by_hand.change([home, name], name))
            shop.mark(f"{name} was added by hand")
        by_hand.delete()
        _suspend(shop, suspended=False)
        shop.wait_driver(restarted)
        shop.wait_batch(restarted)

        at = shop.stream.remove(*added)
        shop.wait_in_force(f"{' and '.join(added)} are removed, and drain", at)
        for name in added:
            shop.wait_drained(name)


def test_a_drivers_memory_stays_flat(shop: Shop, node: PodNode) -> None:
    live, api = shop.applications[0], shop.cluster.api
    with shop.play("many-changes", f"{_CHANGES} changes of a stream that one application takes up live") as story:
        servers = shop.brokers["C"].bootstrap
        shop.brokers["C"].create_topic(audit.NAME, 1)
        live.streams, shop.stream.more = ["orders", audit.NAME], {audit.FILE: audit.manifest(servers)}
        at = shop.stream.commit_again("Let orders-live read stream audit, too")
        shop.wait("stream audit to be in force", partial(shop.timeline.applied_since, live, at))

        driver = api.get(PODS, shop.timeline.drivers[live.name][-1].name, NAMESPACE)
        process, log, taken, samples = node.process(driver), FollowedFile(node.log(driver)), TakenRevisions(), []

        def is_taken(since: float) -> bool:
            taken.add(log.lines())
            return any(taken.has(document.revision) for document in shop.timeline.documents_since(live.name, since))

        for number in range(1, _CHANGES + 1):
            began = time.time()
            audit.change(api, servers, number)
            shop.wait(f"change {number} to be in force", partial(is_taken, began))
            samples.append(by_role(tree(process)))
        log.close()
        story.memory = {"changes": len(samples), **summary(samples)}
        story.problems += problems(story.memory)
        shop.mark(f"{len(taken.read)} revisions were read, {len(taken.in_force)} were in force")

        live.streams, shop.stream.more = ["orders"], {}
        shop.stream.commit_again("Take stream audit out again")
        shop.wait_left("C", live)
        assert shop.stream.tool.drift() == []
    assert [result.restarts for result in shop.story.results] == [0, 0]


def _suspend(shop: Shop, *, suspended: bool) -> None:
    """Suspend the application with restarts, which ends its driver in order, or let it run again."""
    name = shop.applications[1].name
    shop.cluster.api.patch(APPLICATIONS, name, NAMESPACE, {"spec": {"suspend": suspended or None}})
    shop.mark(f"{name} is suspended" if suspended else f"{name} runs again")
