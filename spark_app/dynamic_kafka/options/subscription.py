"""Which streams are read, and who describes them: the options that must agree with each other. Pure.

Two ways in: streams of a metadata service (`streamIds`, `streamPattern`, `streamSubscriber`), or Spark's own
form for one cluster (`kafka.bootstrap.servers` with `subscribe`, `subscribePattern` or `assign`), whose
topics are the streams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.revision import AwaitedRevision
from dynamic_kafka.options.model import CustomSubscriber, SingleCluster, StreamIds, StreamPattern, Subscribe
from dynamic_kafka.options.offsets import parse_assign
from dynamic_kafka.options.recognition import Given
from dynamic_kafka.user_code import is_import_path

_STREAM_WAYS = ("streamIds", "streamPattern", "streamSubscriber")
_SPARK_WAYS = ("subscribe", "subscribePattern", "assign")
_SERVERS = "kafka.bootstrap.servers"


@dataclass(frozen=True)
class Chosen:
    """Fields of the same names in `SourceOptions`."""

    subscribe: Subscribe
    service: str
    single: SingleCluster | None


def parse_subscription(given: Given) -> Chosen:
    """Which streams are read, and from which service.

    Raises:
        OptionError: no way or more than one to choose streams, a way that does not fit the service, or a
            service that lacks what it needs or has what belongs to another.
    """
    way = _only_way(given)
    service = _service(given, way)
    _refuse_misfits(given, way, service)
    subscribe = _subscribe(given, way)
    if service != "single-cluster":
        return Chosen(subscribe, service, None)
    if way == "assign":
        assign = parse_assign(given.required_text(way), where=given.where(way))
        return Chosen(subscribe, service, SingleCluster(assign=assign))
    if isinstance(subscribe, StreamIds):
        return Chosen(subscribe, service, SingleCluster(topics=subscribe.ids))
    if isinstance(subscribe, StreamPattern):
        return Chosen(subscribe, service, SingleCluster(pattern=subscribe.pattern))
    return Chosen(subscribe, service, SingleCluster())


def _only_way(given: Given) -> str:
    ways = [name for name in (*_STREAM_WAYS, *_SPARK_WAYS) if given.has(name)]
    if not ways:
        raise OptionError(
            f"no streams are chosen; set one of {', '.join(_STREAM_WAYS)}, or for a single cluster {_SERVERS}"
            f" with one of {', '.join(_SPARK_WAYS)}"
        )
    if len(ways) > 1:
        raise OptionError(f"options {', '.join(map(repr, ways))} exclude each other; keep one of them")
    return ways[0]


def _service(given: Given, way: str) -> str:
    if not given.has("metadataService"):
        return "single-cluster" if way in _SPARK_WAYS else "file"
    text = given.required_text("metadataService")
    if text.lower() in ("file", "static", "single-cluster"):
        return text.lower()
    return _class_name(given, "metadataService", "file, static, single-cluster or a class of yours as ")


def _class_name(given: Given, name: str, others: str = "") -> str:
    text = given.required_text(name)
    if not is_import_path(text):
        raise OptionError(f"{given.where(name)} is '{text}'; it must be {others}package.module:Class")
    return text


def _refuse_misfits(given: Given, way: str, service: str) -> None:
    where = f"metadataService={service}"
    if service == "single-cluster":
        _check_single(given, way)
    elif way in _SPARK_WAYS:
        raise OptionError(f"{given.where(way)} is for a single cluster, not for {where}; choose with 'streamIds'")
    elif "bootstrap.servers" in given.kafka or "metadata.broker.list" in given.kafka:
        raise OptionError(
            f"option '{_SERVERS}' is for a single cluster; with {where} each cluster brings its own servers."
            " Take it out, or set metadataService=single-cluster"
        )
    if service == "file" and not given.has("metadataPath"):
        raise OptionError("metadataService=file needs 'metadataPath', the document or the folder that holds it")
    if service == "static" and not given.has("metadataDocument"):
        raise OptionError("metadataService=static needs 'metadataDocument', the document itself")
    if service == "static" and given.has("metadataPath"):
        raise OptionError("option 'metadataPath' is for metadataService=file; with static set 'metadataDocument'")
    if service != "static" and given.has("metadataDocument"):
        raise OptionError(f"option 'metadataDocument' is for metadataService=static, not for {where}")
    own_class = ":" in service or way == "streamSubscriber"
    if given.class_options and not own_class:
        raise OptionError(
            f"option '{given.class_options[0]}' is for a class of yours, and none is named; set"
            " metadataService or"
            " streamSubscriber to module:Class"
        )


def _check_single(given: Given, way: str) -> None:
    for name in ("metadataPath", "metadataRevision", "metadataDocument"):
        if given.has(name):
            instead = (
                f"; with a metadata document choose by 'streamIds' instead of '{way}'" if way in _SPARK_WAYS else ""
            )
            raise OptionError(
                f"option '{name}' can't be combined with a single cluster, which has no document{instead}"
            )
    servers = given.kafka.get("bootstrap.servers") or given.kafka.get("metadata.broker.list") or ""
    if not servers.strip():
        raise OptionError(f"option '{_SERVERS}' must be set for a single cluster")


def _subscribe(given: Given, way: str) -> Subscribe:
    text, where = given.required_text(way), given.where(way)
    if way == "streamSubscriber":
        return CustomSubscriber(_class_name(given, way))
    if way in ("streamPattern", "subscribePattern"):
        return StreamPattern(_pattern(text, where))
    if way == "assign":
        return StreamIds(tuple(sorted(parse_assign(text, where=where))))
    separator = ";" if way == "streamIds" else ","
    names = tuple(dict.fromkeys(name.strip() for name in text.split(separator) if name.strip()))
    if not names:
        raise OptionError(f"{where} is '{text}', which names nothing; separate names with '{separator}'")
    if way == "streamIds" and any("," in name for name in names):
        raise OptionError(f"{where} is '{text}'; separate ids with ';', not with ','")
    return StreamIds(names)


def _pattern(text: str, where: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"{where} is '{text}', not a regular expression of Python's: {error}") from None
    return text


def parse_revision(given: Given) -> str | None:
    """`metadataRevision`: a counter, `lineage/counter` or `sha256:…`.

    Raises:
        OptionError: none of these.
    """
    text = given.text("metadataRevision")
    try:
        if text is not None:
            AwaitedRevision.parse(text)
    except OptionError:
        raise OptionError(
            f"{given.where('metadataRevision')} is '{text}'; it must be a counter (17), a lineage and its counter"
            " (lineage/17), or a hash (sha256: and 64 hexadecimal digits)"
        ) from None
    return text
