"""The checks of saved files that end an application before Spark starts. Driver; `app.run` calls them.

They read metadata only as they are in force already. They ask brokers only whether a verdict was wrong.
"""

from __future__ import annotations

import contextlib
from functools import partial

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.driver.changed_topics import refuse_standing
from dynamic_kafka.driver.offset_resolution import topics_with_ids
from dynamic_kafka.errors import DynamicKafkaError, TopicIntegrityError
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.checkpoints import Checkpoint
from dynamic_kafka.state.store import StateLocation


def check_start(config: AppConfig, discovery: MetadataDiscovery) -> None:
    """Refuse a start that an earlier run or the metadata show to be in vain.

    Files that cannot be read are left to the queries, which report them.

    Raises:
        MetadataError: a subscribed stream is missing and no sink has begun, so it is a typo.
        TopicIntegrityError: an earlier run found a topic deleted or re-created, and nobody has accepted that.
    """
    checkpoints = {sink.name: Checkpoint(config.checkpoint_of(sink)) for sink in config.sinks}
    if discovery.deferred_refusal is not None and all(
        checkpoint.planned is None for checkpoint in checkpoints.values()
    ):
        raise discovery.deferred_refusal
    for sink in config.sinks:
        options, checkpoint = config.parsed_options(sink), checkpoints[sink.name]
        try:
            with contextlib.suppress(OSError):
                state = StateLocation(options.state_location) if options.state_location else None
                documents = checkpoint.documents(checkpoint.planned) or [OffsetDocument()]
                have_ids = partial(topics_with_ids, options)
                refuse_standing(state, documents, options, lambda: discovery.current().subscription, have_ids)
        except TopicIntegrityError:
            raise
        except DynamicKafkaError:
            continue
