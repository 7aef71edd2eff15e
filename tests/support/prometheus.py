"""Prometheus' side of a test: the samples of a scrape, and promtool, which tests alerts.

promtool is the one on the path, else Debian's, unpacked into the user's cache. Nothing is installed: apt-get keeps its
lists in a scratch folder, so that it needs neither root nor fresh lists. With Go, more than a thousand packages would
have to be compiled.
"""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.cache import made_once

_DOWNLOAD_S = 120.0
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""{(name, labels): value}"""


class PromtoolUnavailableError(RuntimeError):
    """There is no promtool, and Debian's cannot be fetched; the message has the reason."""


def samples(text: str) -> Samples:
    """Return the samples of a scrape."""
    families = text_string_to_metric_families(text)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for one in families for sample in one.samples}


def run_promtool(*arguments: object, text: str = "") -> None:
    """Run promtool with this text as its input.

    Raises:
        AssertionError: it has found a fault; the message is its output.
        PromtoolUnavailableError: there is no promtool.
    """
    command = [str(argument) for argument in (promtool(), *arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@functools.cache
def promtool() -> Path:
    """Return the program; fetch it the first time, which takes half a minute.

    Raises:
        PromtoolUnavailableError: this is no Debian or Ubuntu, or its packages cannot be reached.
    """
    program = shutil.which("promtool")
    if program is not None:
        return Path(program)
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise PromtoolUnavailableError(f"No promtool on the path, and no {missing[0]} to fetch Debian's.")
    release = platform.freedesktop_os_release()
    name = f"promtool-{release['ID']}-{release.get('VERSION_CODENAME', '')}-{platform.machine()}"
    return made_once(name, _fetch) / "usr" / "bin" / "promtool"


def _fetch(arriving: Path) -> None:
    scratch = arriving.parent / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    settings = [f"Dir::State::Lists={scratch / 'lists'}", f"Dir::Cache={scratch / 'cache'}", "APT::Sandbox::User="]
    apt = ["apt-get", "-q", *(f"-o{setting}" for setting in settings)]
    for command in ([*apt, "update"], [*apt, "download", "prometheus"]):
        _run(command, scratch)
    (package,) = scratch.glob("prometheus_*.deb")
    _run(["dpkg-deb", "--extract", str(package), str(arriving)], scratch)
    (arriving / "usr" / "bin" / "prometheus").unlink()


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=_DOWNLOAD_S)
    except subprocess.CalledProcessError as error:
        raise PromtoolUnavailableError(
            f"{command[0]} could not fetch promtool: {error.stderr.strip()[-500:]}"
        ) from None
    except subprocess.TimeoutExpired:
        raise PromtoolUnavailableError(f"{command[0]} took longer than {_DOWNLOAD_S:.0f} s for promtool.") from None
