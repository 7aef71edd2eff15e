"""`init`, KIP-698's explicit initialisation: make the internal topics, and check the source topics. Driver and tools.

`init` is the function for Python; the command of that name calls it. At its start the application calls
`set_up_at_start` instead, which does as the option `internalTopicsSetup` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.app.internal_topics.memory import SetupMemory
from dynamic_kafka.app.internal_topics.parameters import InitParameters
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult, TopicSetUp
from dynamic_kafka.driver.cluster_clients import observe_all
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.errors import MissingSourceTopicError, OptionError
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.wording import first_few

log = logging.getLogger(__name__)

NOTHING_COMPLETED = InitParameters()


def init(
    app: str | Path | AppConfig,
    parameters: InitParameters = NOTHING_COMPLETED,
    *,
    dry_run: bool = False,
    timeout_s: float | None = None,
    check_sources: bool = True,
) -> SetupResult:
    """Make the internal topics of an application, after a check of its source topics.

    Args:
        app: the path of its `app.yaml`, or the file as `load_config` returns it.
        parameters: the kinds of topics to complete if some topics exist already; by default none.
        dry_run: change nothing, and return what would be done. The home cluster checks the request.
        timeout_s: seconds for the set-up, instead of `timeout` in `app.yaml`.
        check_sources: whether the topics that the metadata names must exist.

    Raises:
        MissingInternalTopicError: some topics are missing, others exist, and `parameters` does not complete them.
        MisconfiguredInternalTopicError: topics differ from their declarations. The message lists all deviations.
        MissingSourceTopicError: a topic that the metadata names does not exist.
        ClusterError, IdentityError, MetadataError, OptionError: as elsewhere in the application.
    """
    config = app if isinstance(app, AppConfig) else load_config(app)
    declared = config.file.internal_topics
    if declared is None:
        raise OptionError(f"{config.source} declares no `internalTopics`, so there is nothing to set up")
    options = config.parsed_options(config.sinks[0])
    deadline_s = declared.timeout / 1000 if timeout_s is None else timeout_s
    discovery = make_discovery(options, once=True)
    with closing(_Started(discovery.start, lambda: discovery.current().subscription, discovery.stop)) as metadata:
        if check_sources:
            refuse_missing_sources(options, metadata.subscription(), deadline_s)
        set_up = _set_up(config, declared, metadata.subscription, deadline_s)
        with closing(set_up):
            return set_up.make(parameters, dry_run=dry_run)


def set_up_at_start(config: AppConfig, subscription: Callable[[], Subscription]) -> SetupResult | None:
    """Make or check the internal topics when the application starts; None if it declares none.

    With `internalTopicsSetup=automatic` all that is missing is made. With `manual` nothing is.

    Raises:
        as `init`.
    """
    declared = config.file.internal_topics
    if declared is None:
        return None
    set_up = _set_up(config, declared, subscription, declared.timeout / 1000)
    with closing(set_up):
        if is_manual(config):
            result = set_up.check()
        else:
            result = set_up.make(NOTHING_COMPLETED.enable_setup_internal_topics_if_incomplete())
    _report(result)
    return result


def is_manual(config: AppConfig) -> bool:
    """Return whether the application makes no internal topic itself (`internalTopicsSetup=manual`)."""
    return config.parsed_options(config.sinks[0]).internal_topics_setup == "manual"


def refuse_missing_sources(options: SourceOptions, subscription: Subscription, deadline_s: float) -> None:
    """Ask all clusters of a subscription for their topics.

    Raises:
        MissingSourceTopicError: a topic does not exist.
        ClusterError: a cluster does not answer in time, or refuses.
    """
    answers, failures = observe_all(options, subscription, timeout_s=deadline_s)
    for cluster in subscription.clusters:
        if cluster in failures:
            raise failures[cluster]
        if missing := answers[cluster].missing:
            text = f"has no topic {first_few(map(repr, sorted(missing)))}: create it, or remove it from the stream"
            raise MissingSourceTopicError(cluster, text)


def _set_up(
    config: AppConfig, declared: InternalTopics, subscription: Callable[[], Subscription], deadline_s: float
) -> TopicSetUp:
    memory = SetupMemory(config.state_location, config.name)
    return TopicSetUp(find_home(config, declared, subscription), declared, memory, deadline_s)


def _report(result: SetupResult) -> None:
    plan = result.plan
    fields = {
        "event": "internal-topics",
        "made": [topic.name for topic in plan.create],
        "deleted": list(plan.deleted),
        "recreated": sorted(plan.recreated),
    }
    lost = first_few(map(repr, (*plan.deleted, *plan.recreated)))
    if lost:
        text = "internal topics were deleted or re-created since the last start, and their records are lost: %s"
        log.warning(text, lost, extra=fields)
    else:
        log.info("internal topics: %d made, %d there", len(plan.create), len(result.found), extra=fields)


class _Started:
    """The metadata of one `init`, which is looked up when it is first needed."""

    def __init__(
        self, start: Callable[[], None], subscription: Callable[[], Subscription], stop: Callable[[], None]
    ) -> None:
        self._start, self._subscription, self.close = start, subscription, stop
        self._started = False

    def subscription(self) -> Subscription:
        """Return the subscription. Raises MetadataError."""
        if not self._started:
            self._start()
            self._started = True
        return self._subscription()
