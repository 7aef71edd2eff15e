"""The release workflow: all that it runs exists, under the names that it uses."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.places import ROOT

TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text()
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
RUNS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_it_runs_on_tags_only() -> None:
    # YAML 1.1 reads the key `on` as true.
    assert yaml.safe_load(TEXT)[True] == {"push": {"tags": ["v*"]}}


def test_each_make_command_exists() -> None:
    named = {target for run in RUNS for target in re.findall(r"\bmake ([a-z0-9-]+)", run)}
    assert named == {"e2e", "images", "dist", "chart"}
    assert named <= set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (target, name)
        for target, arguments in re.findall(r"\bmake ([a-z]+)((?: [A-Z_]+=\S+)+)", "\n".join(RUNS))
        for name in re.findall(r"([A-Z_]+)=", arguments)
    ],
)
def test_each_variable_of_a_make_command_is_read(target: str, name: str) -> None:
    """By the recipe, or by the program that it runs: make hands its variables on in the environment."""
    recipe = MAKEFILE[MAKEFILE.index(f"\n{target}:") :].partition("\n\n")[0].split("\n", 2)[2]
    programs = [(ROOT / program).read_text() for program in re.findall(r"\.ci/\w+", recipe)]
    assert any(re.search(rf"\$\(?{{?{name}\b", text) for text in (recipe, *programs))


def test_each_program_of_the_project_exists() -> None:
    programs = {program for run in RUNS for program in re.findall(r"(?:^|\s)(\.ci/\w+)", run)}
    assert programs >= {".ci/run", ".ci/venv"}
    assert [path for path in programs if not (ROOT / path).is_file()] == []


def test_each_action_is_pinned_by_a_commit() -> None:
    uses = re.findall(r"uses: (.*)", TEXT)
    assert len(uses) > 10
    assert [action for action in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []
    assert len(set(uses)) == len({action.partition("@")[0] for action in uses}), "one action, one commit"


def test_the_images_are_those_of_the_dockerfile() -> None:
    made = JOBS["images"]["strategy"]["matrix"]["include"]
    assert [image["target"] for image in made] == re.findall(
        r"^FROM \S+ AS (operator|spark-app)$", DOCKERFILE, re.MULTILINE
    )
    arguments = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    given = {name for run in RUNS for name in re.findall(r'--build-arg "([A-Z]+)=', run)}
    assert given | {image["base"] for image in made} == arguments


def test_the_images_are_tested_as_root() -> None:
    """Elsewhere their tests are skipped. `make images` fails where they would be, so it comes first."""
    [tested] = [step["run"] for step in JOBS["test"]["steps"] if "pytest" in step.get("run", "")]
    function, *commands = tested.splitlines()
    assert function.startswith("as_root() { sudo ")
    assert [command.removeprefix("as_root ") for command in commands] == [
        ".ci/prerequisites --install --images",
        "make images",
        ".venv/bin/python -m pytest tests/integration/release",
    ]
    assert all(command.startswith("as_root ") for command in commands)


def test_each_platform_of_the_images_has_a_native_wheel() -> None:
    """The images and the index get the wheels of all machines. A slow build ends as an error, not as a longer wait."""
    machines = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
    [build] = [run for run in RUNS if "buildx build" in run]
    [platforms] = re.findall(r"--platform (\S+) --sbom", build)
    makers = {
        name: job for name, job in JOBS.items() if any("make dist" in stage.get("run", "") for stage in job["steps"])
    }
    assert set(re.findall(r"manylinux_2_34_(\w+)\.whl", TEXT)) == {machines[target] for target in platforms.split(",")}
    assert set(JOBS["images"]["needs"]) == set(makers)
    for name in ("images", "publish"):
        [taken] = [step["with"] for step in JOBS[name]["steps"] if "download-artifact" in step.get("uses", "")]
        assert taken == {"pattern": "dist*", "path": "dist", "merge-multiple": True}
    for job in makers.values():
        [limit] = [step.get("timeout-minutes") for step in job["steps"] if "make dist" in step.get("run", "")]
        assert limit == 3


def test_an_image_starts_before_it_is_pushed() -> None:
    [build] = [run for run in RUNS if "buildx build" in run]
    assert 0 < build.find("--load\n") < build.find("docker run ") < build.find("--push")
    assert [image["start"] for image in JOBS["images"]["strategy"]["matrix"]["include"]] == [
        "--help",
        "driver local:///opt/dynamic_kafka/app/__main__.py --help",
    ]
    assert " candidate ${{ matrix.start }}\n" in build


@pytest.mark.parametrize("name", ["PYTHON_IMAGE", "SPARK_IMAGE"])
def test_a_base_is_built_on_by_its_digest(name: str) -> None:
    [build] = [run for run in RUNS if "buildx build" in run]
    assert re.search(rf"^ARG {name}=[\w./:-]+$", DOCKERFILE, re.MULTILINE)
    assert '"${{ matrix.base }}=$base@$digest"' in build
    assert "--sbom=true" in build
    assert "--provenance=mode=max" in build


def test_no_job_has_more_rights_than_it_needs() -> None:
    assert yaml.safe_load(TEXT)["permissions"] == {"contents": "read"}
    rights = {right for job in JOBS.values() for right, level in job.get("permissions", {}).items() if level == "write"}
    assert rights == {"id-token", "attestations", "artifact-metadata"}


def test_secrets_reach_no_command_line() -> None:
    assert [run for run in RUNS if "secrets." in run] == []


def test_the_package_index_comes_last() -> None:
    assert set(JOBS["publish"]["needs"]) == set(JOBS) - {"publish", "test", "e2e"}
    assert JOBS["dist"]["needs"] == JOBS["dist-arm64"]["needs"] == ["test", "e2e"]


def test_the_weekly_jobs_are_those_of_a_release() -> None:
    weekly = yaml.safe_load((ROOT / ".github" / "workflows" / "weekly.yml").read_text())
    assert weekly["jobs"].keys() == {"all-cases", "e2e"} and weekly["jobs"]["e2e"] == JOBS["e2e"]
    steps = weekly["jobs"]["all-cases"]["steps"]
    assert steps == JOBS["test"]["steps"][: len(steps)] and steps[-1] == {"run": ".ci/run", "env": {"SEEDS": "all"}}
