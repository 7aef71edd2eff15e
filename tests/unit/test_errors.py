"""Errors cross processes: from executors as pickles, through the JVM as text."""

from __future__ import annotations

import pickle

import pytest

from dynamic_kafka.errors import (
    ClusterError,
    ClusterRefusedError,
    ClusterUnreachableError,
    DataLossError,
    ErrorCode,
    MetadataInvalidError,
    OptionError,
    ReadTimeoutError,
    cause_of,
)


@pytest.mark.scenario(25)
@pytest.mark.parametrize("kind", [ClusterError, ClusterUnreachableError, ClusterRefusedError, ReadTimeoutError])
def test_a_cluster_error_survives_pickling(kind: type[ClusterError]) -> None:
    error = pickle.loads(pickle.dumps(kind("east", "does not answer")))
    assert type(error) is kind
    assert (error.cluster, error.message) == ("east", "does not answer")
    assert str(error) == f"[{kind.code} cluster=east] does not answer"


@pytest.mark.parametrize("kind", [ClusterError, ClusterUnreachableError, ClusterRefusedError, ReadTimeoutError])
def test_a_code_is_found_in_the_text_of_a_jvm_error(kind: type[ClusterError]) -> None:
    text = (
        f"Py4JJavaError: An error occurred\n  File 'x', line 1\n{kind('we.st-1', 'no progress [for 30s]')}\n\tat java"
    )
    assert ErrorCode.find(text) == ErrorCode(kind.code, "we.st-1")


def test_the_first_code_counts() -> None:
    text = f"{ReadTimeoutError('east', 'a')} caused by {ClusterUnreachableError('west', 'b')}"
    assert ErrorCode.find(text) == ErrorCode("READ_TIMEOUT", "east")


@pytest.mark.parametrize("text", ["", "[SOMETHING cluster=east]", "[READ_TIMEOUT cluster=]", "READ_TIMEOUT east"])
def test_other_texts_have_no_code(text: str) -> None:
    assert ErrorCode.find(text) is None


def test_a_message_without_problems_is_its_only_problem() -> None:
    assert MetadataInvalidError("bad").problems == ("bad",)
    assert MetadataInvalidError("2 problems", ("a", "b")).problems == ("a", "b")


def test_invalid_metadata_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="bad"):
        raise MetadataInvalidError("bad")


IN_A_QUERY = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_\
SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "pyspark/sql/streaming/python_streaming_source_runner.py", line 281, in main
dynamic_kafka.errors.{error}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1, runId = 2]
"""
IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times: org.apache.spark.api.python.\
PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "range_reader.py", line 1, in read_range
dynamic_kafka.errors.{error}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)

Driver stacktrace:
"""
AT_LOAD = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):
  File "spark/source.py", line 35, in schema
dynamic_kafka.errors.{error}
 SQLSTATE: 38000"""


@pytest.mark.parametrize("text", [IN_A_QUERY, IN_A_TASK, AT_LOAD], ids=["query", "task", "load"])
@pytest.mark.parametrize("message", ["one line", "two problems:\n  a.yaml:1: x\n  a.yaml:2: y"])
def test_the_cause_is_our_error_with_its_whole_message(text: str, message: str) -> None:
    cause = cause_of(RuntimeError(text.format(error=f"MetadataInvalidError: {message}")))
    assert type(cause) is MetadataInvalidError
    assert str(cause) == message


def test_the_cause_of_a_cluster_error_names_its_cluster() -> None:
    raised = ReadTimeoutError("east", "no progress [for 30 s]")
    cause = cause_of(RuntimeError(IN_A_TASK.format(error=f"ReadTimeoutError: {raised}")))
    assert isinstance(cause, ReadTimeoutError)
    assert (cause.cluster, cause.message) == ("east", "no progress [for 30 s]")


def test_the_error_that_was_raised_counts_and_not_its_cause() -> None:
    inner = "OptionError: inner\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback ("
    cause = cause_of(RuntimeError(IN_A_QUERY.format(error=f"{inner}most\ndynamic_kafka.errors.DataLossError: outer")))
    assert type(cause) is DataLossError
    assert str(cause) == "outer"


def test_an_error_of_ours_is_its_own_cause_and_others_have_none() -> None:
    own = OptionError("x")
    assert cause_of(own) is own
    assert cause_of(ValueError("the user's own")) is None
    assert cause_of(None) is None


def test_workers_without_the_package_are_a_cause() -> None:
    text = AT_LOAD.replace("dynamic_kafka.errors.{error}", "ModuleNotFoundError: No module named 'dynamic_kafka'")
    assert "PYSPARK_PYTHON that has dynamic-kafka[spark]" in str(cause_of(RuntimeError(text)))
    assert cause_of(RuntimeError(text.replace("dynamic_kafka'", "shop'"))) is None
