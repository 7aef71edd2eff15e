"""Set-ups on real brokers that fail half way, are killed at a step, or run twice at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.internal_topics import init
from dynamic_kafka.app.internal_topics.topic_set_up import TopicSetUp
from dynamic_kafka.errors import ClusterError, IdentityError, MisconfiguredInternalTopicError
from dynamic_kafka.kafka.topic_admin import Creation, TopicAdmin, WantedTopic
from tests.integration.app_tools.story import Tools
from tests.integration.internal_topics.conftest import CHANGELOG, DEAD, REPARTITION, Shop
from tests.integration.internal_topics.cut_off_init import STEPS
from tests.support.kafka import KafkaCluster
from tests.support.ports import reserve_ports

DEEP = pytest.mark.deep("kills and faults at each step")

pytestmark = pytest.mark.brokers
ALL = {CHANGELOG, REPARTITION, DEAD}


@DEEP
def test_a_request_that_would_fail_makes_nothing(shop: Shop, tools: Tools) -> None:
    shop.write([*shop.declared[:2], {**shop.declared[2], "replicationFactor": 3}])
    assert tools("init", shop.app) == 5
    assert f"could not make topic '{shop.names[DEAD]}'" in tools.errors
    assert "nothing was made" in tools.errors
    assert shop.there() == set()


@DEEP
@pytest.mark.scenario(46)
def test_a_failure_half_way_removes_what_was_made(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the validation, the brokers make two of the topics and refuse the third."""
    monkeypatch.setattr(TopicSetUp, "_validate", lambda self, topics: None)
    shop.write([*shop.declared[:2], {**shop.declared[2], "replicationFactor": 3}])
    made: list[Creation] = []
    watch_creations(monkeypatch, after=made.append)
    with pytest.raises(ClusterError, match="what was made is removed again"):
        init(shop.app)
    assert made[0].made == {shop.names[CHANGELOG], shop.names[REPARTITION]}
    assert shop.there() == set()
    shop.write()
    init(shop.app)
    assert shop.there() == ALL


@DEEP
def test_a_topic_of_another_program_is_left_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came between the look and the request, and is not as declared."""
    watch_creations(monkeypatch, before=lambda: shop.make(CHANGELOG, 5, cleanup_policy="compact"))
    with pytest.raises(MisconfiguredInternalTopicError, match="it has 5 partitions, declared are 1"):
        init(shop.app)
    assert shop.there() == {CHANGELOG}


@DEEP
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_an_init_that_was_killed_is_completed(shop: Shop, step: str) -> None:
    command = [sys.executable, "-m", "tests.integration.internal_topics.cut_off_init", step, "init", str(shop.app)]
    killed = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    result = init(shop.app)
    assert shop.there() == ALL
    assert result.plan.deleted == ()
    assert init(shop.app).plan.create == ()


@pytest.mark.timeout(600)
def test_two_inits_at_once_both_succeed(shop: Shop) -> None:
    command = [sys.executable, "-m", "dynamic_kafka.app", "init", str(shop.app)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    assert shop.there() == ALL
    assert init(shop.app).plan.create == ()


@DEEP
def test_an_init_between_another_ones_steps_succeeds(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[int] = []
    watch_creations(monkeypatch, before=lambda: others.append(main(["init", str(shop.app)])))
    init(shop.app)
    assert others == [0]
    assert shop.there() == ALL


def test_an_unreachable_home_is_an_error_of_its_own(shop: Shop, tools: Tools) -> None:
    (port,) = reserve_ports(1)
    shop.write(bootstrapServers=f"127.0.0.1:{port}", timeout="2s")
    assert tools("init", shop.app) == 5
    assert "CLUSTER_UNREACHABLE cluster=internal-topics" in tools.errors
    assert f"(servers 127.0.0.1:{port})" in tools.errors
    assert f"correct internalTopics.bootstrapServers in {shop.app}" in tools.errors
    assert tools("init", shop.app, "--timeout", "1s") == 5


@DEEP
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", ["before the first request", "before the answer"])
def test_an_init_whose_home_hangs_ends_and_is_completed(
    shop: Shop, home: KafkaCluster, tools: Tools, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    shop.write(bootstrapServers=home.bootstrap)
    if moment == "before the answer":
        watch_creations(monkeypatch, before=home.pause)
        duration, error = "10s", "no answer came, so it may have been made): the next set-up goes on with them"
    else:
        home.pause()
        duration, error = "5s", "CLUSTER_UNREACHABLE cluster=internal-topics"
    assert tools("init", shop.app, "--timeout", duration) == 5
    assert error in tools.errors

    home.resume()
    assert tools("init", shop.app) == 0
    assert shop.there() == ALL
    assert init(shop.app).plan.create == ()


@DEEP
def test_a_home_with_servers_of_its_own_is_checked(shop: Shop, tools: Tools) -> None:
    shop.write(bootstrapServers=shop.east.bootstrap)
    init(shop.app)
    assert shop.there() == ALL
    shop.write(bootstrapServers=shop.east.bootstrap, kafkaId="another")
    with pytest.raises(IdentityError, match=shop.east.kafka_id):
        init(shop.app)
    assert tools("init", shop.app) == 4


def watch_creations(
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] = lambda: None,
    after: Callable[[Creation], object] = lambda _: None,
) -> None:
    """Call these around the next request that makes topics, not around one that only validates."""
    original = TopicAdmin.create

    def create(self: TopicAdmin, topics: Sequence[WantedTopic], *, validate_only: bool = False) -> Creation:
        if validate_only:
            return original(self, topics, validate_only=True)
        monkeypatch.setattr(TopicAdmin, "create", original)
        before()
        result = original(self, topics)
        after(result)
        return result

    monkeypatch.setattr(TopicAdmin, "create", create)
