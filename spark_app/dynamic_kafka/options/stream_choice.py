"""The options that choose the streams and the metadata service, which must agree with each other.

There are two ways. A metadata service describes the streams, and `streamIds`, `streamPattern` or `streamSubscriber`
chooses some. Or the options name one cluster in Spark's own form (`kafka.bootstrap.servers` with `subscribe`,
`subscribePattern` or `assign`), whose topics are the streams. Pure; only the parser uses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.index import OPTIONS
from dynamic_kafka.options.offsets import parse_assign
from dynamic_kafka.options.recognition import GivenOptions
from dynamic_kafka.options.values import CustomSubscriber, SingleCluster, StreamIds, StreamPattern, Subscribe
from dynamic_kafka.user_code import is_import_path

_STREAM_OPTIONS = ("streamIds", "streamPattern", "streamSubscriber")
_RECORD_CLASSES = ("recordEvaluator", "recordDeserializer", "timestampAssigner")
_SPARK_OPTIONS = ("subscribe", "subscribePattern", "assign")
_SERVERS = "kafka.bootstrap.servers"

# Possessive quantifiers: there is one way to read a class. With several ways, many classes would take exponential time.
_CLASS = r"\[\^?+\]?+(?:[^\\\]\[&]|\\.|&(?!&))*+"
_JAVA_CLASS = re.compile(rf"(?:[^\\\[]|\\.|{_CLASS}\])*{_CLASS}(?P<set>\[|&&)", re.DOTALL)
"""A class of characters with a set in it, such as `[a-z&&[^t]]`, which Python reads in another way than Java."""


@dataclass(frozen=True)
class ChosenStreams:
    """The fields of the same names in `SourceOptions`."""

    subscribe: Subscribe
    service: str
    single: SingleCluster | None


def parse_subscription(given: GivenOptions) -> ChosenStreams:
    """Return the chosen streams and the service that describes them.

    Raises:
        OptionError: no option or more than one chooses streams, that option does not fit the service, or the service
            lacks a setting or has one of another service.
    """
    choice = _only_choice(given)
    service = _service(given, choice)
    _refuse_misfits(given, choice, service)
    subscribe = _subscribe(given, choice)
    if service != "single-cluster":
        return ChosenStreams(subscribe, service, None)
    named = given.value(OPTIONS["clusterId"])
    single = SingleCluster(named) if named is not None else SingleCluster()
    if choice == "assign":
        assign = parse_assign(given.given_text(choice), where=given.where(choice))
        single = replace(single, assign=assign)
    elif isinstance(subscribe, StreamIds):
        single = replace(single, topics=subscribe.ids)
    elif isinstance(subscribe, StreamPattern):
        single = replace(single, pattern=subscribe.pattern)
    return ChosenStreams(subscribe, service, single)


def _only_choice(given: GivenOptions) -> str:
    names = [name for name in (*_STREAM_OPTIONS, *_SPARK_OPTIONS) if given.has(name)]
    if not names:
        raise OptionError(
            f"no streams are chosen; set one of {', '.join(_STREAM_OPTIONS)}, or for a single cluster {_SERVERS}"
            f" with one of {', '.join(_SPARK_OPTIONS)}"
        )
    if len(names) > 1:
        raise OptionError(f"options {', '.join(map(repr, names))} exclude each other; keep one of them")
    return names[0]


def _service(given: GivenOptions, choice: str) -> str:
    if not given.has("metadataService"):
        return "single-cluster" if choice in _SPARK_OPTIONS else "file"
    text = given.given_text("metadataService")
    if text.lower() in ("file", "static", "single-cluster"):
        return text.lower()
    return _class_name(given, "metadataService", "file, static, single-cluster or a class of yours as ")


def _class_name(given: GivenOptions, name: str, others: str = "") -> str:
    text = given.given_text(name)
    if not is_import_path(text):
        raise OptionError(f"{given.where(name)} is '{text}'; it must be {others}package.module:Class")
    return text


def _refuse_misfits(given: GivenOptions, choice: str, service: str) -> None:
    where = f"metadataService={service}"
    if service == "single-cluster":
        _check_single(given, choice)
    elif given.has("clusterId"):
        raise OptionError(
            f"{given.where('clusterId')} is for a single cluster; with {where} each cluster brings its own id: take it"
            " out, or set metadataService=single-cluster"
        )
    elif choice in _SPARK_OPTIONS:
        raise OptionError(f"{given.where(choice)} is for a single cluster, not for {where}; choose with 'streamIds'")
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
    own_class = ":" in service or choice == "streamSubscriber"
    for key in given.class_options:
        record = next((name for name in _RECORD_CLASSES if key.lower().startswith(f"{name.lower()}.")), None)
        if not (given.has(record) if record is not None else own_class):
            wanted = record or "metadataService or streamSubscriber"
            raise OptionError(
                f"option '{key}' is for a class of yours, and none is named; set {wanted} to module:Class"
            )


def _check_single(given: GivenOptions, choice: str) -> None:
    instead = (
        f"; with a metadata document choose by 'streamIds' instead of '{choice}'" if choice in _SPARK_OPTIONS else ""
    )
    for name in ("metadataPath", "metadataRevision", "metadataDocument"):
        if given.has(name):
            text = f"option '{name}' can't be combined with a single cluster, which has no document"
            raise OptionError(f"{text}{instead}")
    servers = given.kafka.get("bootstrap.servers") or given.kafka.get("metadata.broker.list") or ""
    if not servers.strip():
        raise OptionError(f"option '{_SERVERS}' must be set for a single cluster")


def _subscribe(given: GivenOptions, choice: str) -> Subscribe:
    text, where = given.given_text(choice), given.where(choice)
    if choice == "streamSubscriber":
        return CustomSubscriber(_class_name(given, choice))
    if choice in ("streamPattern", "subscribePattern"):
        return StreamPattern(_pattern(text, where))
    if choice == "assign":
        return StreamIds(tuple(sorted(parse_assign(text, where=where))))
    separator = ";" if choice == "streamIds" else ","
    names = tuple(dict.fromkeys(name.strip() for name in text.split(separator) if name.strip()))
    if not names:
        raise OptionError(f"{where} is '{text}', which names nothing; separate names with '{separator}'")
    if choice == "streamIds" and any("," in name for name in names):
        raise OptionError(f"{where} is '{text}'; separate ids with ';', not with ','")
    return StreamIds(names)


def _pattern(text: str, where: str) -> str:
    if nested := _JAVA_CLASS.match(text):
        raise OptionError(
            f"{where} is '{text}': {nested['set']!r} in {nested[0]!r} is a set of characters for Java, and plain"
            " characters for Python: write the class without it, or with a backslash before each of its characters"
        )
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"{where} is '{text}', not a regular expression of Python: {error}") from None
    return text
