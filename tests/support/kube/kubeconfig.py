"""Kubeconfig files of our own clusters, and the refusal of any other.

Tests write and delete what they find in a cluster. So nothing here looks for a configuration: not in
`KUBECONFIG`, not in `~/.kube/config`, not in a pod's environment. It is given the path of one that we wrote.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.support.kube.errors import KubeError


@dataclass(frozen=True)
class Kubeconfig:
    """One cluster and one user of it; a user with neither certificate nor token is anonymous.

    Attributes:
        server: `https://host:port`.
        authority: who signs the server's certificate (PEM).
        certificate: the user's certificate (PEM).
        key: its private key (PEM).
        token: a bearer token.
        context: what the context is called.
    """

    server: str
    authority: str
    certificate: str = ""
    key: str = ""
    token: str = ""
    context: str = "test"

    def write(self, path: Path) -> Path:
        """Write it to `path`, for its owner only."""
        user = {"token": self.token} if self.token else {}
        if self.certificate:
            user |= {"client-certificate-data": _encode(self.certificate), "client-key-data": _encode(self.key)}
        cluster = {"server": self.server, "certificate-authority-data": _encode(self.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.context, "cluster": cluster}],
            "users": [{"name": self.context, "user": user}],
            "contexts": [{"name": self.context, "context": {"cluster": self.context, "user": self.context}}],
            "current-context": self.context,
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path


def read_own(path: Path, folder: Path) -> Kubeconfig:
    """Read the current context of `path`; refuse a file outside `folder` and a server that is not on loopback.

    Raises:
        KubeError: the file or the server is refused.
    """
    if folder.resolve() not in path.resolve().parents:
        raise KubeError(f"{path} is not in {folder}: tests use only clusters that they started themselves.")
    content = yaml.safe_load(path.read_text())
    context = _named(content, "contexts", content["current-context"])["context"]
    cluster = _named(content, "clusters", context["cluster"])["cluster"]
    user = _named(content, "users", context["user"])["user"]
    address = urlsplit(cluster["server"])
    if (address.scheme, address.hostname) != ("https", "127.0.0.1") or address.port is None:
        raise KubeError(
            f"{path} leads to {cluster['server']}: tests use only clusters on https://127.0.0.1 that they started."
        )
    return Kubeconfig(
        server=cluster["server"],
        authority=_decode(cluster["certificate-authority-data"]),
        certificate=_decode(user.get("client-certificate-data", "")),
        key=_decode(user.get("client-key-data", "")),
        token=user.get("token", ""),
        context=content["current-context"],
    )


def _named(content: dict[str, Any], section: str, name: str) -> Any:
    return next(entry for entry in content[section] if entry["name"] == name)


def _encode(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


def _decode(data: str) -> str:
    return base64.b64decode(data).decode()
