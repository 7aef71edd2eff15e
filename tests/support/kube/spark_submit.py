"""A substitute for `spark-submit`: it creates the driver's pod as Spark would, and logs how it was called.

The spark-operator runs this program as `$SPARK_HOME/bin/spark-submit`, with the cluster in `KUBECONFIG`. Like Spark,
the program does not watch the pod. It leaves out the objects that Spark adds beside the pod: a Service, and a ConfigMap
of its configuration.

The names are those of Spark's `KubernetesDriverConf`, `BasicDriverFeatureStep`, `MountSecretsFeatureStep` and
`PodTemplateConfigMapStep` (org.apache.spark.deploy.k8s).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube.api import Api, Json
from tests.support.kube.errors import KubeError
from tests.support.kube.kubeconfig import read_own

CONTAINER = "spark-kubernetes-driver"
SCHEDULER = "local-node"  # nobody else takes such a pod, not even the scheduler of a kind cluster
FOLDER = "SPARK_SUBMIT_FOLDER"
RECORDS = "submissions.jsonl"

_K8S = "spark.kubernetes."
_FLAGS = {"--load-spark-defaults"}  # without a value; of those that the spark-operator gives


def main() -> int:
    """Create the pod; write errors to stderr, where the spark-operator looks for them."""
    arguments = sys.argv[1:]
    folder = Path(os.environ[FOLDER])
    with (folder / RECORDS).open("a") as records:
        records.write(json.dumps(arguments) + "\n")
    kubeconfig = Path(os.environ["KUBECONFIG"])
    try:
        Api(read_own(kubeconfig, kubeconfig.parent)).create("v1/pods", driver_pod(arguments))
    except KubeError as error:
        # As Spark's client prints a refusal; the spark-operator looks for `code=409`.
        print(f"{error} (code={getattr(error, 'status', 0)})", file=sys.stderr)
        return 1
    return 0


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the configuration of these options, and the application with its own arguments."""
    conf: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        option = rest.pop(0)
        if option in _FLAGS:
            continue
        value = rest.pop(0)
        if option == "--conf":
            key, _, value = value.partition("=")
            conf[key] = value
        elif option == "--name":
            conf["spark.app.name"] = value
    return conf, rest


def driver_pod(arguments: Sequence[str]) -> Json:
    """Return the pod that Spark creates for these arguments, from the pod template if they name one."""
    conf, application = parse(arguments)
    template = conf.get(f"{_K8S}driver.podTemplateFile")
    pod: Json = yaml.safe_load(Path(template).read_text()) if template else {}
    metadata = pod.setdefault("metadata", {})
    spec = pod.setdefault("spec", {})
    application_id = f"spark-{uuid.uuid4().hex}"
    metadata["name"] = conf[f"{_K8S}driver.pod.name"]
    metadata["namespace"] = conf.get(f"{_K8S}namespace", "default")
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        **_prefixed(conf, f"{_K8S}driver.label."),
        "spark-app-name": conf["spark.app.name"][:63],
        "spark-app-selector": application_id,
        "spark-role": "driver",
        "spark-version": importlib.metadata.version("pyspark"),
    }
    annotations = _prefixed(conf, f"{_K8S}driver.annotation.")
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    spec["restartPolicy"] = "Never"
    spec.setdefault("schedulerName", conf.get(f"{_K8S}scheduler.name", SCHEDULER))
    spec["serviceAccountName"] = conf.get(f"{_K8S}authenticate.driver.serviceAccountName", "default")
    container = _container(spec, conf.get(f"{_K8S}driver.podTemplateContainerName"))
    container["image"] = conf.get(f"{_K8S}driver.container.image") or conf.get(f"{_K8S}container.image", "none")
    container["args"] = ["driver", *application]
    variables = {"SPARK_APPLICATION_ID": application_id, **_prefixed(conf, f"{_K8S}driverEnv.")}
    container.setdefault("env", []).extend({"name": name, "value": value} for name, value in variables.items())
    for secret, path in _prefixed(conf, f"{_K8S}driver.secrets.").items():
        spec.setdefault("volumes", []).append({"name": f"{secret}-volume", "secret": {"secretName": secret}})
        container.setdefault("volumeMounts", []).append({"name": f"{secret}-volume", "mountPath": path})
    return pod | {"apiVersion": "v1", "kind": "Pod"}


def _container(spec: Json, name: str | None) -> dict[str, Any]:
    """Return the driver's container: the one of that name in the template, else the first, else a new one."""
    containers: list[dict[str, Any]] = spec.setdefault("containers", [])
    if not containers:
        containers.append({})
    container = next((candidate for candidate in containers if candidate.get("name") == name), containers[0])
    container["name"] = container.get("name") or CONTAINER
    return container


def _prefixed(conf: dict[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


if __name__ == "__main__":
    sys.exit(main())
