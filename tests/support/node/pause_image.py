"""The image of a pod's sandbox, as an archive that `ctr images import` reads: one layer with one program."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from tests.support.go import executable
from tests.support.kube_programs import PAUSE
from tests.support.node.settings import SANDBOX_IMAGE

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names of images for the kernel's: the program is built for this machine."""


def write_pause_image(target: Path) -> Path:
    """Write the archive to `target` and return the path."""
    layer = _archive({"pause": (executable(PAUSE).read_bytes(), 0o755)})
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [SANDBOX_IMAGE], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config), "manifest.json": json.dumps(manifest)}
    content = {name: (text.encode(), 0o644) for name, text in files.items()} | {"layer.tar": (layer, 0o644)}
    target.write_bytes(_archive(content))
    return target


def _archive(files: dict[str, tuple[bytes, int]]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()
