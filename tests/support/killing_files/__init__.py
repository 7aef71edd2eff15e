"""Spark drivers that die at an exact step of a batch, for tests. The Java class beside this has the steps of files."""

from __future__ import annotations

import functools
import os
import subprocess
import zipfile
from pathlib import Path

import pyspark

from tests.support.java import find_java
from tests.support.places import BUILD

SOURCE = Path(__file__).with_name("KillingFiles.java")


@functools.cache
def compiled() -> Path:
    """Return a jar with the compiled class."""
    java, folder = find_java(), BUILD / "killing_files"
    assert java is not None
    jars = os.pathsep.join(map(str, (Path(pyspark.__file__).parent / "jars").glob("*.jar")))
    compiler = [str(java), "--module", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-nowarn", "-d", folder, "-cp", jars, SOURCE], check=True)
    with zipfile.ZipFile(folder / "killing-files.jar", "w") as jar:
        jar.write(folder / "KillingFiles.class", "KillingFiles.class")
    return folder / "killing-files.jar"


def killing_settings(orders: Path) -> dict[str, str]:
    """Return the settings of a Spark that dies when its queries are at the steps that the folder `orders` names.

    A file in it is named `lake before offsets 7`: a query or a sink's folder, `before` or `after`, one of its logs, and
    the batch. The class, `compiled`, has to be among the jars.
    """
    return {
        "spark.sql.streaming.checkpointFileManagerClass": "KillingFiles",
        "spark.hadoop.test.kill.orders": str(orders),
    }
