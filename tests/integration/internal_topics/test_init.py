"""`init` on real brokers: each row of the table of internal topics, and scenario 46."""

from __future__ import annotations

import re

import pytest

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics import InitParameters, init
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.app.internal_topics.initialise import set_up_at_start
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult
from dynamic_kafka.driver.metadata_services import look_up
from dynamic_kafka.errors import MisconfiguredInternalTopicError, MissingInternalTopicError, MissingSourceTopicError
from tests.integration.app_tools.story import Tools
from tests.integration.internal_topics.conftest import CHANGELOG, DEAD, REPARTITION, Shop

pytestmark = pytest.mark.brokers
ALL = {CHANGELOG, REPARTITION, DEAD}


def test_all_missing_topics_are_made_as_declared(shop: Shop) -> None:
    assert shop.there() == set()
    result = init(shop.app)
    assert shop.there() == ALL
    assert {topic.name for topic in result.plan.create} == set(shop.names.values())
    topics = {kind: result.found[name] for kind, name in shop.names.items()}
    assert {kind: new_topic.partitions for kind, new_topic in topics.items()} == {CHANGELOG: 1, REPARTITION: 3, DEAD: 2}
    assert topics[CHANGELOG].config["cleanup.policy"] == "compact"
    assert topics[REPARTITION].config["cleanup.policy"] == "delete"
    assert topics[REPARTITION].config["retention.ms"] == "-1"
    assert topics[REPARTITION].config["segment.ms"] == "600000"
    assert topics[DEAD].config["cleanup.policy"] == "compact"


def test_a_second_init_finds_nothing_to_do(shop: Shop) -> None:
    first = init(shop.app)
    second = init(shop.app)
    assert second.plan.create == ()
    assert second.found == first.found


def test_manual_takes_over_the_topics_of_automatic(shop: Shop) -> None:
    def start() -> SetupResult:
        config = load_config(shop.app)
        declared = config.file.internal_topics
        assert declared is not None
        return set_up_at_start(config, declared, find_home(config, declared, lambda: look_up(config.shared_options)))

    made = start()
    assert shop.there() == ALL
    shop.write(options={"internal.topics.setup": "manual"})
    assert start().found == made.found
    # And from then on no start makes a topic
    shop.east.delete_topic(shop.names[REPARTITION])
    with pytest.raises(MissingInternalTopicError, match=shop.names[REPARTITION]):
        start()
    assert shop.there() == ALL - {REPARTITION}


@pytest.mark.scenario(46)
def test_some_missing_topics_are_an_error_that_names_them(shop: Shop, tools: Tools) -> None:
    shop.make(CHANGELOG, 1, cleanup_policy="compact")
    with pytest.raises(MissingInternalTopicError, match=shop.names[REPARTITION]):
        init(shop.app)
    assert shop.there() == {CHANGELOG}
    assert tools("init", shop.app) == 11
    assert "--setup-all-topics-if-incomplete" in tools.errors


@pytest.mark.parametrize(
    ("parameters", "completed"),
    [
        (InitParameters(setup_repartition_topics_if_incomplete=True), {REPARTITION}),
        (InitParameters(setup_changelog_topics_if_incomplete=True), {CHANGELOG}),
        (InitParameters(setup_internal_topics_if_incomplete=True), ALL),
    ],
    ids=["repartition", "changelog", "all"],
)
def test_only_the_enabled_kind_is_completed(shop: Shop, parameters: InitParameters, completed: set[str]) -> None:
    there, missing = {
        REPARTITION: (CHANGELOG, REPARTITION),
        CHANGELOG: (REPARTITION, CHANGELOG),
        "all": (CHANGELOG, DEAD),
    }["all" if len(completed) == 3 else next(iter(completed))]
    declared = {declared_topic["kind"]: declared_topic for declared_topic in shop.declared}
    shop.write([declared[there]])
    init(shop.app)
    shop.write([declared[there], declared[missing]])
    with pytest.raises(MissingInternalTopicError):
        init(shop.app)
    init(shop.app, parameters)
    assert shop.there() == {there, missing}
    third = (ALL - {there, missing}).pop()
    shop.write([declared[there], declared[missing], declared[third]])
    if completed != ALL:
        with pytest.raises(MissingInternalTopicError, match=shop.names[third]):
            init(shop.app, parameters)
    else:
        init(shop.app, parameters)
        assert shop.there() == ALL


@pytest.mark.scenario(46)
def test_every_deviation_is_listed_at_once(shop: Shop, tools: Tools) -> None:
    shop.make(CHANGELOG, 4, cleanup_policy="delete")
    shop.make(REPARTITION, 3, retention_ms="1000", segment_ms="600000")
    shop.make(DEAD, 2, cleanup_policy="compact,delete")
    with pytest.raises(MisconfiguredInternalTopicError) as refused:
        init(shop.app, InitParameters(setup_internal_topics_if_incomplete=True))
    text = str(refused.value)
    assert re.search(rf"'{shop.names[CHANGELOG]}':\D*4 partitions\D*1\b", text)
    assert re.search(rf"'{shop.names[CHANGELOG]}': cleanup\.policy[^']*'delete'[^']*'compact'", text)
    assert re.search(rf"'{shop.names[REPARTITION]}': retention\.ms[^']*'1000'[^']*'-1'", text)
    assert re.search(rf"'{shop.names[DEAD]}': cleanup\.policy[^']*'compact,delete'[^']*'compact'", text)
    assert tools("init", shop.app) == 12


def test_a_dry_run_makes_nothing(shop: Shop, tools: Tools) -> None:
    assert tools("init", shop.app, "--dry-run") == 0
    assert tools.output.count("would be made") == 3
    assert shop.there() == set()
    assert not (shop.folder / "checkpoints" / "dynamic-kafka").exists()


def test_a_missing_source_topic_is_an_error_of_its_own(shop: Shop, tools: Tools) -> None:
    shop.east.delete_topic(shop.orders)
    with pytest.raises(MissingSourceTopicError, match=shop.orders):
        init(shop.app)
    assert shop.there() == set()
    assert tools("init", shop.app) == 10
    assert tools("init", shop.app, "--skip-source-topics") == 0
    assert shop.there() == ALL
