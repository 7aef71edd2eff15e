"""The folders that a kubelet mounts into a pod: ConfigMaps, Secrets, and the credentials of its service account.

A folder changes atomically, as with a kubelet: the files are links through `..data`, a link to the current folder.
As with a kubelet, a folder is refreshed soon after a change of the pod, such as an annotation, and else once a minute.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import time
from pathlib import Path

from tests.support.kube.api import Api, Json

_SYNC_SECONDS = 60.0
_TOKEN_SECONDS = 24 * 3600


class Volumes:
    """The volumes of one pod that are made from ConfigMaps and Secrets, below `folder/volumes`."""

    def __init__(self, api: Api, pod: Json, folder: Path) -> None:
        """Write nothing yet."""
        self._api = api
        self._namespace: str = pod["metadata"]["namespace"]
        self._spec = pod["spec"]
        self._folder = folder
        self._versions: dict[str, str] = {}
        self._seen = _what_counts(pod)
        self._synced = time.monotonic()

    def mount(self) -> bool:
        """Write them all. False while one is missing that is not optional: the pod has to wait."""
        if not all(self._write(volume) for volume in self._spec.get("volumes", [])):
            return False
        self._write_service_account()
        return True

    def refresh(self, pod: Json) -> None:
        """Write the changed folders if a refresh is due; the content of a deleted object stays, as with a kubelet."""
        due = time.monotonic() > self._synced + _SYNC_SECONDS
        if due or _what_counts(pod) != self._seen:
            self._seen, self._synced = _what_counts(pod), time.monotonic()
            for volume in self._spec.get("volumes", []):
                self._write(volume)

    def _write(self, volume: Json) -> bool:
        source = volume.get("configMap") or volume.get("secret")
        if source is None:
            return True
        resource, name = (
            ("v1/configmaps", source["name"]) if "configMap" in volume else ("v1/secrets", source["secretName"])
        )
        stored = self._api.find(resource, name, self._namespace)
        target = self._folder / "volumes" / volume["name"]
        if stored is None:
            if source.get("optional") and not target.exists():
                _replace(target, {})
            return bool(source.get("optional"))
        version = stored["metadata"]["resourceVersion"]
        if self._versions.get(volume["name"]) != version:
            _replace(target, _chosen(_content(stored), source.get("items")))
            self._versions[volume["name"]] = version
        return True

    def _write_service_account(self) -> None:
        account = self._spec.get("serviceAccountName", "default")
        address = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        answer = self._api.request("POST", address, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
        files = {
            "token": answer["status"]["token"],
            "ca.crt": self._api.config.authority,
            "namespace": self._namespace,
        }
        _replace(self._folder / "serviceaccount", {name: text.encode() for name, text in files.items()})


def _what_counts(pod: Json) -> Json:
    return {key: pod["metadata"].get(key) for key in ("annotations", "labels")}


def _content(stored: Json) -> dict[str, bytes]:
    if stored.get("kind") == "Secret" or "type" in stored:
        return {key: base64.b64decode(value) for key, value in (stored.get("data") or {}).items()}
    binary = {key: base64.b64decode(value) for key, value in (stored.get("binaryData") or {}).items()}
    return {key: value.encode() for key, value in (stored.get("data") or {}).items()} | binary


def _chosen(files: dict[str, bytes], items: list[dict[str, str]] | None) -> dict[str, bytes]:
    return files if items is None else {item["path"]: files[item["key"]] for item in items}


def _replace(target: Path, files: dict[str, bytes]) -> None:
    """Make `files` the content of the folder `target` at one stroke."""
    target.mkdir(parents=True, exist_ok=True)
    current, before = target / "..data", None
    if current.is_symlink():
        before = target / current.readlink()
    moment = Path(tempfile.mkdtemp(prefix="..", dir=target))
    for name, content in files.items():
        (moment / name).write_bytes(content)
    arriving = target / "..data_tmp"
    arriving.symlink_to(moment.name)
    os.replace(arriving, current)
    for name in files:
        if not (target / name).is_symlink():
            (target / name).symlink_to(Path("..data") / name)
    for link in target.iterdir():
        if not link.name.startswith("..") and link.name not in files:
            link.unlink()
    if before is not None:
        shutil.rmtree(before)
