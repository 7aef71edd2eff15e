"""The exit code of each error, and the reason to report for it. Pure.

An error reaches the application as itself or, when the JVM or one of Spark's Python workers raised it, as a text that
`text_of` returns. In that text, class names and error codes identify it. `run`, the supervisor and the tools call this
module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dynamic_kafka import errors
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import DynamicKafkaError, ErrorCode, cause_in
from dynamic_kafka.wording import without_secrets

CODES: Mapping[type[DynamicKafkaError], ExitCode] = {
    errors.OptionError: ExitCode.CONFIGURATION,
    errors.SecretError: ExitCode.CONFIGURATION,
    errors.MetadataError: ExitCode.METADATA,
    errors.OffsetDocumentError: ExitCode.REFUSED,
    errors.IdentityError: ExitCode.REFUSED,
    errors.PendingRangesError: ExitCode.REFUSED,
    errors.DataLossError: ExitCode.REFUSED,
    errors.TopicIntegrityError: ExitCode.TOPIC_INTEGRITY,
    errors.RecordEvaluationError: ExitCode.QUERY,
    errors.RecordDecodingError: ExitCode.QUERY,
    errors.GroupInUseError: ExitCode.GROUP_IN_USE,
    errors.DriverReplacedError: ExitCode.REFUSED,
    errors.DeadLetterError: ExitCode.CLUSTER,
    errors.MissingInternalTopicError: ExitCode.MISSING_INTERNAL_TOPIC,
    errors.MisconfiguredInternalTopicError: ExitCode.MISCONFIGURED_INTERNAL_TOPIC,
    errors.ClusterRefusedError: ExitCode.REFUSED,
    errors.MissingSourceTopicError: ExitCode.MISSING_SOURCE_TOPIC,
    errors.ClusterError: ExitCode.CLUSTER,
    errors.DynamicKafkaError: ExitCode.QUERY,
}
"""The code of each class of errors. A derived class without an entry has the code of its base."""

_BY_ERROR_CODE = {kind.code: CODES[kind] for kind in (errors.ClusterRefusedError, errors.MissingSourceTopicError)}
"""The exit codes of the clusters' errors that have one of their own, by the code in brackets."""

