"""The cause of an application's failure, in one line for a condition. Pure; the modules of `spark` call it.

The text comes from a Spark operator, from Spark or from the application. It may hold a stack trace, a command line with
secrets, and parts that differ in each attempt. The line goes into a status: so it has no secret, and two attempts that
fail alike give the same line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dynamic_kafka.metadata.termination_message import TerminationMessage
from dynamic_kafka.wording import MASK, without_secrets
from kafkastream_operator.core.exit_codes import explained

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


def cause_of_failure(text: str) -> str:
    """Return the most useful line of a failure's text, with the meaning of the exit code that it names.

    Args:
        text: as in the application's status; any number of lines.

    Returns:
        One line, without its last period; "" for an empty text.
    """
    lines = [_stable(each) for each in without_secrets(text[:_MAX_READ]).splitlines() if not _STACK.match(each)]
    found = _most_useful([each for each in lines if each])
    if len(found) > MAX_CHARACTERS:
        found = f"{found[: MAX_CHARACTERS - 1]}…"
    return explained(found)


def ended_containers(pod: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return name and end of each container that has ended, from a pod's status."""
    containers = pod.get("containerStatuses") or []
    ended = [(str(each.get("name", "")), (each.get("state") or {}).get("terminated")) for each in containers]
    return [(name, end) for name, end in ended if end]


def driver_failure(pod: Mapping[str, Any], containers: frozenset[str] = frozenset()) -> str:
    """Return all that a pod's status has about the failure of its containers; "" if none has failed.

    The bundled application writes the exact cause as the termination message of its container.

    Args:
        containers: the names of the containers that count; empty: all of them.
    """
    failed = [
        (name, end)
        for name, end in ended_containers(pod)
        if end.get("exitCode") and (not containers or name in containers)
    ]
    messages = [str(end["message"]) for _, end in failed if str(end.get("message") or "").strip()]
    return "\n".join(messages) or "\n".join(
        f"container {name} failed with ExitCode: {end['exitCode']}, Reason: {end.get('reason') or 'unknown'}"
        for name, end in failed
    )


def finished_at(pod: Mapping[str, Any]) -> str:
    """Return when a driver's container has ended after it read everything for good, from a pod's status; "" if not.

    The application writes that as the termination message, which the kubelet keeps for as long as the pod exists.
    """
    for _, end in ended_containers(pod):
        message = TerminationMessage.parse(str(end.get("message") or ""))
        if message is not None and message.is_finished and not end.get("exitCode"):
            return str(end.get("finishedAt") or "")
    return ""


def _stable(line: str) -> str:
    """Return a masked line without its changing parts, without control characters, and cut behind its first mask.

    An unquoted secret may contain spaces, so its end cannot be found.
    """
    before, mask, _ = " ".join("".join(each if each.isprintable() else " " for each in line).split()).partition(MASK)
    shown = _AROUND_AN_ANSWER.sub("", before + mask)
    return _ID.sub("…", _ATTEMPT.sub(r"\1…", _TIME.sub("", shown))).strip().rstrip(".")


def _most_useful(lines: list[str]) -> str:
    """Return the refusal, else the last cause of a trace, which is its root, else the first exception, else a line."""
    choices = (
        next((each for each in lines if _REFUSAL.search(each)), ""),
        next((each for each in reversed(lines) if _CAUSE.match(each)), ""),
        next((each for each in lines if _EXCEPTION.search(each)), ""),
        next((each for each in lines if not _LOG_LEVEL.search(each)), ""),
    )
    return next(filter(None, (*choices, *lines)), "")
