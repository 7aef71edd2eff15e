"""Secrets, looked up where a client is made: references of the application's options, and clusters' secret
folders.

Runs on driver and executors. Files are read again whenever they changed (a `stat` tells), so that a rotated
Secret is there at the next use. What was read stays in this process's memory. Errors name the reference, the
property and the cluster; they never hold a content, not even through the error that caused them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from dynamic_kafka.errors import SecretError
from dynamic_kafka.kafka.properties_file import parse_properties
from dynamic_kafka.metadata.properties import (
    LOCATION_KEYS,
    SECRET_FILE_KEYS,
    is_plain_name,
    secret_file_problem,
)
from dynamic_kafka.options.secrets import REFERENCE_FORMS, Reference, is_malformed, split_references
from dynamic_kafka.wording import nearest_names

_MAX_BYTES = 1 << 20
"""Kubernetes' own limit for a Secret; also keeps a mistaken path from filling the memory."""

_READ_AGAIN = 3
"""How often a folder is read again that a kubelet swaps meanwhile; it does so about once a minute at most."""

_Identity = tuple[int, int, int, int, int]
_cache: dict[str, tuple[_Identity, bytes]] = {}


def resolve(properties: Mapping[str, str], *, cluster: str) -> dict[str, str]:
    """The properties with every reference replaced by what it stands for; what stands there is not looked at
    again.

    Args:
        properties: of the application's own options; metadata may not use references.
        cluster: the cluster whose client is being made, for messages.

    Raises:
        SecretError: a reference does not resolve; names it, the property and the cluster.
    """
    return {key: _resolved(key, value, cluster) for key, value in properties.items()}


def read_secret_folder(root: str, folder: str, *, cluster: str, located: Iterable[str] = ()) -> dict[str, str]:
    """The properties that a cluster's mounted secret folder holds, one per file, named as the property.

    Hidden files (a kubelet's `..data`) are passed over. Other names are refused, unless a `*.location`
    property names
    them: then they are what it points to. Paths come back absolute.

    Args:
        root: the folder that holds the clusters' folders.
        folder: the name of this cluster's folder.
        located: values of `*.location` properties that metadata gives for this cluster: bare names of files.

    Raises:
        SecretError: no such folder, a file that is not allowed there, leads out of it, or can't be read.
    """
    path = secret_folder_path(root, folder, cluster=cluster)
    for _ in range(_READ_AGAIN):
        edition = os.path.realpath(path / "..data")
        try:
            found = _read_folder(path, cluster, frozenset(located))
        except SecretError:
            # A file may vanish under a swap; only an edition that stands still is believed.
            if edition == os.path.realpath(path / "..data"):
                raise
            continue
        # A user name of one edition with the password of the next would lock the account.
        if edition == os.path.realpath(path / "..data"):
            return found
    raise SecretError(f"cluster '{cluster}': its secret folder '{folder}' keeps changing while it is read")


def secret_folder_path(root: str, folder: str, *, cluster: str) -> Path:
    """Where a cluster's secret folder is.

    Raises:
        SecretError: the name is not the plain name of a folder, or there is none.
    """
    if not is_plain_name(folder):
        raise SecretError(f"cluster '{cluster}': secretFolder '{folder}' must be the plain name of a folder")
    path = Path(root) / folder
    if not path.is_dir():
        raise SecretError(
            f"cluster '{cluster}': its secret folder {path} is not there; mount the Secret at this path,"
            " on the driver"
            " and the executors"
        )
    return path


def file_in_folder(path: Path, name: str, *, cluster: str) -> str:
    """The absolute path of a file in a secret folder.

    Links may lead anywhere inside the folder, as a kubelet's do, and nowhere else.

    Raises:
        SecretError: not the bare name of a file, no such file, or one that leads out of the folder.
    """
    where = f"cluster '{cluster}': file '{name}' of secret folder '{path.name}'"
    if not is_plain_name(name):
        raise SecretError(f"{where}: must be the bare name of a file in that folder")
    inside, real = os.path.realpath(path), os.path.realpath(path / name)
    if os.path.commonpath([inside, real]) != inside or real == inside:
        raise SecretError(f"{where}: leads out of the folder; put the file itself there")
    if not os.path.isfile(real):
        raise SecretError(f"{where}: is not there, or not a file")
    # The path through the link, not `real`: after a rotation the same path has the new content.
    return str(path.absolute() / name)


