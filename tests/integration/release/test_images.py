"""The images: both are built from the Dockerfile, and hold what a pod needs and no more."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.images import TARGETS, Image, ImagesUnavailableError, Target, built, engine, version
from tests.support.operator import rendered
from tests.support.places import ROOT

# The first build on a machine fetches Debian and packages.
pytestmark = [pytest.mark.timeout(900), pytest.mark.deep("images, which root builds")]

BASE = "org.opencontainers.image.base.name"
LOCKS = {"operator": "operator.lock", "spark-app": "spark-image.lock"}
USERS = {"operator": 65532, "spark-app": 185}
PYTHON = "/opt/venv/bin/python"


def image_of(target: Target) -> Image:
    try:
        return built(target)
    except ImagesUnavailableError as error:
        pytest.skip(f"no images on this machine: {error}")


@pytest.fixture(scope="module", params=TARGETS)
def image(request: pytest.FixtureRequest) -> Image:
    return image_of(request.param)


@pytest.fixture(scope="module")
def operator() -> Image:
    return image_of("operator")


@pytest.fixture(scope="module")
def spark_app() -> Image:
    return image_of("spark-app")


def output(image: Image, *command: str) -> str:
    done = image.run(command)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.strip()


def test_the_user_is_a_number_and_not_root(image: Image) -> None:
    """By number: `runAsNonRoot` accepts no name."""
    number = USERS[image.target]
    assert image.config["User"] == f"{number}:{number}"
    assert output(image, "id", "-u") == str(number)


def test_the_root_is_read_only_in_these_tests(image: Image) -> None:
    done = image.run(["touch", "/opt/venv/new"], writable=[])
    assert (done.returncode, "Read-only file system" in done.stderr) == (1, True)


def test_the_labels_name_the_version(image: Image) -> None:
    labels = {name.rpartition(".")[2]: text for name, text in image.config["Labels"].items()}
    code = "import importlib.metadata as m; print(m.version('dynamic-kafka'))"
    assert labels["version"] == version() == output(image, PYTHON, "-c", code)
    assert labels["licenses"] == "Apache-2.0"
    assert labels["title"] in image.reference
    assert image.config["Labels"][BASE].startswith("localhost/stand-in-")


def test_no_compiler_and_no_build_tool_is_inside(image: Image) -> None:
    tools = "for tool in gcc cc g++ c++ cpp clang ld as make; do command -v $tool; done; true"
    assert output(image, "sh", "-c", tools) == ""


def test_it_holds_exactly_the_packages_of_its_lock(image: Image) -> None:
    """So it has no dependency of the tests; and the versions are those of the lock, by their hashes."""
    code = (
        "import importlib.metadata as m\n"
        "for package in m.distributions(path=[p for p in __import__('sys').path if p.startswith('/opt/venv')]):\n"
        "    print(package.name.lower().replace('_', '-').replace('.', '-') + '==' + package.version)"
    )
    lock = (ROOT / "requirements" / LOCKS[image.target]).read_text()
    pinned = set(re.findall(r"^[a-z0-9-]+==[^ ]+(?= \\$)", lock, re.MULTILINE))
    assert set(output(image, PYTHON, "-c", code).splitlines()) == {*pinned, f"dynamic-kafka=={version()}"}


def test_the_packages_fit_each_other(image: Image) -> None:
    """`pip` is the base's own; the environment of the image has none."""
    assert (
        output(image, "/usr/bin/python3", "-m", "pip", "--python", PYTHON, "check") == "No broken requirements found."
    )
    assert image.run([PYTHON, "-m", "pip", "--version"]).returncode != 0


def test_nothing_of_the_building_machine_is_left(image: Image) -> None:
    assert (
        output(image, "sh", "-c", "ls -d /build /staged /etc/pip* /root/.cache /root/.config 2>/dev/null; true") == ""
    )


def test_the_operator_starts_as_the_chart_says(operator: Image) -> None:
    deployment = next(manifest for manifest in rendered("release", "system") if manifest["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"]]

    done = operator.run([*container["command"], *container["args"]], writable=writable)

    assert container["command"] == operator.config["Entrypoint"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsUser"] == USERS["operator"]
    # It took every flag, imported everything, and stopped where it needs a cluster.
    assert (done.returncode, done.stderr.splitlines()[-1].count("not in a pod")) == (2, 1)


def test_the_command_line_starts_in_the_spark_image(spark_app: Image) -> None:
    assert output(spark_app, "dynamic-kafka", "--help").startswith("usage: dynamic-kafka")
    assert output(spark_app, "python", "-m", "dynamic_kafka.app", "--help").startswith("usage: python -m")


def test_a_driver_starts_from_the_documented_file(spark_app: Image) -> None:
    """As Spark on Kubernetes starts a driver: by the image's entrypoint, with the file of a SparkApplication."""
    page = (ROOT / "docs" / "start" / "operator.md").read_text()
    [file] = set(re.findall(r"mainApplicationFile: (local://\S+)", page))
    command = [*spark_app.config["Entrypoint"], "driver", file, "--help"]
    assert output(spark_app, "env", "SPARK_DRIVER_BIND_ADDRESS=127.0.0.1", *command).startswith("usage: python -m")


def test_the_page_lines_add_the_package_to_an_image(spark_app: Image, tmp_path: Path) -> None:
    """To one with Spark, that is: the stand-in, whose user may not install packages."""
    page = (ROOT / "docs" / "how-to" / "images.md").read_text()
    first, *lines = re.findall(r"```dockerfile\n(.*?)```", page, re.DOTALL)[0].splitlines()
    own = "\n".join(
        [first.replace("your-spark-image", spark_app.config["Labels"][BASE]), "USER root", *lines, "USER 185:185"]
    )
    (tmp_path / "Dockerfile").write_text(own)
    subprocess.run([ROOT / ".ci" / "dist", tmp_path / "dist"], check=True)
    code = "import dynamic_kafka.app.cli, confluent_kafka; print(dynamic_kafka.__file__)"
    name = "localhost/own-image"
    with engine.store():
        engine.build(tmp_path / "Dockerfile", tmp_path, name, {})
        settings = engine.config(name)
        spark = (
            'PYTHONPATH=$(echo $SPARK_HOME/python $SPARK_HOME/python/lib/py4j-*.zip | tr " " :) exec python3 -c "$0"'
        )
        done = engine.run_inside(name, settings, ["sh", "-c", spark, code])
    with engine.store():  # without the container of the run
        engine.buildah("rmi", name)
    assert done.stdout.startswith("/usr/local/lib/python3"), done.stderr


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from dynamic_kafka import cause_of, register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
def worker(_):
    import confluent_kafka, dynamic_kafka, pyarrow, pyspark, py4j
    return sys.executable, *(package.__file__.rpartition("/")[2] for package in (pyspark, py4j))
print(spark.version, spark.sparkContext.parallelize([0], 1).map(worker).collect())
try:
    spark.readStream.format("dynamic-kafka").load()
except Exception as error:
    print(type(cause_of(error)).__name__)
"""


def test_spark_and_its_workers_use_the_packages(spark_app: Image) -> None:
    """A read-only root: Spark writes only to `/tmp`. Its workers are those of the environment; none compiles Spark."""
    printed = output(spark_app, "python", "-c", PROGRAM).splitlines()
    worker = (PYTHON, "__init__.pyc", "__init__.pyc")
    assert printed == [f"{importlib.metadata.version('pyspark')} {[worker]}", "OptionError"]
