"""Exit codes for each kind of end, also if the JVM has turned the error into text."""

from __future__ import annotations

import re

import pytest

from dynamic_kafka import errors
from dynamic_kafka.app.failures import CODES, MAX_FRAMES, code_of, code_of_text, jvm_trace, reason_in, text_of
from dynamic_kafka.contract.exit_codes import MEANINGS, ExitCode
from dynamic_kafka.contract.termination_message import MAX_BYTES
from tests.support.places import ROOT

JVM = """[STREAM_FAILED] Query [id = 1] terminated with exception: Error from python worker:
Traceback (most recent call last):
  File "enumerator.py", line 1, in latest
dynamic_kafka.errors.{name}: {message}
 SQLSTATE: XXKST"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.OptionError("x"), 2),
        (errors.SecretError("x"), 2),
        (errors.MetadataInvalidError("x"), 3),
        (errors.MetadataTooOldError("x"), 3),
        (errors.StaleCheckpointError("x"), 4),
        (errors.StateMismatchError("x"), 4),
        (errors.DriverReplacedError("x"), 4),
        (errors.IdentityError("x"), 4),
        (errors.PendingRangesError("x"), 4),
        (errors.DataLossError("x"), 4),
        (errors.ClusterUnreachableError("east", "x"), 5),
        (errors.ReadTimeoutError("east", "x"), 5),
        (errors.ClusterRefusedError("east", "x"), 4),
        (errors.GroupInUseError("x"), 7),
        (errors.MissingSourceTopicError("east", "x"), 10),
        (errors.MissingInternalTopicError("x"), 11),
        (errors.MisconfiguredInternalTopicError("x"), 12),
    ],
)
def test_an_error_has_its_code_as_itself_and_as_text(error: errors.DynamicKafkaError, code: int) -> None:
    text = JVM.format(name=type(error).__name__, message=error)
    assert code_of(error) == code
    assert code_of_text(text) == code
    assert reason_in(text) == f"{type(error).__name__}: {error}"


def test_a_cluster_code_is_enough_where_the_class_name_is_lost() -> None:
    assert code_of_text("Task failed: [READ_TIMEOUT cluster=east] no progress for 30 s") == ExitCode.CLUSTER
    assert code_of_text("Task failed: [CLUSTER_REFUSED cluster=east] the login") == ExitCode.REFUSED
    assert code_of_text("failed: [MISSING_SOURCE_TOPIC cluster=east] no") == ExitCode.MISSING_SOURCE_TOPIC


def test_an_error_counts_rather_than_its_cause() -> None:
    text = JVM.format(name="SecretError", message="inner") + "\n" + JVM.format(name="IdentityError", message="outer")
    assert code_of_text(text) == ExitCode.REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to"
        " the log. Multiple streaming jobs detected for 5.",
        "Multiple streaming queries are concurrently using file:/c/commits",
    ],
)
def test_another_driver_on_the_same_checkpoint_needs_a_person(text: str) -> None:
    assert code_of_text(text) == ExitCode.REFUSED
    assert reason_in(text, "/c").startswith("another driver runs on the checkpoint /c: stop one of them")
    assert reason_in(text).startswith("another driver runs on the same checkpoint: ")


def test_a_shared_sink_log_may_belong_to_another_query() -> None:
    text = "Multiple streaming queries are concurrently using file:/data/out/_spark_metadata."
    reason = reason_in(text, "/c")
    assert "/c, or another query" in reason and "sink's folder: stop" in reason
    assert code_of_text(text) == ExitCode.REFUSED


def test_the_reason_names_a_users_functions_error_and_place() -> None:
    text = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/app/shop.py", line 3, in price
    return table[key]
           ~~~~~^^^^^
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/shop.py", line 5, in price
    raise ValueError("no price")
ValueError: no price
 SQLSTATE: 38000
"""
    head = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    assert reason_in(text) == f"{head}ValueError: no price (/app/shop.py:5)"
    assert code_of_text(text) == ExitCode.QUERY
    assert reason_in(f"{head}Traceback (most recent call last):") == f"{head}Traceback (most recent call last):"


def test_anything_else_is_a_failed_query() -> None:
    assert code_of_text("java.lang.ArithmeticException: / by zero") == ExitCode.QUERY
    assert code_of(RuntimeError("x")) == ExitCode.QUERY


def test_every_class_of_errors_has_a_code() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.DynamicKafkaError)]
    assert all(any(base in CODES for base in error_class.__mro__) for error_class in classes)


def test_the_page_of_exit_codes_names_those_that_are_no_failure() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    assert (
        {0, 130, 141} == {int(code) for code in re.findall(r"ends with (\d+)", text)} == set(ExitCode) - set(MEANINGS)
    )


SPARKS_OWN = """[STREAM_FAILED] Query [id = 1] terminated with exception: Lost task 1.0: java.io.OptionalDataException
\tat java.base/java.io.ObjectInputStream.readObject0(ObjectInputStream.java:1767)
\tat org.apache.spark.scheduler.Task.run(Task.scala:171)

Driver stacktrace:
Caused by: java.sql.SQLException: password=hunter2 at host (x) is wrong
\tat org.apache.spark.Sink$$anon$1.write(Sink.scala:1)
\t... 23 more
"""


def test_a_failure_in_spark_is_logged_as_places_without_messages() -> None:
    assert jvm_trace(SPARKS_OWN) == [
        "at java.base/java.io.ObjectInputStream.readObject0(ObjectInputStream.java:1767)",
        "at org.apache.spark.scheduler.Task.run(Task.scala:171)",
        "caused by java.sql.SQLException",
        "at org.apache.spark.Sink$$anon$1.write(Sink.scala:1)",
    ]
    assert len(jvm_trace(SPARKS_OWN + "\tat a.b(c:1)\n" * 1000)) == MAX_FRAMES


