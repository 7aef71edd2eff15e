"""The metadata file of the demo: one stream on the clusters of the moment, replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from demo.settings import STREAM, TOPIC


def write_streams(path: Path, clusters: Iterable[str], servers: Mapping[str, str]) -> None:
    """Make `path` say that the stream lives on `clusters`. A reader sees the old file or the new one, never a part."""
    listed = [{"clusterId": name, "bootstrapServers": servers[name], "topics": [TOPIC]} for name in clusters]
    draft = path.with_suffix(".draft")
    with draft.open("w") as stream:
        yaml.safe_dump([{"streamId": STREAM, "clusterMetadataList": listed}], stream, sort_keys=False)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
