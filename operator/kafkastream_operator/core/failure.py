"""The failure of an application: its cause in one line for a condition, and its exit code. Pure.

The modules of `spark` call it.

The text comes from a Spark operator, from Spark or from the application. It may hold a stack trace, a command line with
secrets, and parts that differ in each attempt. The line goes into a status: so it has no secret, and two attempts that
fail alike give the same line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dynamic_kafka.contract.exit_codes import MEANINGS
from dynamic_kafka.contract.termination_message import TerminationMessage
from dynamic_kafka.wording import MASK, without_secrets

MAX_CHARACTERS = 300
"""The longest line that a condition quotes."""
_MAX_READ = 64 * 1024
"""The part of a text that is searched: Kubeflow's has all that `spark-submit` has written."""
_REFUSAL = re.compile(r"forbidden|denied", re.IGNORECASE)
_CAUSE = re.compile(r"Caused by: ")
_EXCEPTION = re.compile(r"Exception\b|Error\b")
_STACK = re.compile(r"\s*(?:at [\w$.<>/@]+\(|\.\.\. \d+ (?:more|common frames)|Traceback \(|File \".*\", line \d)")
_LOG_LEVEL = re.compile(r"(?:log4j:)?(?:TRACE|DEBUG|INFO|WARN)\b")
_AROUND_AN_ANSWER = re.compile(r"Failure executing: \w+ at: \S+ Message: | Received status: Status\(.*")
"""The text of Spark's Kubernetes client before and after the API server's answer. It repeats what the answer has."""

_EXIT_CODE = re.compile(r"\bexit ?code:? (\d{1,3})\b", re.IGNORECASE)
"""The exit code of a driver in the words of a Spark operator."""
_TIME = re.compile(
    r"\d{2,4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?\s*|\b\d{2}:\d{2}:\d{2}\b\s*"
)
_ATTEMPT = re.compile(r"(\battempts?\W{1,3})\d+", re.IGNORECASE)
_MIXED = r"(?=[a-z]*\d)(?=\d*[a-z])"
_ID = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"  # a UUID
    rf"|\b{_MIXED}(?:[0-9a-f]{{8,}}|[0-9a-z]{{16,}})\b|(?<=@)[0-9a-f]{{5,8}}\b|\b\d{{10,}}\b"  # hashes and moments
    rf"|(?<=-){_MIXED}(?:[b-df-hj-np-tv-xz2-9]{{5}}|[b-df-hj-np-tv-xz2-9]{{8,10}})\b"  # Kubernetes' ends of names
    r"|(?<=-)\d+(?=-driver\b)|(?<=-exec-)\d+\b"
)


class Failure(NamedTuple):
    """The failure of an application or of its driver.

    Attributes:
        cause: one line, without its last period and with the meaning of the exit code; "" if none is named.
        code: the exit code of the bundled application; None if it is not known.
    """

    cause: str = ""
    code: int | None = None


NO_FAILURE = Failure()


def failure_in(text: str) -> Failure:
    """Return the failure that a Spark operator's text is about: its most useful line.

    Args:
        text: as in the application's status; any number of lines.
    """
    cause = _most_useful_line(text)
    named = _EXIT_CODE.search(cause)
    code = int(named[1]) if named is not None else None
    return _explained(cause, code if code is not None and code <= 255 else None)


def ended_containers(pod: Mapping[str, Any], names: frozenset[str] = frozenset()) -> dict[str, Mapping[str, Any]]:
    """Return {name: end} of the containers that have ended, from a pod's status.

    Args:
        names: those that count; empty: all of them.
    """
    containers = {str(entry.get("name", "")): entry.get("state") or {} for entry in pod.get("containerStatuses") or []}
    return {
        name: state["terminated"]
        for name, state in containers.items()
        if state.get("terminated") and (not names or name in names)
    }


def termination_messages(
    ended: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], TerminationMessage]]:
    """Yield the end of each container that has left a message of the bundled application, and the message.

    Args:
        ended: as of `ended_containers`.
    """
    for end in ended.values():
        message = TerminationMessage.parse(str(end.get("message") or ""))
        if message is not None:
            yield end, message


def driver_failure(pod: Mapping[str, Any], names: frozenset[str] = frozenset()) -> Failure | None:
    """Return the failure of a pod's containers from its status; None if none has failed. Arguments as above.

    The bundled application leaves the exact cause as the termination message of its container.
    """
    failed = {name: end for name, end in ended_containers(pod, names).items() if end.get("exitCode")}
    if not failed:
        return None
    for _, message in termination_messages(failed):
        cause = f"exit code {message.code}: {_most_useful_line(message.reason)}"
        return _explained(cause.rstrip(": "), message.code)
    if texts := [text for end in failed.values() if (text := str(end.get("message") or "").strip())]:
        return Failure(_most_useful_line("\n".join(texts)))
    return failure_in(
        "\n".join(
            f"container {name} failed with ExitCode: {end['exitCode']}, Reason: {end.get('reason') or 'unknown'}"
            for name, end in failed.items()
        )
    )


def finished_at(pod: Mapping[str, Any]) -> str:
    """Return when a driver's container has ended after it read everything for good, from a pod's status; "" if not.

    The application writes that as the termination message, which the kubelet keeps for as long as the pod exists.
    """
    for end, message in termination_messages(ended_containers(pod)):
        if message.finished and not end.get("exitCode"):
            return str(end.get("finishedAt") or "")
    return ""


def _explained(cause: str, code: int | None) -> Failure:
    """Return the failure with the meaning of its exit code behind the cause."""
    meaning = MEANINGS.get(code) if code is not None else None
    if meaning is None:
        return Failure(cause, code)
    return Failure(f"{cause} (exit code {code} of the bundled application: {meaning.words[:-1]})", code)


def _most_useful_line(text: str) -> str:
    lines = [_stable(line) for line in without_secrets(text[:_MAX_READ]).splitlines() if not _STACK.match(line)]
    best_line = _most_useful([line for line in lines if line])
    return f"{best_line[: MAX_CHARACTERS - 1]}…" if len(best_line) > MAX_CHARACTERS else best_line


def _stable(line: str) -> str:
    """Return a masked line without its changing parts, without control characters, and cut behind its first mask.

    An unquoted secret may contain spaces, so its end cannot be found.
    """
    before, mask, _ = " ".join(
        "".join(character if character.isprintable() else " " for character in line).split()
    ).partition(MASK)
    shown = _AROUND_AN_ANSWER.sub("", before + mask)
    return _ID.sub("…", _ATTEMPT.sub(r"\1…", _TIME.sub("", shown))).strip().rstrip(".")


def _most_useful(lines: list[str]) -> str:
    """Return the refusal, else the last cause of a trace, which is its root, else the first exception, else a line."""
    choices = (
        next((line for line in lines if _REFUSAL.search(line)), ""),
        next((line for line in reversed(lines) if _CAUSE.match(line)), ""),
        next((line for line in lines if _EXCEPTION.search(line)), ""),
        next((line for line in lines if not _LOG_LEVEL.search(line)), ""),
    )
    return next(filter(None, (*choices, *lines)), "")
