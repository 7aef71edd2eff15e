"""Errors cross processes: from executors as pickles, through the JVM as text."""

from __future__ import annotations

import pickle

import pytest

from dynamic_kafka.errors import (
    ClusterError,
    ClusterRefusedError,
    ClusterUnreachableError,
    ErrorCode,
    MetadataInvalidError,
    ReadTimeoutError,
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
