"""The files of `examples/kubernetes` on a real API server, which refuses unknown fields."""

from __future__ import annotations

import pytest
import yaml

from tests.support.kube import KubeCluster
from tests.support.kube_programs import spark_operator_crds
from tests.support.places import ROOT

PLURALS = {
    "SparkApplication": "sparkapplications",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Job": "jobs",
}
EXAMPLES = ROOT / "examples" / "kubernetes"


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_the_api_server_takes_every_field_of_an_example(file: str, kube: KubeCluster, namespace: str) -> None:
    kube.install_crds(spark_operator_crds())
    kube.install_crds(ROOT / "tests" / "support" / "kube" / "apache")
    text = (EXAMPLES / file).read_text(encoding="utf-8").replace("namespace: spark-jobs", f"namespace: {namespace}")
    for example in yaml.safe_load_all(text):
        path = f"/apis/{example['apiVersion']}/namespaces/{namespace}/{PLURALS[example['kind']]}"
        strictly = {"fieldValidation": "Strict", "dryRun": "All"}
        made = kube.api.request("POST", path, example, query=strictly)
        assert made["metadata"]["name"] == example["metadata"]["name"]
