"""`make dist`: wheels and an sdist that install without this repository, the same bytes each time."""

from __future__ import annotations

import email
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pydantic
import pytest

from dynamic_kafka.executor.native import SWITCH
from tests.support.images import version
from tests.support.places import ROOT

URL = "https://project.example"
EXTENSION = "dynamic_kafka/executor/native/_reader.abi3.so"
BIN = Path(sys.executable).parent


def dist(folder: Path) -> Path:
    subprocess.run([ROOT / ".ci" / "dist", folder], env=os.environ | {"PROJECT_URL": URL}, check=True)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dist(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(made: Path) -> Path:
    return made / f"dynamic_kafka-{version()}-py3-none-any.whl"


def needed(name: str) -> Iterator[importlib.metadata.Distribution]:
    """Yield a distribution of this environment with all that it requires without any extra."""
    distribution = importlib.metadata.distribution(name)
    yield distribution
    for requirement in distribution.requires or []:
        if "extra ==" not in requirement and "python_version <" not in requirement:
            yield from needed(re.split(r"[^A-Za-z0-9._-]", requirement)[0])


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and the packages that it requires, none of an extra; they come from here."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python3*/site-packages")
    for required in ("pydantic", "pyyaml"):
        for distribution in needed(required):
            for file in distribution.files or []:
                if ".." not in file.parts:
                    (packages / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(Path(str(distribution.locate_file(file))), packages / file)
    install = [
        BIN / "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-cache",
        f"--python={folder / 'bin' / 'python'}",
    ]
    subprocess.run([*install, wheel], check=True)  # offline: a requirement that is not there would fail
    return folder


def extensions(wheel: Path) -> list[str]:
    with ZipFile(wheel) as files:
        return [name for name in files.namelist() if name.endswith((".so", ".c", ".h"))]


def run(environment: Path, *command: str, python_path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment / "bin" / command[0], *command[1:]],
        cwd=environment,
        env=os.environ | {"PYTHONPATH": python_path, SWITCH: ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_same_sources_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = dist(tmp_path)
    names = sorted(artifact.name for artifact in made.iterdir())
    assert names == [
        f"dynamic_kafka-{version()}-cp311-abi3-manylinux_2_34_{platform.machine()}.whl",
        f"dynamic_kafka-{version()}-py3-none-any.whl",
        f"dynamic_kafka-{version()}.tar.gz",
    ]
    assert [(made / name).read_bytes() for name in names] == [(again / name).read_bytes() for name in names]


@pytest.mark.usefixtures("made")
def test_the_working_tree_stays_as_it_is() -> None:
    assert [*ROOT.glob("*.egg-info"), *ROOT.glob("*/*.egg-info"), *(ROOT / "build").glob("lib/dynamic_kafka")] == []


def test_twine_accepts_the_metadata(made: Path) -> None:
    subprocess.run([BIN / "twine", "check", "--strict", *made.iterdir()], check=True)


def test_the_metadata_is_complete(wheel: Path) -> None:
    with ZipFile(wheel) as files:
        metadata = email.message_from_bytes(files.read(f"dynamic_kafka-{version()}.dist-info/METADATA"))
    assert metadata["Version"] == version()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Project-URL"] == f"Source, {URL}"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload(decode=True) == (ROOT / "README.md").read_bytes()
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_the_wheel_is_importable_without_spark(environment: Path) -> None:
    code = "import dynamic_kafka, importlib.util; print(dynamic_kafka.__file__, importlib.util.find_spec('pyspark'))"
    file, spark = run(environment, "python", "-c", code).stdout.split()
    assert Path(file).is_relative_to(environment)
    assert spark == "None"


def test_the_command_without_its_extra_names_it(environment: Path) -> None:
    done = run(environment, "dynamic-kafka", "--help")
    assert (done.returncode, "pip install 'dynamic-kafka[spark]'" in done.stderr) == (2, True)


def test_the_command_runs_with_its_extra(environment: Path) -> None:
    """The packages of the extra are this environment's, in which the project is only a link that `site` reads."""
    done = run(environment, "dynamic-kafka", "--help", python_path=str(Path(pydantic.__file__).parents[1]))
    assert done.stdout.startswith("usage: dynamic-kafka")


def test_type_checkers_see_the_types(environment: Path) -> None:
    """By `py.typed` in the wheel."""
    mypy = [
        BIN / "mypy",
        "--no-incremental",
        "--follow-imports=silent",
        f"--python-executable={environment}/bin/python",
    ]
    code = "import dynamic_kafka; reveal_type(dynamic_kafka.ClusterMetadata.__init__)"
    done = subprocess.run([*mypy, "-c", code], cwd=environment, capture_output=True, text=True, check=False)
    assert "topics: tuple[str, ...]" in done.stdout, done.stdout + done.stderr


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return source


def test_one_wheel_has_the_native_reader(made: Path, wheel: Path, tmp_path: Path) -> None:
    [native] = made.glob("*-abi3-*.whl")
    assert extensions(wheel) == []
    assert extensions(native) == [EXTENSION]
    with ZipFile(native) as files:
        files.extractall(tmp_path)
    code = "from dynamic_kafka.executor.native import load; print(load().__file__)"
    done = run(Path(sys.prefix), "python", "-c", code, python_path=str(tmp_path))
    assert done.stdout.split() == [str(tmp_path / EXTENSION)], done.stderr


def test_the_extension_needs_no_newer_c_library(made: Path) -> None:
    """Its symbols have the versions that the name of the wheel promises."""
    [native] = made.glob("*-abi3-*.whl")
    with ZipFile(native) as files:
        versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", files.read(EXTENSION))
    assert max((int(major), int(minor)) for major, minor in versions) <= (2, 34)


def test_without_a_compiler_the_reader_is_left_out(made: Path, tmp_path: Path) -> None:
    [archive] = made.glob("*.tar.gz")
    source = unpacked(archive, tmp_path)
    build = [
        BIN / "uv",
        "build",
        "--quiet",
        "--offline",
        "--no-build-isolation",
        f"--python={sys.executable}",
        "--wheel",
    ]
    without = os.environ | {"CC": str(tmp_path / "no-compiler")}
    subprocess.run([*build, f"--out-dir={tmp_path}", source], env=without, check=True)
    [built] = tmp_path.glob("*.whl")
    assert extensions(built) == []


def test_the_sdist_builds_the_same_wheel(made: Path, wheel: Path, tmp_path: Path) -> None:
    [archive] = made.glob("*.tar.gz")
    source = unpacked(archive, tmp_path)
    build = [
        BIN / "uv",
        "build",
        "--quiet",
        "--offline",
        "--no-build-isolation",
        f"--python={sys.executable}",
        "--wheel",
    ]
    pure = os.environ | {SWITCH: "no"}
    subprocess.run([*build, f"--out-dir={tmp_path}", source], env=pure, check=True)
    with ZipFile(wheel) as ours, ZipFile(tmp_path / wheel.name) as theirs:
        assert ours.namelist() == theirs.namelist()
        assert [ours.read(name) for name in ours.namelist()] == [theirs.read(name) for name in theirs.namelist()]
