"""What the application's exit code means, and which error has which: one table. Pure.

An error reaches the application in two shapes: as itself, or, when it was raised in one of Spark's Python workers, as
the text that the JVM hands on. The text is told by the class names and codes in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

from dynamic_kafka import errors
from dynamic_kafka.errors import DynamicKafkaError, ErrorCode


class ExitCode(IntEnum):
    """Exit codes. 3, 5 and 6 may go away by themselves: start again, with a pause. 2, 4 and 7 need a person."""

    DONE = 0
    """Finished, or stopped as asked."""
    CONFIGURATION = 2
    """`app.yaml`, an option, a secret's reference or the command line is wrong."""
    METADATA = 3
    """No metadata, invalid metadata at the start, or too old for too long."""
    REFUSED = 4
    """Going on could lose or repeat records, or read from the wrong cluster; another driver runs on the checkpoint; or
    a cluster refuses the login or a certificate: a person must decide."""
    CLUSTER = 5
    """A Kafka cluster did not answer or did not do as asked."""
    QUERY = 6
    """The query failed for another reason: the transformation, the sink, Spark itself."""
    GROUP_IN_USE = 7
    """Another query commits to the same consumer group."""
    GRACE_EXCEEDED = 8
    """Stopped as asked, but not within `gracePeriod`: the batch at hand is repeated at the next start."""
    INTERRUPTED = 130
    """Interrupted from the keyboard while a tool ran."""
    PIPE_CLOSED = 141
    """Whoever read a tool's output has gone, as `| head` does: what a shell reports then."""


CODES: Mapping[type[DynamicKafkaError], ExitCode] = {
    errors.OptionError: ExitCode.CONFIGURATION,
    errors.SecretError: ExitCode.CONFIGURATION,
    errors.MetadataError: ExitCode.METADATA,
    errors.OffsetDocumentError: ExitCode.REFUSED,
    errors.IdentityError: ExitCode.REFUSED,
    errors.PendingRangesError: ExitCode.REFUSED,
    errors.DataLossError: ExitCode.REFUSED,
    errors.GroupInUseError: ExitCode.GROUP_IN_USE,
    errors.ClusterRefusedError: ExitCode.REFUSED,
    errors.ClusterError: ExitCode.CLUSTER,
    errors.DynamicKafkaError: ExitCode.QUERY,
}
"""The code of each class of errors, and of the classes derived from it."""

_CONCURRENT = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using")
"""Spark's words for a checkpoint's log that another driver has written to."""
_SINK_LOG = re.compile(r"concurrently using \S*/_spark_metadata")
"""The same of a file sink's log, which queries with different checkpoints may have in common."""
_RAISED = re.compile(r"dynamic_kafka\.errors\.(\w+): (.*)")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(re.escape(_TRACEBACK) + r"\n((?:[ \t]+.*\n)*)(\S.*)")
"""A traceback's lines, and the one behind them: what was raised."""
_FRAME = re.compile(
    r"\s+at ([\w$/@<>-]+(?:\.[\w$/@<>-]+)+\((?:Unknown Source|Native Method|[\w.$<>-]+(?::\d+)?)\))", re.ASCII
)
_CAUSE = re.compile(r"Caused by: ((?:[\w$]+\.)+[\w$]+)(?::.*)?", re.ASCII)
"""Narrow on purpose: a line of a message that only begins like these may hold anything."""
MAX_FRAMES = 60
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def code_of(error: BaseException) -> ExitCode:
    """The exit code for an error in whatever shape it arrived."""
    if isinstance(error, DynamicKafkaError):
        return _code_of_class(type(error))
    return code_of_text(str(error))


def code_of_text(text: str) -> ExitCode:
    """The exit code for the text of a failed query."""
    if _CONCURRENT.search(text):
        return ExitCode.REFUSED
    raised = raised_in(text)
    if raised is not None:
        return _code_of_class(raised[0])
    found = ErrorCode.find(text)
    if found is None:
        return ExitCode.QUERY
    return ExitCode.REFUSED if found.code == errors.ClusterRefusedError.code else ExitCode.CLUSTER


def raised_in(text: str) -> tuple[type[DynamicKafkaError], str] | None:
    """The error of ours in a text that crossed the JVM: its class and the first line of its message.

    A traceback names the cause of an error before the error itself: the last one is what was raised.
    """
    for name, message in reversed(_RAISED.findall(text)):
        found = getattr(errors, name, None)
        if isinstance(found, type) and issubclass(found, DynamicKafkaError):
            return found, message.strip()
    return None


def reason_in(text: str, checkpoint: str | None = None) -> str:
    """What to tell the user of a failed query: our own error's line, or else the text's first line that says much.

    Args:
        checkpoint: the query's, where it is known.
    """
    if _CONCURRENT.search(text):
        which = f"the checkpoint {checkpoint}" if checkpoint else "the same checkpoint"
        or_folder = ", or another query writes into its sink's folder" if _SINK_LOG.search(text) else ""
        return f"another driver runs on {which}{or_folder}: stop one of them. What Spark has committed is whole"
    raised = raised_in(text)
    if raised is not None:
        return f"{raised[0].__name__}: {raised[1]}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    tracebacks = _EXCEPTION.findall(text) if first.endswith(_TRACEBACK) else []
    if tracebacks:
        # A function of the user's failed. Its error stands behind the last traceback; those before are its causes'.
        lines, wrong = tracebacks[-1]
        where = [f" ({file}:{number})" for file, number in _LINE.findall(lines)]
        first = f"{first.removesuffix(_TRACEBACK)}{wrong.strip()}{where[-1] if where else ''}"
    return first[:2000]


def jvm_trace(text: str) -> list[str]:
    """Where in the JVM a query failed: its frames and the classes of the causes, without what these say. Empty where an
    error of ours tells all there is to know.

    A failure within Spark itself has often no message, or one that says nothing without the place.
    """
    if code_of_text(text) is not ExitCode.QUERY or raised_in(text) is not None:
        return []
    found = []
    for line in text.splitlines():
        if frame := _FRAME.fullmatch(line):
            found.append(f"at {frame[1]}")
        elif cause := _CAUSE.fullmatch(line.strip()):
            found.append(f"caused by {cause[1]}")
    if len(found) > MAX_FRAMES:  # the root cause comes last
        found = [*found[: MAX_FRAMES // 2], *found[-(MAX_FRAMES // 2) :]]
    return found


def told(error: BaseException) -> str:
    """An error in a line: its class and what it says."""
    return f"{type(error).__name__}: {error}"


def _code_of_class(raised: type[DynamicKafkaError]) -> ExitCode:
    return next(CODES[base] for base in raised.__mro__ if base in CODES)
