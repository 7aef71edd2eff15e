"""Files that the spark-operator writes outside its folder are removed with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.kube import SparkOperator
from tests.support.kube.spark_submit import RECORDS


def test_only_the_pod_templates_of_its_runs_are_removed(tmp_path: Path) -> None:
    nobody: Any = None
    operator = SparkOperator(nobody, "shop")
    own, other = tmp_path / "own" / "driver-pod-template.yaml", tmp_path / "other" / "driver-pod-template.yaml"
    for template in (own, other):
        template.parent.mkdir()
        template.write_text("kind: Pod")
    call = ["--name", "orders", "--conf", f"spark.kubernetes.driver.podTemplateFile={own}"]
    (operator.folder / RECORDS).write_text(json.dumps(call) + "\n")

    operator.close()

    assert (own.parent.exists(), other.exists(), operator.folder.exists()) == (False, True, False)
