"""Where metadata comes from: the interface of FLIP-246's `KafkaMetadataService`, and the static one. Driver.

A service is asked by one `MetadataDiscovery` only, which never calls it twice at a time. A user's own class
is created with the source's options as one mapping, and may block or raise: discovery counts that against
`metadataFailureThreshold`.
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
    """The source of truth for streams. What it does not return is not active, and is not read (FLIP-246)."""

    @abstractmethod
    def get_all_streams(self) -> list[KafkaStream]:
        """Every stream there is.

        Raises:
            MetadataInvalidError: what was found is wrong; the last good metadata stays in force.
            MetadataUnavailableError: there was no answer. Any other exception counts as that, too.
        """

    @abstractmethod
    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        """The streams of these ids. An id that does not exist is absent from the result. Raises as above."""

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Whether any stream names the cluster. Makes a look-up of its own unless a service knows better."""
        return any(cluster_id in stream.clusters for stream in self.get_all_streams())

    @property
    def revision(self) -> Revision | None:
        """Which edition the last look-up found; None if the service does not number its metadata."""
        return None

    def changed(self) -> bool:
        """Whether a look-up would now find something new. Asked every second, so it must be cheap; default:
        unknown."""
        return False

    def close(self) -> None:  # noqa: B027  # most services hold nothing
        """Let go of connections. May be called while a look-up hangs, from another thread, to unblock it."""


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
        return {each: self._streams[each] for each in stream_ids if each in self._streams}

    @property
    def revision(self) -> Revision | None:
        return self._revision


def load_class(path: str, expected: Callable[..., T]) -> Callable[[Mapping[str, str]], T]:
    """The class named by `module:Class`, a subclass of the class `expected`, to be called with the options.

    Raises:
        OptionError: the path has another form, its module does not import, or it names something else.
    """
    found = import_object(path)
    assert isinstance(expected, type)  # typed as a callable, since `type[T]` would not take an abstract class
    if not (isinstance(found, type) and issubclass(found, expected)):
        raise OptionError(f"{path!r} is no subclass of {expected.__module__}.{expected.__name__}; derive it from that")
    return cast(Callable[[Mapping[str, str]], T], found)
