"""The metadata service, the subscriber and the discovery that the options ask for.

Driver; the observer makes its discovery here, and so do the application and its tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from dynamic_kafka.driver.single_cluster_service import SingleClusterService
from dynamic_kafka.errors import DynamicKafkaError, MetadataError, MetadataUnavailableError, OptionError
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.discovery_state import Discovered
from dynamic_kafka.metadata.revision import AwaitedRevision
from dynamic_kafka.metadata.services.file import FileMetadataService
from dynamic_kafka.metadata.services.service import KafkaMetadataService, StaticMetadataService, load_class
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber, StreamIdsSubscriber, StreamPatternSubscriber
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import NamedOptions, SourceOptions, StreamIds, StreamPattern
from dynamic_kafka.user_code import error_text, made_of

NEWER = "there is newer metadata, which a later plan takes"
"""The reason why a query that would be over goes on."""
T = TypeVar("T")


def make_service(options: SourceOptions) -> KafkaMetadataService:
    """Return the metadata service; a user's class is called with the options as one mapping if it takes them.

    Raises:
        OptionError: the class cannot be loaded, or needs more than the options as its one argument.
        MetadataUnavailableError: its constructor raises something else.
    """
    if options.single is not None:
        return SingleClusterService(options.single, options)
    if options.service == "file":
        return FileMetadataService(options.metadata_path or "")
    if options.service == "static":
        return StaticMetadataService(options.metadata_document or "")
    return _instance(options.service, KafkaMetadataService, options)


def make_subscriber(options: SourceOptions) -> KafkaStreamSubscriber:
    """Return the subscriber, which selects the streams: by ids, by a pattern, or a user's class.

    Raises:
        OptionError, MetadataUnavailableError: see `make_service`.
    """
    chosen = options.subscribe
    if isinstance(chosen, StreamIds):
        return StreamIdsSubscriber(chosen.ids)
    if isinstance(chosen, StreamPattern):
        return StreamPatternSubscriber(chosen.pattern)
    return _instance(chosen.path, KafkaStreamSubscriber, options)


def _instance(path: str, expected: Callable[..., T], options: SourceOptions) -> T:
    """Return an object of a user's class, whose constructor may raise anything."""
    user_class = load_class(path, expected)
    try:
        return made_of(user_class, NamedOptions(options.raw))
    except DynamicKafkaError:
        raise
    except (Exception, SystemExit) as error:
        text = f"{path} cannot be made: {error_text(error)}"
        if isinstance(error, TypeError | KeyError):
            raise OptionError(f"{text}; it is called with the options as its one argument, a mapping") from None
        raise MetadataUnavailableError(f"{text}; check what it needs at its start") from None


def make_discovery(options: SourceOptions, *, once: bool = False) -> MetadataDiscovery:
    """Return the discovery that the options ask for. Bounded reading looks metadata up only once.

    Args:
        once: look metadata up only once, whatever the options say, for a query that an earlier run found to be bounded.

    Raises:
        OptionError: a class cannot be loaded or made, or the environment names an invalid revision.
        MetadataUnavailableError: the constructor of a user's class raises something else.
    """
    awaited: str | AwaitedRevision | None = options.metadata_revision
    if awaited is None and options.service == "file":
        awaited = AwaitedRevision.of_environment(os.environ)
    return MetadataDiscovery(
        make_service(options),
        make_subscriber(options),
        interval_s=0 if once or options.bounded else options.metadata_discovery_interval_ms / 1000,
        failure_threshold=options.metadata_failure_threshold,
        awaited_revision=awaited,
        awaited_timeout_s=options.metadata_timeout_ms / 1000,
    )


def newer_than(metadata: Discovered, options: SourceOptions) -> str:
    """Look metadata up once, by a discovery of its own, and return why what was found is not the newest.

    It is for runs that look metadata up only at their start. The text is empty if nothing has changed.
    """
    try:
        discovery = make_discovery(options, once=True)
        discovery.start(refuse_missing=False)
    except MetadataError as error:
        return f"the newest metadata is unknown: {error}"
    try:
        return "" if metadata.agrees_with(discovery.current()) else NEWER
    finally:
        discovery.stop()


def look_up(options: SourceOptions) -> Subscription:
    """Look metadata up once; return what is subscribed. Raises as `make_discovery` and `MetadataDiscovery.start`."""
    discovery = make_discovery(options, once=True)
    try:
        discovery.start()
        return discovery.current().subscription
    finally:
        discovery.stop()
