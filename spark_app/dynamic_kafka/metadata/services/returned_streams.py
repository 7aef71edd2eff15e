"""The check of the streams and revisions that a user's own service or subscriber returns. Driver; pure.

The classes of `model` check nothing themselves. The result has the form that the built-in services return: a word or a
mapping, as documents have it, becomes an `OffsetSpec`; numbers and truth values of properties become texts. A user's
own service may set any client property: the allowlist of `properties.py` binds documents only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, get_args

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.model import ClusterMetadata, ClusterState, KafkaStream, OffsetSpec, Revision
from dynamic_kafka.metadata.names import check_cluster_id, check_folder, check_stream_id, check_topic
from dynamic_kafka.metadata.offset_grammar import START, STOP, Side, read_offsets, spec_problems
from dynamic_kafka.metadata.topic_ids import check_topic_id
from dynamic_kafka.metadata.yaml.located import Findings, Problem

_Problems = list[str]


def check_returned_streams(streams: object, subscriber: object) -> list[KafkaStream]:
    """Return the streams that `subscriber` has returned, in the form of the built-in services.

    Raises:
        MetadataInvalidError: with every problem, each with its stream, cluster and field. Values of properties are
            not shown.
    """
    returned: list[Any] = list(streams) if isinstance(streams, Iterable) else [streams]
    if not all(isinstance(stream, KafkaStream) for stream in returned):
        raise MetadataInvalidError(
            f"{type(subscriber).__name__}.get_subscribed_streams returned something other than KafkaStream objects"
        )
    problems: _Problems = []
    valid = [_stream(stream, problems) for stream in returned]
    if problems:
        raise MetadataInvalidError("; ".join(problems), tuple(problems))
    return valid


def check_returned_revision(revision: object, service: object) -> Revision | None:
    """Return the revision that `service` reports, or None if it has none.

    Raises:
        MetadataInvalidError: it is no revision.
    """
    if revision is None:
        return None
    if (
        isinstance(revision, Revision)
        and isinstance(revision.hash, str)
        and isinstance(revision.counter, int | None)
        and isinstance(revision.lineage, str | None)
    ):
        return revision
    name = type(service).__name__
    raise MetadataInvalidError(
        f"{name}.revision is no Revision with hash: str, counter: int | None, lineage: str | None"
    )


def _stream(stream: KafkaStream, problems: _Problems) -> KafkaStream:
    where = f"stream {stream.stream_id!r}"
    problems += _name_problems(where, check_stream_id, stream.stream_id)
    given: object = stream.clusters
    if not isinstance(given, Mapping):
        problems.append(f"{where}: clusters must be a mapping of cluster ids to ClusterMetadata")
        return stream
    clusters: dict[str, ClusterMetadata] = {}
    for name, cluster in given.items():
        at = f"{where}, cluster {name!r}"
        problems += _name_problems(at, check_cluster_id, name)
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
        problems += _name_problems(f"{at}: renamed_from", check_cluster_id, cluster.renamed_from)
    if cluster.secret_folder is not None:
        problems += _name_problems(f"{at}: secret_folder", check_folder, cluster.secret_folder)
    if cluster.state not in get_args(ClusterState):
        problems.append(f"{at}: state must be {' or '.join(get_args(ClusterState))}")
    return replace(
        cluster,
        topics=topics,
        properties=_properties(cluster.properties, f"{at}: properties", problems),
        starting_offsets=_offsets(cluster.starting_offsets, START, topics, f"{at}: starting_offsets", problems),
        stopping_offsets=_offsets(cluster.stopping_offsets, STOP, topics, f"{at}: stopping_offsets", problems),
        draining_topics=_topics(cluster.draining_topics, f"{at}: draining_topics", problems),
        topic_ids=_topic_ids(cluster.topic_ids, topics, f"{at}: topic_ids", problems),
    )


def _topics(given: object, where: str, problems: _Problems) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, (Sequence, AbstractSet)):
        problems.append(f"{where} must be a tuple of topic names")
        return ()
    for topic in given:
        problems += _name_problems(where, check_topic, topic)
    if not all(isinstance(topic, str) for topic in given):
        return ()
    # A set is sorted: its order changes from run to run, and equal metadata must stay equal.
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


def _topic_ids(given: object, topics: tuple[str, ...], where: str, problems: _Problems) -> dict[str, str]:
    if not isinstance(given, Mapping):
        problems.append(f"{where} must be a mapping of topics to their ids")
        return {}
    for topic, pin in given.items():
        problems += _name_problems(f"{where}.{topic}", check_topic_id, pin)
        if topic not in topics:
            problems.append(f"{where}: {topic!r} is not among the cluster's topics")
    return dict(given)


def _offsets(given: object, side: Side, topics: tuple[str, ...], where: str, problems: _Problems) -> OffsetSpec | None:
    if given is None:
        return None
    if isinstance(given, OffsetSpec):
        problems += _texts(where, spec_problems(given, side))
        return given
    try:
        return read_offsets(given, side, topics)
    except Findings as error:
        problems += _texts(where, error.problems)
        return None


def _name_problems(where: str, check: Callable[[str], object], value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where}: {value!r} must be a text"
        return
    try:
        check(value)
    except ValueError as error:
        yield f"{where}: {error}"


def _texts(where: str, problems: Iterable[Problem]) -> Iterator[str]:
    for problem in problems:
        yield f"{'.'.join((where, *map(str, problem.path)))}: {problem.text}"
