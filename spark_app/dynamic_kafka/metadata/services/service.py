"""The interface of metadata services, FLIP-246's `KafkaMetadataService`, and the static service. Driver.

One `MetadataDiscovery` calls a service, never twice at a time. A user's own class is created with the source's options
as one mapping. It may block or raise: discovery counts that as a failure, against `metadataFailureThreshold`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar, cast

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.metadata.model import KafkaStream, Revision
from dynamic_kafka.user_code import import_object

T = TypeVar("T")


class KafkaMetadataService(ABC):
    """The source of metadata. A stream or cluster that it does not return is not active and not read (FLIP-246)."""

    @abstractmethod
    def get_all_streams(self) -> list[KafkaStream]:
        """Return all streams.

        Raises:
            MetadataInvalidError: the metadata is wrong; the last good one stays in force.
            MetadataUnavailableError: there was no answer. Any other exception counts as this one.
        """

    @abstractmethod
    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        """Return the streams of these ids, without ids that do not exist. Raises as `get_all_streams` does."""

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Return whether the cluster is to be read; by default, whether any stream names it, by a lookup of its own.

        Called when a cluster that a plan needs has failed, before that ends the query. False keeps the query going
        without the cluster.
        """
        return any(cluster_id in stream.clusters for stream in self.get_all_streams())

    @property
    def revision(self) -> Revision | None:
        """The revision that the last lookup found; None if the service has no revisions."""
        return None

    def changed(self) -> bool:
        """Return whether a lookup would find something new. Called every second, so keep it cheap. Default: False."""
        return False

    def close(self) -> None:  # noqa: B027  # most services hold nothing
        """Close connections. Another thread may call this while a lookup hangs, to unblock it."""


class StaticMetadataService(KafkaMetadataService):
    """Streams that never change: `metadataService=static`, with the document inline."""

    def __init__(self, streams: str | Iterable[KafkaStream]) -> None:
        """`streams` is a document's text, or the streams themselves.

        Raises:
            MetadataInvalidError: the text is no valid document.
        """
        self._revision: Revision | None = None
        if isinstance(streams, str):
            document = parse_document(streams, source="metadataDocument")
            self._streams = dict(document.streams)
            self._revision = document.revision
        else:
            self._streams = {stream.stream_id: stream for stream in streams}

    def get_all_streams(self) -> list[KafkaStream]:
        return list(self._streams.values())

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        return {name: self._streams[name] for name in stream_ids if name in self._streams}

    @property
    def revision(self) -> Revision | None:
        return self._revision


def load_class(path: str, expected: Callable[..., T]) -> Callable[[Mapping[str, str]], T]:
    """Return the class that `path` names as `module:Class`; the caller calls it with the options.

    Raises:
        OptionError: the path has another form, its module does not import, or it names no subclass of `expected`.
    """
    loaded_class = import_object(path)
    assert isinstance(expected, type)  # typed as a callable, since `type[T]` would not take an abstract class
    if not (isinstance(loaded_class, type) and issubclass(loaded_class, expected)):
        raise OptionError(f"{path!r} is no subclass of {expected.__module__}.{expected.__name__}; derive it from that")
    return cast(Callable[[Mapping[str, str]], T], loaded_class)
