"""Go programs are built once, also after failures and in parallel. `go` is a script here."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import go
from tests.support.cache import cache_folder
from tests.support.go import GoProgram, GoUnavailableError, built
from tests.support.kube_programs import KUBEBOX, SPARK_OPERATOR
from tests.support.places import ROOT
from tests.support.waiting import eventually

FAKE_GO = """\
#!/bin/sh
[ "$1 $2" = "env GOVERSION" ] && { echo ${FAKE_VERSION:-go1.26.8}; exit; }
for last; do :; done
[ "$last" = std ] && { echo std >> "$FAKE_FOLDER/calls"; exit; }
echo "$1" >> "$FAKE_FOLDER/calls"
[ "$1" = list ] && { echo a; echo b; exit; }
[ -e "$FAKE_FOLDER/fail" ] && { echo "main.go:1: no such thing"; exit 1; }
[ -e "$FAKE_FOLDER/hold" ] && read line < "$FAKE_FOLDER/hold"
echo a
for argument; do case $argument in -o=*) echo built > "${argument#-o=}" ;; esac; done
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a fake `go` on the path, and use a new cache."""
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "go").write_text(FAKE_GO)
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_FOLDER", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def program(tmp_path: Path) -> GoProgram:
    source = tmp_path / "source"
    source.mkdir()
    (source / "go.mod").write_text("module x\n\nrequire (\n\texample.com/tool v1.2.3\n)\n")
    (source / "go.sum").write_text("")
    return GoProgram("tool", source, "example.com/tool")


def calls(fake: Path) -> list[str]:
    return (fake / "calls").read_text().split()


def test_a_program_is_built_once(fake: Path, program: GoProgram, capsys: pytest.CaptureFixture[str]) -> None:
    program = replace(program, complete=lambda folder: (folder / "more").touch())
    first, second = built(program), built(program)

    assert first == second == cache_folder() / program.cache_name
    assert sorted(path.name for path in first.iterdir()) == ["more", "tool"]
    assert sorted(calls(fake)) == ["build", "list", "std"]
    assert "Building tool v1.2.3 into" in capsys.readouterr().err


def test_the_progress_tells_what_is_left(
    fake: Path, program: GoProgram, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(go, "_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    built(replace(program, processor_seconds=540))

    begin, *_, progress, end = capsys.readouterr().err.splitlines()
    assert begin.endswith("once per machine: about 5 min on 2 processors")
    assert "tool v1.2.3: compiled 1 packages" in progress and "of at most 2, about 1 min left" in progress
    assert end.startswith("Built tool v1.2.3 in ")


def test_other_pinned_versions_make_another_program(program: GoProgram) -> None:
    before = program.cache_name
    (program.source / "go.sum").write_text("example.com/other v1 h1:x\n")

    assert before.startswith("tool-1.2.3-")
    assert len({before, program.cache_name, replace(program, tags=("node",)).cache_name}) == 3


def test_a_failed_build_leaves_no_program(fake: Path, program: GoProgram) -> None:
    (fake / "fail").touch()
    with pytest.raises(GoUnavailableError, match=r"build tool.*source:\nmain\.go:1: no such"):
        built(program)
    left = [path.name for path in cache_folder().iterdir() if path.is_dir()]

    (fake / "fail").unlink()

    assert left == []
    assert (built(program) / "tool").exists()


def test_two_processes_build_a_program_once(fake: Path, program: GoProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    os.mkfifo(fake / "hold")
    folders: list[Path] = []
    first, second = (threading.Thread(target=lambda: folders.append(built(program))) for _ in range(2))
    first.start()
    with (fake / "hold").open("w") as held:  # opens when the build reads from it
        second.start()
        waits = eventually(lambda: "Another process is making tool" in output.getvalue())
        held.write("go on\n")
    first.join(20)
    second.join(20)

    assert waits
    assert folders == [cache_folder() / program.cache_name] * 2
    assert sorted(calls(fake)) == ["build", "list", "std"]


BUILD = """
import sys
from pathlib import Path
from tests.support.go import GoProgram, built

built(GoProgram("tool", Path(sys.argv[1]), "example.com/tool"))
"""


def test_a_killed_build_is_repeated(fake: Path, program: GoProgram) -> None:
    os.mkfifo(fake / "hold")
    command = [sys.executable, "-c", BUILD, str(program.source)]
    killed = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    with (fake / "hold").open("w"):
        killed.kill()
        killed.wait()
    left = [path for path in cache_folder().iterdir() if path.is_dir()]
    (fake / "hold").unlink()

    folder = built(program)

    assert [path.name.startswith(f".{program.cache_name}.") for path in left] == [True]
    assert [path for path in cache_folder().iterdir() if path.is_dir()] == [folder]


def test_without_go_the_error_has_advice(program: GoProgram, monkeypatch: pytest.MonkeyPatch, fake: Path) -> None:
    monkeypatch.setattr(go, "_GO_HOME", "/nowhere")
    (fake / "go").unlink()

    with pytest.raises(GoUnavailableError, match=r"No Go: install Go >= 1\.21"):
        built(program)


def test_go_that_is_too_old_is_named(program: GoProgram, monkeypatch: pytest.MonkeyPatch, fake: Path) -> None:
    monkeypatch.setenv("FAKE_VERSION", "go1.19.8")

    with pytest.raises(GoUnavailableError, match=rf"{fake}/go is go1\.19\.8: >= 1\.21 is needed"):
        built(program)


def test_tests_and_the_pod_node_use_the_same_spark_operator():
    assert replace(KUBEBOX, module=SPARK_OPERATOR.module).version == SPARK_OPERATOR.version
