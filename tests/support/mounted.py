"""A ConfigMap as the kubelet mounts it, without a kubelet."""

from __future__ import annotations

import shutil
from pathlib import Path


def mount(folder: Path, edition: str, text: str, name: str = "streams.yaml") -> None:
    """Put a document in place as the kubelet does: a new folder, then one rename of the link `..data`."""
    made = folder / f"..{edition}"
    made.mkdir(parents=True)
    (made / name).write_text(text)
    link = folder / "..data"
    before = link.resolve() if link.is_symlink() else None
    draft = folder / "..data_tmp"
    draft.symlink_to(made.name)
    draft.replace(link)
    if not (folder / name).is_symlink():
        (folder / name).symlink_to(f"..data/{name}")
    if before is not None:
        shutil.rmtree(before)