def file_identity(path: str) -> str:
    """Something that is another after a file was changed or replaced; without reading it."""
    try:
        return repr(_identity(os.stat(path)))
    except OSError:
        return "absent"


def _read_folder(path: Path, cluster: str, located: frozenset[str]) -> dict[str, str]:
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except OSError as error:
        problem = f"secret folder {path} can't be listed ({error.strerror})"
        raise SecretError(f"cluster '{cluster}': {problem}") from None
    found = {name: _read_property(path, name, cluster) for name in names if name in SECRET_FILE_KEYS}
    pointed_to = located | {value for name, value in found.items() if name in LOCATION_KEYS}
    for name in names:
        if name not in SECRET_FILE_KEYS and name not in pointed_to:
            near = nearest_names(name, SECRET_FILE_KEYS)
            raise SecretError(
                f"cluster '{cluster}': file '{name}' of secret folder '{path.name}' is no property that is"
                " allowed"
                f" there{f'; did you mean {near[0]}?' if near else ''} (a certificate in a file of another"
                " name needs"
                " a property like ssl.ca.location that names the file)"
            )
    return {
        name: file_in_folder(path, value, cluster=cluster) if name in LOCATION_KEYS else value
        for name, value in found.items()
    }


def _read_property(path: Path, name: str, cluster: str) -> str:
    where = f"cluster '{cluster}': file '{name}' of secret folder '{path.name}'"
    value = _without_line_break(_text(file_in_folder(path, name, cluster=cluster), where))
    problem = secret_file_problem(name, value)
    if problem is not None:
        raise SecretError(f"{where}: {problem}")
    return value


def _resolved(key: str, value: str, cluster: str) -> str:
    if is_malformed(value):
        raise SecretError(
            f"cluster '{cluster}': property '{key}' has a ${{…}} that is not a reference; write {REFERENCE_FORMS}"
        )
    where = f"cluster '{cluster}': property '{key}'"
    return "".join(
        piece if isinstance(piece, str) else _look_up(piece, f"{where}: {piece.text}")
        for piece in split_references(value)
    )


def _look_up(reference: Reference, where: str) -> str:
    if reference.path is None:
        variable = os.environ.get(reference.key)
        if variable is None:
            raise SecretError(f"{where}: this process has no such variable; set it on the driver and the executors")
        return variable
    if reference.provider == "dir":
        if not is_plain_name(reference.key):
            raise SecretError(f"{where}: the key must be the bare name of a file in that folder")
        return _without_line_break(_text(os.path.join(reference.path, reference.key), where))
    value = parse_properties(_text(reference.path, where)).get(reference.key)
    if value is None:
        raise SecretError(f"{where}: the file has no such key")
    return value


def _text(path: str, where: str) -> str:
    text = _decoded(_content(path, where))
    if text is None:
        raise SecretError(f"{where}: is not UTF-8 text")
    return text


def _decoded(content: bytes) -> str | None:
    # The decoder's error holds the bytes, and would hang on ours as its context if that were raised in here.
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _content(path: str, where: str) -> bytes:
    try:
        known = _cache.get(path)
        if known is not None and known[0] == _identity(os.stat(path)):
            return known[1]
        status = os.stat(path)
        # Looked at first: a pipe would block until somebody writes to it.
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            raise SecretError(f"{where}: is not a file of at most 1 MiB")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(_MAX_BYTES)
    except OSError as error:
        raise SecretError(
            f"{where}: can't be read ({error.strerror}); mount it on the driver and the executors"
        ) from None
    _cache[path] = (_identity(status), content)
    return content


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _without_line_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
