"""The image of a pod's sandbox names the architecture of its program."""

from __future__ import annotations

import json
import platform
import tarfile
from pathlib import Path

import pytest

from tests.support.node import pause_image


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_the_architecture_is_the_machine_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, architecture: str
) -> None:
    (tmp_path / "pause").write_bytes(b"program")
    monkeypatch.setattr(pause_image, "executable", lambda _: tmp_path / "pause")
    monkeypatch.setattr(platform, "machine", lambda: machine)

    with tarfile.open(pause_image.write_pause_image(tmp_path / "pause.tar")) as archive:
        config = archive.extractfile("config.json")
        assert config is not None
        assert json.load(config)["architecture"] == architecture
