"""The resolution of secrets where a client is made: references in the application's options, and secret folders.

Runs on driver and executors. A file is read again when its `stat` changes, so the next use sees a rotated Secret. The
contents stay in this process's memory. Errors name the reference, the property and the cluster. They never hold a
content, not even in the error that caused them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dynamic_kafka.errors import SecretError, SecretWithheldError
from dynamic_kafka.metadata.properties import LOCATION_KEYS, SECRET_FILE_KEYS, is_plain_name, secret_file_problem
from dynamic_kafka.metadata.server_list import check_server_list, foreign_servers
from dynamic_kafka.options.secrets import REFERENCE_FORMS, Reference, is_malformed, split_references
from dynamic_kafka.wording import first_few, nearest_names

ALLOWED_SERVERS = "allowedServers"
"""The file of a secret folder that lists the servers to which the folder's files may go."""

_MAX_BYTES = 1 << 20
"""The limit of Kubernetes for a Secret. It also keeps a wrong path from filling the memory."""

_ATTEMPTS = 3
"""Attempts to read a folder that a kubelet swaps at the same time. A kubelet swaps at most about once a minute."""

_Identity = tuple[int, int, int, int, int]
_cache: dict[str, tuple[_Identity, bytes]] = {}


def resolve(properties: Mapping[str, str], *, cluster: str) -> dict[str, str]:
    """Return the properties with every reference replaced by its secret. References in a secret stay as they are.

    Args:
        properties: properties of the application's own options; metadata may not use references.

    Raises:
        SecretError: a reference does not resolve; the message names it, the property and the cluster.
    """
    return {key: _resolved(key, value, cluster) for key, value in properties.items()}


def read_secret_folder(
    root: str, folder: str, *, cluster: str, servers: str, located: Collection[str] = ()
) -> dict[str, str]:
    """Return the properties in a cluster's mounted secret folder: one per file, named as the property.

    Hidden files (a kubelet's `..data`) are skipped. A file of another name is refused, unless a `*.location` property
    names it. Paths in the result are absolute.

    Args:
        root: the folder with the clusters' folders.
        servers: the servers that the client contacts first. The folder's file `allowedServers`, if there is one, must
            name them all.
        located: the bare names of files in this cluster's `*.location` properties from metadata.

    Raises:
        SecretWithheldError: the folder does not allow the servers.
        SecretError: the folder is missing, or a file in it is not allowed, leads out of it, or can't be read.
    """
    path = secret_folder_path(root, folder, cluster=cluster)
    for _ in range(_ATTEMPTS):
        edition = os.path.realpath(path / "..data")
        try:
            properties = _read_folder(path, cluster, servers, frozenset(located))
        except SecretError:
            # A file may vanish during a swap, so an error counts only if no swap happened.
            if edition == os.path.realpath(path / "..data"):
                raise
            continue
        # The user name of one edition with the password of the next could lock the account.
        if edition == os.path.realpath(path / "..data"):
            return properties
    raise SecretError(f"cluster '{cluster}': its secret folder '{folder}' keeps changing while it is read")


def secret_folder_path(root: str, folder: str, *, cluster: str) -> Path:
    """Return the path of a cluster's secret folder.

    Raises:
        SecretError: the name is not the plain name of a folder, or there is no such folder.
    """
    if not is_plain_name(folder):
        raise SecretError(f"cluster '{cluster}': secretFolder '{folder}' must be the plain name of a folder")
    path = Path(root) / folder
    if not path.is_dir():
        raise SecretError(
            f"cluster '{cluster}': its secret folder {path} is not there; mount it on driver and executors"
        )
    return path


def file_in_folder(path: Path, name: str, *, cluster: str) -> str:
    """Return the absolute path of a file in a secret folder.

    Links may lead anywhere inside the folder, as a kubelet's links do, and nowhere else.

    Raises:
        SecretError: the name is not the bare name of a file, the file is missing, or it leads out of the folder.
    """
    where = f"cluster '{cluster}': file '{name}' of secret folder '{path.name}'"
    if not is_plain_name(name):
        raise SecretError(f"{where}: must be the bare name of a file in that folder")
    inside, real = os.path.realpath(path), os.path.realpath(path / name)
    if os.path.commonpath([inside, real]) != inside or real == inside:
        raise SecretError(f"{where}: leads out of the folder; put the file itself there")
    if not os.path.isfile(real):
        raise SecretError(f"{where}: is not there, or not a file")
    # Return the path through the link instead of `real`: after a rotation it leads to the new content.
    return str(path.absolute() / name)


def file_identity(path: str) -> str:
    """Return a text that changes when a file is changed or replaced, without reading the file."""
    try:
        return repr(_identity(os.stat(path)))
    except OSError:
        return "absent"


def _read_folder(path: Path, cluster: str, servers: str, located: frozenset[str]) -> dict[str, str]:
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except OSError as error:
        problem = f"secret folder {path} can't be listed ({error.strerror})"
        raise SecretError(f"cluster '{cluster}': {problem}") from None
    if ALLOWED_SERVERS in names:
        names.remove(ALLOWED_SERVERS)
        _check_servers(path, cluster, servers)
    properties = {name: _read_property(path, name, cluster) for name in names if name in SECRET_FILE_KEYS}
    pointed_to = located | {value for name, value in properties.items() if name in LOCATION_KEYS}
    for name in names:
        if name not in SECRET_FILE_KEYS and name not in pointed_to:
            near = nearest_names(name, {*SECRET_FILE_KEYS, ALLOWED_SERVERS})
            todo = f"did you mean {near[0]}?" if near else "let ssl.ca.location or the like name a certificate"
            raise SecretError(
                f"cluster '{cluster}': file '{name}' of secret folder '{path.name}' is no allowed property; {todo}"
            )
    return {
        name: file_in_folder(path, value, cluster=cluster) if name in LOCATION_KEYS else value
        for name, value in properties.items()
    }


def _check_servers(path: Path, cluster: str, servers: str) -> None:
    where = f"cluster '{cluster}': file '{ALLOWED_SERVERS}' of secret folder '{path.name}'"
    text = _text(file_in_folder(path, ALLOWED_SERVERS, cluster=cluster), where)
    allowed = ",".join(text.replace(",", " ").split())
    try:
        check_server_list(allowed)
    except ValueError:
        problem = "is no list of servers; write host:port,host:port, or * alone"
        raise SecretError(f"{where}: {problem}") from None  # without the content, which may be a misplaced secret
    foreign = foreign_servers(servers, allowed)
    if foreign:
        raise SecretWithheldError(
            f"{where} does not name {first_few(foreign)} of metadata: add the server there only if it is yours"
        )


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
    # The decoder's error holds the bytes. An error raised in here would carry it as its context.
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
        # Check before opening: a pipe would block until a process writes to it.
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


# -- properties file ------------------------------------------------------------------------------------------


_KEY = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a properties file. The last value of a repeated key wins, as in Java.

    A line that ends in an odd number of backslashes continues in the next one. `#` and `!` begin comments. A key ends
    at the first `=`, `:` or blank without a backslash before it.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        if key is not None:
            properties[_unescape(key.group(1))] = _unescape(line[key.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined += line[:-1]
            continue
        yield joined + line
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)

    return _ESCAPE.sub(character, text)