def test_an_error_of_ours_needs_no_frames() -> None:
    assert jvm_trace(JVM.format(name="IdentityError", message="x") + "\n\tat a.b(c:1)") == []
    assert jvm_trace("[READ_TIMEOUT cluster=east] no progress\n\tat a.b(c:1)") == []


def test_frames_of_generated_and_native_code_are_kept() -> None:
    """Code that Spark generates has no file, but a sink's or an expression's failure passes through it."""
    text = """Job aborted
\tat org.apache.spark.sql.catalyst.expressions.GeneratedClass$Generated1.processNext(Unknown Source)
\tat java.base/jdk.internal.misc.Unsafe.park(Native Method)
"""
    assert len(jvm_trace(text)) == 2


def test_the_root_cause_ends_a_long_trace() -> None:
    """As Spark has it: the task's frames, the driver's, and only then what caused it all."""
    text = (
        "Job aborted\n"
        + "\tat a.b(c:1)\n" * 70
        + "Caused by: java.net.ConnectException: x\n\tat root.cause(Here.java:7)\n"
    )
    trace = jvm_trace(text)
    assert len(trace) <= MAX_FRAMES
    assert "caused by java.net.ConnectException" in trace
    assert "at root.cause(Here.java:7)" in trace


@pytest.mark.parametrize(
    "line",
    [
        "\tat https://user:hunter2@registry:8081/(v1)",
        " at jdbc:postgresql://db/x?password=hunter2&user=(me)",
        "Caused by: hunter2 is no password",
    ],
)
def test_a_line_of_a_message_that_looks_like_a_frame_is_none(line: str) -> None:
    assert jvm_trace(f"the sink failed:\n{line}\n\tat a.b(c:1)") == ["at a.b(c:1)"]


NO_S3A = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
ADD_JAR = "; a jar is missing: add the connector to `spark.jars.packages` in `spark` (docs/how-to/images.md)"
AT_START = f"""An error occurred while calling o71.start.
: java.lang.RuntimeException: {NO_S3A}
\tat org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2737)
Caused by: {NO_S3A}
\tat org.apache.hadoop.conf.Configuration.getClassByName(Configuration.java:2641)
\t... 33 more
"""


class JavaError(Exception):
    """An error as PySpark raises it for an exception in the JVM."""

    def __init__(self, message: str, trace: str, cause: JavaError | None = None) -> None:
        super().__init__(message)
        self._stackTrace, self._cause = trace, cause


class CallError(Exception):
    """An error as py4j raises it where PySpark has no class for the exception in the JVM."""

    java_exception = None


def test_a_refused_start_names_the_missing_class_and_the_remedy() -> None:
    reason = reason_in(text_of(CallError(AT_START)))
    assert reason.startswith(f"java.lang.RuntimeException: {NO_S3A}{ADD_JAR}")
    assert reason.count("S3AFileSystem") == 1


def test_a_failed_query_names_the_innermost_java_cause() -> None:
    head = "[STREAM_FAILED] Query [id = 1] terminated with exception: "
    trace = "java.io.IOException: cannot log in\n\tat a.b(c:1)\nCaused by: java.net.UnknownHostException: nowhere\n"
    error = JavaError(f"{head}cannot log in SQLSTATE: XXKST", "at a.b(c:1)", JavaError("cannot log in", trace))
    assert reason_in(text_of(error)) == f"{head}cannot log in; caused by java.net.UnknownHostException: nowhere"
    assert jvm_trace(text_of(error)) == [
        "caused by java.io.IOException",
        "at a.b(c:1)",
        "caused by java.net.UnknownHostException",
    ]


def test_a_cause_with_the_same_message_adds_its_class_alone() -> None:
    head = "[STREAM_FAILED] Query [id = 1] terminated with exception: "
    cause = JavaError("no room", "java.io.IOException: no room\n\tat a.b(c:1)\n")
    reason = reason_in(text_of(JavaError(f"{head}no room SQLSTATE: XXKST", "", cause)))
    assert reason == f"{head}java.io.IOException: no room"
    alone = JavaError("Wrong FS: s3a://b", "java.lang.IllegalArgumentException: Wrong FS: s3a://b\n\tat a.b(c:1)\n")
    assert reason_in(text_of(alone)) == "java.lang.IllegalArgumentException: Wrong FS: s3a://b"


def test_the_cause_is_kept_behind_a_long_message() -> None:
    reason = reason_in(f"{'x' * 5000}\nCaused by: java.io.EOFException\n")
    assert reason.endswith("xxx; caused by java.io.EOFException")
    assert len(reason) < MAX_BYTES


def test_a_users_function_is_the_cause_below_javas() -> None:
    text = """[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake.
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/shop.py", line 5, in price
    raise ValueError("no price")
ValueError: no price
"""
    assert reason_in(text).endswith("PythonException: ValueError: no price (/app/shop.py:5)")


def test_an_error_without_a_jvm_has_its_class() -> None:
    assert reason_in(text_of(KeyError("price"))) == "KeyError: 'price'"


@pytest.mark.parametrize(
    "text",
    [
        SPARKS_OWN,
        "An error occurred while calling o1.start.\n: java.io.IOException: s3a://key:hunter2@bucket/lake\n",
        "jdbc:x://db/y?password=hunter2&user=me cannot be reached",
        "failed: Traceback (most recent call last):\n  File 'a', line 1\nValueError: token=hunter2\n",
    ],
)
def test_secrets_in_a_java_message_are_masked(text: str) -> None:
    reason = reason_in(text)
    assert "***" in reason
    assert "hunter2" not in reason
