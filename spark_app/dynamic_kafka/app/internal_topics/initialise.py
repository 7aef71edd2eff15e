"""`init`, KIP-698's explicit initialisation: make the internal topics, and check the source topics. Driver and tools.

`init` is the function for Python; the command of that name calls it. At its start the application calls
`set_up_at_start` instead, which does as the option `internalTopicsSetup` says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.internal_topics.home import Home, find_home
from dynamic_kafka.app.internal_topics.memory import SetupMemory
from dynamic_kafka.app.internal_topics.parameters import InitParameters
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult, TopicSetUp
from dynamic_kafka.driver.cluster_clients import observe_all
from dynamic_kafka.driver.metadata_services import look_up
from dynamic_kafka.errors import ClusterUnreachableError, OptionError
from dynamic_kafka.metadata.subscription import Subscription
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
    options = config.shared_options
    deadline_s = declared.timeout / 1000 if timeout_s is None else timeout_s
    needed = check_sources or declared.cluster is not None  # else there may be no metadata yet
    subscription = look_up(options) if needed else Subscription({}, ())
    if check_sources:
        there = {name: named for name, named in subscription.clusters.items() if named.state != "Announced"}
        observe_all(options, replace(subscription, clusters=there), timeout_s=deadline_s)
    home = find_home(config, declared, lambda: subscription)
    with _set_up(config, declared, home, deadline_s) as set_up:
        return set_up.make(parameters, dry_run=dry_run)


def set_up_at_start(config: AppConfig, declared: InternalTopics, home: Home) -> SetupResult:
    """Make or check the internal topics when the application starts.

    With `internalTopicsSetup=automatic` all that is missing is made. With `manual` nothing is.

    Raises:
        as `init`.
    """
    with _set_up(config, declared, home, declared.timeout / 1000) as set_up:
        if is_manual(config):
            result = set_up.check()
        else:
            result = set_up.make(InitParameters(setup_internal_topics_if_incomplete=True))
    _report(result)
    return result


def is_manual(config: AppConfig) -> bool:
    """Return whether the application makes no internal topic itself (`internalTopicsSetup=manual`)."""
    return config.shared_options.internal_topics_setup == "manual"


@contextmanager
def _set_up(config: AppConfig, declared: InternalTopics, home: Home, deadline_s: float) -> Iterator[TopicSetUp]:
    """Yield a set-up, and close it. An error of a home that does not answer names its servers."""
    set_up = TopicSetUp(home, declared, SetupMemory(config.state_location, config.name), deadline_s)
    try:
        yield set_up
    except ClusterUnreachableError as error:
        field = "cluster" if declared.cluster is not None else "bootstrapServers"
        text, file = error.message, config.source
        raise ClusterUnreachableError(
            error.cluster,
            f"{text} (servers {home.servers}): correct internalTopics.{field} in {file}, or bring the cluster back",
        ) from None
    finally:
        set_up.close()


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
