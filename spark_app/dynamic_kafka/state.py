"""What a query keeps beside Spark's checkpoint: amendments, and what a person has accepted.

Driver and tools. `stateLocation` is a folder on any file system that pyarrow reaches (local paths; file, s3, gs, abfs
or hdfs URIs). Every file is written once, whole, under a name that tells its content, and never changed: a crash leaves
either the file or nothing.

    <stateLocation>/<query>/amendments/<number>-<start>-<end>-<mark>.json
    <stateLocation>/<query>/accepted/<number>-<what>.json
    <stateLocation>/audit/<time>-<tool>.json
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyarrow import fs

from dynamic_kafka.errors import OffsetDocumentError, OptionError
from dynamic_kafka.planning.amendments import Amendment


class StateLocation:
    """A folder of small write-once JSON files.

    Args:
        uri: a path or URI; made on the first write.

    Raises:
        OptionError: the URI names no file system that is reachable from here.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        try:
            if "://" in uri or uri.startswith("file:"):
                self._fs, self._root = fs.FileSystem.from_uri(uri)
            else:
                self._fs, self._root = fs.LocalFileSystem(), str(Path(uri).absolute())
        except (OSError, ValueError) as error:
            raise OptionError(f"stateLocation {uri!r} cannot be opened: {error}") from None

    def write(self, path: str, content: Mapping[str, Any]) -> None:
        """Write a file whole or not at all, and durably. Writing the same file again changes nothing for readers."""
        data = json.dumps(content, sort_keys=True, indent=1).encode()
        full = f"{self._root}/{path}"
        folder, _, name = full.rpartition("/")
        self._fs.create_dir(folder, recursive=True)
        if isinstance(self._fs, fs.LocalFileSystem):
            _write_local(Path(folder), name, data)
            return
        # An object store shows an object when its stream is closed; a file system needs the rename.
        draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
        renames = isinstance(self._fs, fs.HadoopFileSystem)
        with self._fs.open_output_stream(draft if renames else full) as stream:
            stream.write(data)
        if renames:
            self._fs.move(draft, full)

    def read_folder(self, path: str) -> list[dict[str, Any]]:
        """All JSON files of a folder, by name; none when the folder does not exist.

        Raises:
            OffsetDocumentError: a file does not parse.
        """
        selector = fs.FileSelector(f"{self._root}/{path}", allow_not_found=True)
        files = [found for found in self._fs.get_file_info(selector) if found.is_file]
        contents = []
        for found in sorted(files, key=lambda info: info.base_name):
            if found.base_name.startswith(".") or not found.base_name.endswith(".json"):
                continue
            with self._fs.open_input_stream(found.path) as stream:
                data = stream.read()
            try:
                contents.append(json.loads(data))
            except json.JSONDecodeError as error:
                raise OffsetDocumentError(f"{self.uri}/{path}/{found.base_name} is damaged: {error}") from None
        return contents

    def amendments(self, query: str) -> list[Amendment]:
        """All amendments of a query, by batch; those of one batch in no particular order."""
        return [Amendment.from_wire(wire) for wire in self.read_folder(f"{query}/amendments")]

    def save_amendment(self, amendment: Amendment) -> None:
        """Make an amendment durable. Only after this may its batch run."""
        content = amendment.to_wire()
        # One batch may need several, each for what had gone by then.
        mark = hashlib.sha256(json.dumps(content["leftOut"]).encode()).hexdigest()[:8]
        name = f"{amendment.number:012d}-{amendment.start}-{amendment.end}-{mark}.json"
        self.write(f"{amendment.query}/amendments/{name}", content)

    def accepted_identities(self, query: str) -> dict[str, str]:
        """{cluster id: Kafka `cluster.id`} that a person accepted, the newest where there are several."""
        return {
            wire["cluster"]: wire["kafkaId"]
            for wire in self.read_folder(f"{query}/accepted")
            if wire.get("kind") == "identity"
        }

    def accepted_losses(self, query: str) -> list[dict[str, Any]]:
        """Data losses that a person accepted: {cluster, topic, partition, from, to}."""
        return [wire for wire in self.read_folder(f"{query}/accepted") if wire.get("kind") == "data-loss"]


def _write_local(folder: Path, name: str, data: bytes) -> None:
    draft = folder / f".{name}.{uuid.uuid4().hex}"
    with draft.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(folder / name)
    # The rename itself has to survive a power cut as well.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
