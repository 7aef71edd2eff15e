"""The archives of images: each is made once, and older ones and their bases are removed. No image is built here."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support import images
from tests.support.images import bases, engine
from tests.support.images.archives import archived


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names in a store of images, newest first."""
    names: list[str] = []

    def buildah(command: str, name: str, *target: str) -> str:
        if command == "rmi":
            names.remove(name)
        else:
            Path(target[0].split(":")[1]).write_text("archive")
        return ""

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine, "require", lambda: None)
    monkeypatch.setattr(engine, "store", nullcontext)
    monkeypatch.setattr(engine, "config", lambda _: {})
    monkeypatch.setattr(engine, "buildah", buildah)
    monkeypatch.setattr(
        engine, "names", lambda repository: [image for image in names if image.startswith(f"{repository}:")]
    )
    return names


def made(store: list[str], reference: str) -> Path:
    folder = archived("some", reference, lambda: store.insert(0, reference))
    os.utime(folder, (ord(reference[-1]),) * 2)  # times of a file system may be coarse
    return folder


def test_an_archive_is_made_once(store: list[str]) -> None:
    assert made(store, "localhost/some:1.0-a") == made(store, "localhost/some:1.0-a")
    assert store == ["localhost/some:1.0-a"]


@pytest.mark.parametrize("version", ["1.0-", ""])
def test_three_archives_and_their_images_are_kept(store: list[str], version: str) -> None:
    store += ["localhost/another:1.0-a"]
    folders = [made(store, f"localhost/some:{version}{key}") for key in "abcde"]

    assert [folder.is_dir() for folder in folders] == [False, False, True, True, True]
    assert store == [*(f"localhost/some:{version}{key}" for key in "edc"), "localhost/another:1.0-a"]


def test_old_bases_are_removed_but_for_those_in_use(store: list[str]) -> None:
    in_use = f"localhost/stand-in-python:{bases.key(with_spark=False)}"
    store += [f"localhost/stand-in-python:{key}" for key in "dcba"] + [in_use]

    made(store, "localhost/some:1.0-a")

    assert store == ["localhost/some:1.0-a", *(f"localhost/stand-in-python:{key}" for key in "dcb"), in_use]


def test_another_revision_has_names_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def archived_as(name: str, reference: str, _build: object) -> Path:
        asked.append((name, reference))
        return tmp_path

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(images, "archived", archived_as)
    for revision in ("", "another", ""):
        images.built("operator", revision=revision)

    first, other, again = asked
    assert first == again
    # Old archives and images are looked for by these beginnings.
    assert not f"image-{other[0]}-".startswith(f"image-{first[0]}-")
    assert first[1].rpartition(":")[0] != other[1].rpartition(":")[0]
    assert first[1].rpartition("-")[2] != other[1].rpartition("-")[2]
