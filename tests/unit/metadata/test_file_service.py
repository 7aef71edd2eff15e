from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from dynamic_kafka.errors import MetadataInvalidError, MetadataUnavailableError
from dynamic_kafka.metadata import FileMetadataService


def document(*streams: str) -> str:
    clusters = {"e": {"bootstrapServers": "e:1", "topics": ["t"]}}
    return json.dumps({"streams": {name: {"clusters": clusters} for name in streams}})


def ids(service: FileMetadataService) -> list[str]:
    return [stream.stream_id for stream in service.get_all_streams()]


def replace(path: Path, text: str) -> None:
    """Replace a file as editors and deployment tools do: write another, and rename it over the first."""
    other = path.with_name(path.name + ".new")
    other.write_text(text)
    other.rename(path)


class Mount:
    """A folder as the kubelet mounts a ConfigMap: dated folders, the link `..data` to the newest, links through it."""

    def __init__(self, root: Path, files: dict[str, bytes]) -> None:
        self.root = root
        self._edition = 0
        root.mkdir()
        self.swap(files)

    def swap(self, files: dict[str, bytes]) -> None:
        """Take the kubelet's steps in its order: it updates the links beside `..data` after the swap."""
        self._edition += 1
        dated = self.root / f"..2026_11_21_{self._edition}"
        dated.mkdir()
        for name, data in files.items():
            (dated / name).write_bytes(data)
        old = (self.root / "..data").resolve() if (self.root / "..data").exists() else None
        (self.root / "..data_tmp").symlink_to(dated.name)
        os.rename(self.root / "..data_tmp", self.root / "..data")
        self.after_the_swap()
        for name in files:
            if not (self.root / name).is_symlink():
                (self.root / name).symlink_to(f"..data/{name}")
        for link in self.root.iterdir():
            if link.is_symlink() and link.name != "..data" and link.name not in files:
                link.unlink()
        if old is not None:
            for file in old.iterdir():
                file.unlink()
            old.rmdir()

    def after_the_swap(self) -> None:
        """Run at the moment when only `..data` is new."""


@pytest.mark.parametrize("name", ["streams.yaml", "streams.yml", "streams.json", "streams.json.gz", "streams.yaml.gz"])
def test_a_folder_holds_the_document_under_any_of_its_names(tmp_path: Path, name: str) -> None:
    data = document("orders").encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert ids(FileMetadataService(tmp_path)) == ["orders"]


def test_the_document_may_be_any_single_file(tmp_path: Path) -> None:
    path = tmp_path / "whatever.txt"
    path.write_text("﻿" + document("orders"))
    assert ids(FileMetadataService(path)) == ["orders"]


def test_a_missing_stream_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "streams.json").write_text(document("orders"))
    assert list(FileMetadataService(tmp_path).describe_streams(["orders", "gone"])) == ["orders"]


