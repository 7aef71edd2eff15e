"""A substitute for an image with the bundled application: its container as a process of this machine.

    LocalNode(kube, namespace, app_container.command)

A process has no file system of its own. So the paths of the pod's volumes are replaced by the folders of `LocalNode`,
in the arguments, in the container's variables, and in `app.yaml`. As in Spark's own image, Spark's settings are where
its scripts look for them; they name a small local session instead of executors.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dynamic_kafka.contract.kubernetes_names import POD_NAME_ENVIRONMENT, SERVICE_ACCOUNT_ENVIRONMENT
from tests.support.kube.api import Json
from tests.support.kube.local_node import POD_FOLDER
from tests.support.places import ROOT
from tests.support.spark import spark_environment, spark_settings

_OWN_ARGUMENTS = 2
"""Spark puts two before the application's own: the role, and the program in the image."""


def command(pod: Json) -> Sequence[str]:
    """Return the process for a driver's pod."""
    spec = pod["spec"]
    container = spec["containers"][0]
    folders = {volume["name"]: (volume.get("hostPath") or {}).get("path") for volume in spec.get("volumes", [])}
    what = {
        "pod": pod["metadata"]["name"],
        "arguments": container["args"][_OWN_ARGUMENTS:],
        "variables": [variable["name"] for variable in container.get("env", [])],
        # {mount path: folder}; None: below the pod's own folder, by the volume's name.
        "mounts": {bind["mountPath"]: [bind["name"], folders.get(bind["name"])] for bind in container["volumeMounts"]},
    }
    path = f"PYTHONPATH={ROOT}:{ROOT / 'spark_app'}"
    return ["/usr/bin/env", path, sys.executable, "-m", "tests.support.kube.app_container", json.dumps(what)]


def main() -> None:
    """Become the application."""
    what = json.loads(sys.argv[1])
    folder = Path(os.environ[POD_FOLDER])
    mounts = {path: given or f"{folder}/volumes/{name}" for path, (name, given) in what["mounts"].items()}
    environment = {
        **os.environ,
        **{name: placed(os.environ[name], mounts) for name in what["variables"] if name in os.environ},
        **spark_environment(),
        # Not a SPARK_CONF_DIR, which is a part of the class path, and Spark's class archive is of one without.
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {_spark_defaults(folder)} pyspark-shell",
        POD_NAME_ENVIRONMENT: what["pod"],
        SERVICE_ACCOUNT_ENVIRONMENT: str(folder / "serviceaccount"),
    }
    arguments = [_own_copy(placed(argument, mounts), mounts, folder) for argument in what["arguments"]]
    os.chdir(folder)
    os.execve(sys.executable, [sys.executable, "-m", "dynamic_kafka.app", *arguments], environment)


def placed(text: str, mounts: Mapping[str, str]) -> str:
    """`text` with the paths of mounts, as whole parts of a path, replaced by their folders."""
    longest_first = sorted(mounts, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<![\w./-])({pattern})(?![\w.-])", lambda found: mounts[found[1]], text) if mounts else text


def _own_copy(argument: str, mounts: Mapping[str, str], folder: Path) -> str:
    """Copy a YAML file, with the paths of this process in it, and return the copy."""
    if not argument.endswith(".yaml"):
        return argument
    copy = folder / Path(argument).name
    copy.write_text(placed(Path(argument).read_text(), mounts))
    return str(copy)


def _spark_defaults(folder: Path) -> Path:
    """Write a file with Spark's settings and return its path."""
    made = folder / "spark"
    made.mkdir()
    defaults = made / "spark-defaults.conf"
    defaults.write_text("".join(f"{key} {value}\n" for key, value in spark_settings(made).items()))
    return defaults


if __name__ == "__main__":
    main()
