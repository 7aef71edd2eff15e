"""The manifests that users would have in Git, and `kubectl apply` of them.

The folder always has the manifests that were applied last; `--keep` keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from demo.settings import APPLICATION
from tests.support.kube import KubeCluster

MANIFESTS = Path(__file__).with_name("manifests")


class Git:
    """The folder of manifests, and the commands that apply them."""

    def __init__(self, folder: Path, cluster: KubeCluster, namespace: str, values: Mapping[str, str]) -> None:
        """Copy the manifests, with `values` for their placeholders. Applies nothing."""
        self.folder = folder
        self._cluster, self._namespace = cluster, namespace
        folder.mkdir()
        for manifest in MANIFESTS.iterdir():
            (folder / manifest.name).write_text(Template(manifest.read_text()).substitute(values))
        self._stream = yaml.safe_load((folder / "kafkastream.yaml").read_text())
        app = {"app.yaml": (folder / "app.yaml").read_text()}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{APPLICATION}-app"}, "data": app}
        self._write("app-configmap.yaml", config_map)

    def apply(self, name: str) -> float:
        """Apply one file; return the time at which kubectl was called. Raises KubeError with kubectl's message."""
        began = time.time()
        self._cluster.kubectl("apply", "-n", self._namespace, "-f", str(self.folder / name))
        return began

    def apply_stream(self, clusters: Collection[str]) -> float:
        """Apply the stream with these clusters; return the time at which kubectl was called."""
        listed = [cluster for cluster in self._stream["spec"]["clusters"] if cluster["id"] in clusters]
        self._write("kafkastream.yaml", {**self._stream, "spec": {**self._stream["spec"], "clusters": listed}})
        return self.apply("kafkastream.yaml")

    def _write(self, name: str, manifest: Mapping[str, Any]) -> None:
        (self.folder / name).write_text(yaml.safe_dump(manifest, sort_keys=False))
