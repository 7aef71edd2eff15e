"""The streams that a user's own service or subscriber has returned: checked, and in the form of the built-in ones.
Driver; pure.

The classes of `model` check nothing themselves. Here a document's words and mappings count as well as `OffsetSpec`, and
numbers and truth values as texts. Which properties a class of the user's own sets is its affair: the list of those that
a document from outside may set does not bind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, get_args

from pydantic_core import PydanticCustomError

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document_models import (
    cluster_id,
    folder_name,
    starting_offsets,
    stopping_offsets,
    stream_id,
    topic_name,
)
from dynamic_kafka.metadata.model import ClusterMetadata, ClusterState, KafkaStream, OffsetSpec

_Problems = list[str]
_STARTS = ("earliest", "latest", "committed", "timestamp", "explicit")
_STOPS = _STARTS[1:]


def check_returned_streams(streams: object, subscriber: object) -> list[KafkaStream]:
    """The streams that a subscriber has returned.

    Raises:
        MetadataInvalidError: with everything that is wrong, each with its stream, cluster and field; values of
            properties are not shown.
    """
    found: list[Any] = list(streams) if isinstance(streams, Iterable) else [streams]
    if not all(isinstance(stream, KafkaStream) for stream in found):
        raise MetadataInvalidError(
            f"{type(subscriber).__name__}.get_subscribed_streams returned something other than KafkaStream objects"
        )
    problems: _Problems = []
    sound = [_stream(stream, problems) for stream in found]
    if problems:
        raise MetadataInvalidError("; ".join(problems), tuple(problems))
    return sound


def _stream(stream: KafkaStream, problems: _Problems) -> KafkaStream:
    where = f"stream {stream.stream_id!r}"
    problems += _said(where, stream_id, stream.stream_id)
    given: object = stream.clusters
    if not isinstance(given, Mapping):
        problems.append(f"{where}: clusters must be a mapping of cluster ids to ClusterMetadata")
        return stream
    clusters: dict[str, ClusterMetadata] = {}
    for name, cluster in given.items():
        at = f"{where}, cluster {name!r}"
        problems += _said(at, cluster_id, name)
        if isinstance(cluster, ClusterMetadata):
            clusters[name] = _cluster(cluster, at, problems)
        else:
            problems.append(f"{at}: must be a ClusterMetadata")
    return replace(stream, clusters=clusters)


def _cluster(cluster: ClusterMetadata, at: str, problems: _Problems) -> ClusterMetadata:
    before = len(problems)
    topics = _topics(cluster.topics, f"{at}: topics", problems)
    if not topics and len(problems) == before:
        problems.append(f"{at}: topics must not be empty; name at least one, or leave the cluster out")
    if cluster.renamed_from is not None:
        problems += _said(f"{at}: renamed_from", cluster_id, cluster.renamed_from)
    if cluster.secret_folder is not None:
        problems += _said(f"{at}: secret_folder", folder_name, cluster.secret_folder)
    if cluster.state not in get_args(ClusterState):
        problems.append(f"{at}: state must be {' or '.join(get_args(ClusterState))}")
    return replace(
        cluster,
        topics=topics,
        properties=_properties(cluster.properties, f"{at}: properties", problems),
        starting_offsets=_offsets(
            cluster.starting_offsets, starting_offsets, topics, f"{at}: starting_offsets", problems
        ),
        stopping_offsets=_offsets(
            cluster.stopping_offsets, stopping_offsets, topics, f"{at}: stopping_offsets", problems
        ),
        draining_topics=_topics(cluster.draining_topics, f"{at}: draining_topics", problems),
    )


def _topics(given: object, where: str, problems: _Problems) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, (Sequence, AbstractSet)):
        problems.append(f"{where} must be a tuple of topic names")
        return ()
    for topic in given:
        problems += _said(where, topic_name, topic)
    if not all(isinstance(topic, str) for topic in given):
        return ()
    # A set has no order of its own, and the same answer has to stay the same one.
    return tuple(sorted(given) if isinstance(given, AbstractSet) else dict.fromkeys(given))


def _properties(given: object, where: str, problems: _Problems) -> dict[str, str]:
    if not isinstance(given, Mapping):
        problems.append(f"{where} must be a mapping of Kafka client properties")
        return {}
    texts: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(key, str) or not key:
            problems.append(f"{where}: {key!r} is no name of a property")
        elif isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, (str, int)):
            texts[key] = str(value)
        else:
            problems.append(f"{where}.{key} must be a text, a whole number, True or False")
    return texts


def _offsets(
    given: object,
    parse: Callable[[Any, Sequence[str]], OffsetSpec],
    topics: tuple[str, ...],
    where: str,
    problems: _Problems,
) -> OffsetSpec | None:
    if given is None:
        return None
    if isinstance(given, OffsetSpec):
        problems += _spec_problems(given, _STARTS if parse is starting_offsets else _STOPS, where)
        return given
    try:
        return parse(_with_text_keys(given), topics)
    except ValueError as error:
        problems += _texts(where, error)
        return None


def _spec_problems(spec: OffsetSpec, kinds: tuple[str, ...], where: str) -> Iterator[str]:
    if spec.kind not in kinds:
        yield f"{where} must be of kind {', '.join(kinds)}, not {spec.kind!r}"
    if spec.kind == "timestamp" and not spec.timestamps and not _is_number(spec.timestamp_ms):
        yield f"{where}: timestamp_ms must be milliseconds since 1970"
    for field, positions in (("offsets", spec.offsets), ("timestamps", spec.timestamps)):
        if not isinstance(positions, Mapping) or not all(
            isinstance(topic, str)
            and isinstance(each, Mapping)
            and all(_is_number(partition) and _is_number(position) for partition, position in each.items())
            for topic, each in positions.items()
        ):
            yield f"{where}: {field} must be numbers by topic and partition, as {{'orders': {{0: 42}}}}"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _with_text_keys(value: Any) -> Any:
    """As a document has it: {"orders": {0: 42}} comes naturally in Python, keys of JSON are texts."""
    if not isinstance(value, Mapping):
        return value
    return {key if isinstance(key, str) else str(key): _with_text_keys(each) for key, each in value.items()}


def _said(where: str, check: Callable[[str], object], value: object) -> Iterator[str]:
    """What `check` has against a name."""
    if not isinstance(value, str):
        yield f"{where}: {value!r} must be a text"
        return
    try:
        check(value)
    except ValueError as error:
        yield from _texts(where, error)


def _texts(where: str, error: ValueError) -> Iterator[str]:
    if not isinstance(error, PydanticCustomError):
        yield f"{where}: {error}"
        return
    for path, text in (error.context or {}).get("problems", ()):
        yield f"{'.'.join((where, *map(str, path)))}: {text}"
