"""Spark drivers that die at an exact step of a batch, for tests. The Java class beside this has the steps of files."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pyspark

from tests.support.java import find_java
from tests.support.places import BUILD

SOURCE = Path(__file__).with_name("KillingFiles.java")


@functools.cache
def compiled() -> Path:
    """Return the folder with the compiled class."""
    java, folder = find_java(), BUILD / "killing_files"
    assert java is not None
    jars = os.pathsep.join(map(str, (Path(pyspark.__file__).parent / "jars").glob("*.jar")))
    compiler = [str(java), "--module", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-nowarn", "-d", folder, "-cp", jars, SOURCE], check=True)
    return folder


def killing_settings(order: Path) -> dict[str, str]:
    """Return the settings of a Spark that dies when the file `order` names the step that it is at.

    The file has `before` or `after`, a blank, and the folder of a log: `offsets`, `commits` or `_spark_metadata`.
    """
    return {
        "spark.driver.extraClassPath": str(compiled()),
        "spark.sql.streaming.checkpointFileManagerClass": "KillingFiles",
        "spark.hadoop.test.kill.order": str(order),
    }
