"""buildah without a daemon, with a store of our own in the user's cache.

Each command runs in mount and process namespaces of its own: when it ends, in whatever way, its mounts and its children
are gone. The store is locked meanwhile.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cache import cache_folder
from tests.support.supervise import dying_with_us

_PROGRAMS = {"buildah": "buildah", "debootstrap": "debootstrap", "unshare": "util-linux"}
_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_INSIDE = Path(__file__).with_name("inside.sh")


class ImagesUnavailableError(RuntimeError):
    """This machine cannot build images; the message says what is missing."""


class StepFailedError(RuntimeError):
    """A command failed; the message ends with what it printed."""


@functools.cache
def require() -> None:
    """Raise `ImagesUnavailableError` if this machine cannot build images."""
    if os.getuid() != 0:
        raise ImagesUnavailableError("images need root, to unpack files of all owners")
    missing = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        raise ImagesUnavailableError(f"images need more of Debian's packages: apt-get install {' '.join(missing)}")
    done = subprocess.run(["unshare", *_NAMESPACES, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImagesUnavailableError(f"images need mount namespaces: {done.stderr.strip()}")


@contextmanager
def store() -> Iterator[None]:
    """Hold the lock of the store, as each use of it must, and remove first what a killed process left behind."""
    folder = cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_over in folder.glob("tmp*/"):
            shutil.rmtree(left_over, ignore_errors=True)
        if (folder / "store").is_dir():
            buildah("rm", "--all")
        yield


@contextmanager
def scratch() -> Iterator[Path]:
    """Make an empty folder beside the store. The next holder of the store removes it if this process is killed."""
    with tempfile.TemporaryDirectory(dir=cache_folder() / "images") as folder:
        yield Path(folder)


def isolated(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in namespaces of its own, and return what it prints on standard output.

    Raises:
        StepFailedError: it failed.
    """
    done = _isolated(command, environment)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()[-30:]
        raise StepFailedError("\n".join([f"{' '.join(map(str, command))}", *lines]))
    return done.stdout


def buildah(*arguments: str | Path) -> str:
    """Run buildah on the store, and return what it prints on standard output. Raises `StepFailedError`."""
    with _run_root() as run_root:
        return isolated([*_buildah(run_root), *map(str, arguments)])


def has(name: str) -> bool:
    """Return whether the store has an image of this name."""
    return buildah("images", "--quiet", "--filter", f"reference={name}").strip() != ""


def names(repository: str) -> list[str]:
    """Return the names of all images of a repository, with their tags."""
    listed = buildah("images", "--format={{.Name}}:{{.Tag}}", "--filter", f"reference={repository}")
    return listed.split()


def config(name: str) -> dict[str, Any]:
    """Return the configuration of an image; `Image.config` has examples of its fields."""
    settings: dict[str, Any] = json.loads(buildah("inspect", "--type=image", name))["OCIv1"]["config"]
    return settings


def build(
    dockerfile: Path,
    context: Path,
    name: str,
    arguments: Mapping[str, str],
    *,
    stage: str = "",
    with_pip: bool = True,
    extra: Sequence[str] = (),
) -> None:
    """Build one stage of a Dockerfile.

    Its steps see this machine's configuration of pip. An empty file in `/etc` remains of it, in the stages with steps.

    Args:
        arguments: the Dockerfile's `ARG`s.
        stage: the target; none: the last.
        with_pip: whether a step runs pip.
        extra: more flags of `buildah build`.
    """
    with scratch() as folder:
        flags = ["--isolation=chroot", "--network=host", "--layers", "--pull-never", f"--tag={name}", *extra]
        flags += [f"--build-arg={key}={value}" for key, value in arguments.items()]
        flags += [f"--volume={volume}:ro" for volume in (_pip_configuration(folder) if with_pip else [])]
        flags += [f"--target={stage}"] if stage else []
        buildah("build", *flags, f"--file={dockerfile}", context)


def run_inside(
    name: str, settings: Mapping[str, Any], command: Sequence[str], writable: Sequence[str] = ("/tmp",)
) -> subprocess.CompletedProcess[str]:
    """Run a command in an image with this configuration and a read-only root; see `Image.run`."""
    with _run_root() as run_root:
        variables = {"BUILDAH": " ".join(_buildah(run_root)), "WRITABLE": " ".join(writable)}
        start = ["env", "-i", "-C", settings.get("WorkingDir", "/"), *settings["Env"]]
        inside = ["bash", str(_INSIDE), name, settings["User"], *start, *command]
        return _isolated(inside, os.environ | variables)


@contextmanager
def _run_root() -> Iterator[str]:
    # Anew for each command: it counts mounts, and those of the last command are gone.
    with scratch() as folder:
        yield str(folder)


def _buildah(run_root: str) -> list[str]:
    return ["buildah", f"--root={cache_folder() / 'images' / 'store'}", f"--runroot={run_root}"]


def _isolated(command: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        dying_with_us(["unshare", *_NAMESPACES, "--", *command]),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _pip_configuration(folder: Path) -> list[str]:
    """Write this machine's settings of pip into a folder; return the mounts by which pip in a build finds them."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in listed.stdout.splitlines())
    configured = {key.rpartition(".")[2]: value.strip("'") for key, _, value in pairs}
    settings: dict[str, str] = {
        key: configured[key] for key in ("index-url", "extra-index-url", "trusted-host", "proxy") if key in configured
    }
    mounts = [f"{folder / 'pip.conf'}:/etc/pip.conf"]
    if authorities := configured.get("cert", os.environ.get("SSL_CERT_FILE")):
        settings["cert"] = "/etc/pip-authorities.pem"
        mounts.append(f"{authorities}:{settings['cert']}")
    (folder / "pip.conf").write_text("\n".join(["[global]", *(f"{key} = {value}" for key, value in settings.items())]))
    return mounts