_CONCURRENT = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using")
"""Spark's messages when another driver has written to the log of a checkpoint."""
_SINK_LOG = re.compile(r"concurrently using \S*/_spark_metadata")
"""Spark's message when the log is a file sink's, which queries with different checkpoints may share."""
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(re.escape(_TRACEBACK) + r"\n((?:[ \t]+.*\n)*)(\S.*)")
"""The lines of a traceback, and the line after them, which names the exception."""
_FRAME = re.compile(
    r"\s+at ([\w$/@<>-]+(?:\.[\w$/@<>-]+)+\((?:Unknown Source|Native Method|[\w.$<>-]+(?::\d+)?)\))", re.ASCII
)
_CAUSE = re.compile(r"Caused by: ((?:[\w$]+\.)+[\w$]+)(?:: *(.*))?", re.ASCII)
"""Narrow on purpose: a message's line that merely begins like a frame or cause may hold anything, secrets too."""
MAX_FRAMES = 60
_CALL = re.compile(r"\AAn error occurred while calling \S+\.\s+: ")
"""The words of py4j before the error of a call into the JVM."""
_STATES = re.compile(r"(?: SQLSTATE: \w+)+$")
_BEFORE_CAUSE = 200
"""The characters of a failure's first line that are kept before its cause: a condition of the operator quotes 300."""
_MISSING_JAR = re.compile(r"\b(ClassNotFoundException|NoClassDefFoundError|No FileSystem for scheme)\b")
_ADD_JAR = "; a jar is missing: add the connector to `spark.jars.packages` in `spark` (docs/how-to/images.md)"
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error of any class."""
    if isinstance(error, DynamicKafkaError):
        return _code_of_class(type(error))
    return code_of_text(str(error))


def text_of(error: BaseException) -> str:
    """Return the class and message of an error; of one that the JVM raised, the message and the whole stack trace.

    The text may hold secrets: pass it to the functions below, and show what they return.
    """
    if hasattr(error, "java_exception"):  # py4j's own: its text has the trace
        return str(error)
    # PySpark keeps the trace in a private attribute. A query's exception has only the top of it, its cause the rest.
    for holder in (getattr(error, "_cause", None), error):
        if trace := getattr(holder, "_stackTrace", ""):
            return f"{error}\nCaused by: {trace}"
    return describe_error(error)


def code_of_text(text: str) -> ExitCode:
    """Return the exit code for the text of a failed query."""
    if _CONCURRENT.search(text):
        return ExitCode.REFUSED
    raised = cause_in(text)
    if raised is not None:
        return _code_of_class(type(raised))
    error_code = ErrorCode.find(text)
    if error_code is None:
        return ExitCode.QUERY
    return _BY_ERROR_CODE.get(error_code.code, ExitCode.CLUSTER)


def reason_in(text: str, checkpoint: str | None = None) -> str:
    """Return the reason to report for a failed query, in one line.

    The reason is our own error's line. If there is none, it is the first line of the text with the innermost cause in
    the JVM, or the exception that a user's function raised; secrets are masked.
    """
    if _CONCURRENT.search(text):
        which = f"the checkpoint {checkpoint}" if checkpoint else "the same checkpoint"
        or_folder = ", or another query writes into its sink's folder" if _SINK_LOG.search(text) else ""
        return f"another driver runs on {which}{or_folder}: stop one of them. All committed batches are intact"
    raised = cause_in(text)
    if raised is not None:
        return describe_error(raised).splitlines()[0]
    lines = [without_secrets(line) for line in _CALL.sub("", text).splitlines()]
    first = next((line.strip() for line in lines if line.strip()), "no reason given")
    causes = [match for line in lines if (match := _CAUSE.fullmatch(line))]
    if causes and not first.endswith(_TRACEBACK):
        first = _with_cause(first, causes[-1])
    tracebacks = _EXCEPTION.findall("\n".join(lines)) if first.endswith(_TRACEBACK) else []
    if tracebacks:
        # A user's function failed. The last traceback belongs to its error, the ones before to the causes.
        frames, exception = tracebacks[-1]
        where = [f" ({file}:{number})" for file, number in _LINE.findall(frames)]
        first = f"{first.removesuffix(_TRACEBACK)}{exception.strip()}{where[-1] if where else ''}"
    return first[:2000] + (_ADD_JAR if _MISSING_JAR.search(first) else "")


def jvm_trace(text: str) -> list[str]:
    """Return where in the JVM a query failed: frames and the classes of the causes, without their messages.

    A failure within Spark often has no message, or one that is useless without the place. The list is empty for our own
    errors, whose message is enough.
    """
    if code_of_text(text) is not ExitCode.QUERY or cause_in(text) is not None:
        return []
    trace = []
    for line in text.splitlines():
        if frame := _FRAME.fullmatch(line):
            trace.append(f"at {frame[1]}")
        elif cause := _CAUSE.fullmatch(line.strip()):
            trace.append(f"caused by {cause[1]}")
    if len(trace) > MAX_FRAMES:  # the root cause comes last
        trace = [*trace[: MAX_FRAMES // 2], *trace[-(MAX_FRAMES // 2) :]]
    return trace


def _with_cause(first: str, match: re.Match[str]) -> str:
    """Return a failure's first line with the class and message of its cause, each message once."""
    name, message = match[1], _STATES.sub("", match[2] or "")
    cause, head = f"{name}: {message}" if message else name, _STATES.sub("", first)
    if cause in head:
        return first
    if message and head.endswith(message):
        return head.removesuffix(message) + cause
    return f"{head[:_BEFORE_CAUSE].rstrip(' .')}; caused by {cause}"


def describe_error(error: BaseException) -> str:
    """Return the class of an error and its message."""
    return f"{type(error).__name__}: {error}"


def _code_of_class(raised: type[DynamicKafkaError]) -> ExitCode:
    return next(CODES[base] for base in raised.__mro__ if base in CODES)