def test_the_revision_is_that_of_the_last_look_up(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    service = FileMetadataService(tmp_path)
    revisions = [service.revision]

    for text in (document("orders"), document("payments")):
        replace(path, text)
        service.get_all_streams()
        revisions.append(service.revision)

    assert revisions[0] is None
    assert len(set(revisions)) == 3


def test_a_file_that_was_replaced_is_noticed_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    path.write_text(document("a"))
    service = FileMetadataService(path)
    assert ids(service) == ["a"]
    assert not service.changed()

    replace(path, document("b"))

    assert service.changed()
    assert ids(service) == ["b"]
    assert not service.changed()


def test_a_folder_swapped_as_the_kubelet_does_is_noticed_at_once(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "mount", {"streams.json": document("a").encode()})
    service = FileMetadataService(mount.root, settle_s=3600)  # nothing needs to settle here
    assert ids(service) == ["a"]
    assert not service.changed()

    mount.swap({"streams.json": document("b").encode()})

    assert service.changed()
    assert ids(service) == ["b"]


def test_a_swap_is_read_whole_before_its_links_are_updated(tmp_path: Path) -> None:
    """The document is compressed now: the link of its old name dangles, that of its new name is not there yet."""
    mount = Mount(tmp_path / "mount", {"streams.json": document("a").encode()})
    service = FileMetadataService(mount.root)
    assert ids(service) == ["a"]
    seen: list[list[str]] = []
    mount.after_the_swap = lambda: seen.append(ids(service))  # type: ignore[method-assign]

    mount.swap({"streams.json.gz": gzip.compress(document("b").encode())})

    assert seen == [["b"]]
    assert ids(service) == ["b"]


def test_a_swap_is_noticed_through_the_path_of_the_file_as_well(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "mount", {"streams.json": document("a").encode()})
    service = FileMetadataService(mount.root / "streams.json")
    assert ids(service) == ["a"]

    mount.swap({"streams.json": document("b").encode()})

    assert service.changed()
    assert ids(service) == ["b"]


def test_a_file_that_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "streams.yaml"
    path.write_text("- streamId: a\n  clusterMetadataList: []\n")
    service = FileMetadataService(path, settle_s=0.05)
    waits = 0

    class Writer(threading.Event):
        """An event whose first wait appends the second half of the file, as a slow writer would."""

        def wait(self, timeout: float | None = None) -> bool:
            nonlocal waits
            waits += 1
            if waits == 1:
                with path.open("a") as file:
                    file.write("- streamId: b\n  clusterMetadataList: []\n")
            return False

    service._closed = Writer()

    assert ids(service) == ["a", "b"], "the first half is a valid document by itself, and was never in force"
    assert waits == 2


def test_a_file_that_never_settles_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "streams.yaml"
    path.write_text("[]\n")
    service = FileMetadataService(path)

    class Writer(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            with path.open("a") as file:
                file.write("#\n")
            return False

    service._closed = Writer()
    with pytest.raises(MetadataInvalidError, match=r"being written all.* renaming"):
        service.get_all_streams()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "streams.json:1: the document is empty"),
        (b'{"streams": {"a"', "streams.json:2: not valid YAML"),
        (gzip.compress(document("a").encode(), mtime=0)[:-9], "streams.json:1: not a whole gzip file"),
        (b"- streamId: a\n- \xff", "streams.json:2: not UTF-8"),
    ],
)
def test_an_empty_or_half_written_file_is_invalid(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "streams.json").write_bytes(data)
    service = FileMetadataService(tmp_path, settle_s=0)

    with pytest.raises(MetadataInvalidError) as caught:
        service.get_all_streams()

    assert f"{tmp_path}/{reason}" in str(caught.value)
    assert not service.changed(), "the next probe does not report an invalid file as changed"


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "streams.json.gz").write_bytes(gzip.compress(b" " * 40_000_000))
    with pytest.raises(MetadataInvalidError, match="larger than 32 MiB unpacked"):
        FileMetadataService(tmp_path, settle_s=0).get_all_streams()


def test_a_missing_file_is_no_answer(tmp_path: Path) -> None:
    service = FileMetadataService(tmp_path / "gone.yaml", settle_s=0)
    with pytest.raises(MetadataUnavailableError, match=r"gone.yaml: cannot be read: No such file"):
        service.get_all_streams()
    assert not service.changed()


def test_an_empty_folder_is_no_answer_and_lists_file_names(tmp_path: Path) -> None:
    with pytest.raises(MetadataUnavailableError, match=r"holds none of streams.yaml, "):
        FileMetadataService(tmp_path, settle_s=0).get_all_streams()


def test_a_file_that_appears_again_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    service = FileMetadataService(path, settle_s=0)
    with pytest.raises(MetadataUnavailableError):
        service.get_all_streams()

    path.write_text(document("a"))

    assert service.changed()


def test_two_documents_in_one_folder_are_ambiguous(tmp_path: Path) -> None:
    (tmp_path / "streams.json").write_text(document("a"))
    (tmp_path / "streams.yaml").write_text(document("b"))
    with pytest.raises(MetadataInvalidError, match=r"holds streams\.yaml and streams\.json.*keep"):
        FileMetadataService(tmp_path).get_all_streams()


def test_an_invalid_document_leaves_the_revision_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    path.write_text(document("a"))
    service = FileMetadataService(path, settle_s=0)
    service.get_all_streams()
    before = service.revision

    replace(path, "broken")
    with pytest.raises(MetadataInvalidError):
        service.get_all_streams()

    assert service.revision == before
