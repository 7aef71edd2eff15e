"""The values that fields of `SourceOptions` hold. Pure and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dynamic_kafka.metadata.model import OffsetSpec

Mode = Literal["streaming", "batch"]
"""How Spark reads."""


class NamedOptions(dict[str, str]):
    """The user's options by name, for users' own classes. A lookup ignores letter case; iteration yields lower case.

    Spark lowers the keys before the source sees them, and the application does not. A class finds its options either
    way.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({key.lower(): value for key, value in options.items()})

    def __missing__(self, key: str) -> str:
        lower = key.lower()
        if lower != key and lower in self:
            return self[lower]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and super().__contains__(key.lower()))

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, super().get(key.lower(), default))

    def pop(self, key: str, *default: Any) -> Any:
        return super().pop(key if super().__contains__(key) else key.lower(), *default)

    def __reduce__(self) -> tuple[type[NamedOptions], tuple[dict[str, str]]]:
        return NamedOptions, (dict(self),)


@dataclass(frozen=True)
class StreamIds:
    """A subscription to streams by id. The ids are in the given order, without duplicates."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class StreamPattern:
    """A subscription to every stream whose whole id matches a regular expression."""

    pattern: str


@dataclass(frozen=True)
class CustomSubscriber:
    """A subscription to the streams that a user's class chooses, named `package.module:Class`."""

    path: str


Subscribe = StreamIds | StreamPattern | CustomSubscriber


@dataclass(frozen=True)
class SingleCluster:
    """The one cluster of `kafka.bootstrap.servers`, whose topics are the streams (stream id = topic).

    At most one of `topics`, `pattern` and `assign` is set. If none is set, a user's subscriber chooses.

    Attributes:
        cluster_id: the cluster's id in offset documents and rows.
        topics: the topics to read, in the given order.
        pattern: a regular expression for whole topic names.
        assign: the only partitions to read, {topic: (partition, …)}.
    """

    cluster_id: str = "default"
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assign: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class PerCluster:
    """Where reading starts or stops, by cluster id. Clusters without an entry follow the default."""

    clusters: Mapping[str, OffsetSpec]
