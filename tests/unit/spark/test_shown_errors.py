"""A mistake of the user's is shown as its cause, and not below a hundred lines of Spark's."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from pyspark.errors.exceptions.captured import StreamingQueryException

from dynamic_kafka.errors import OptionError
from dynamic_kafka.spark.shown_errors import WithoutFrames, show_causes
from tests.unit.test_errors import IN_A_QUERY

FAILED = RuntimeError(IN_A_QUERY.format(error="OptionError: unknown option 'a'; did you mean 'b'?"))


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The exceptions that reach the excepthook of before."""
    shown: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _trace: shown.append(error))
    return shown


def show(error: BaseException) -> None:
    try:
        raise error
    except BaseException as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)


def test_the_cause_is_the_end_of_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_causes()
    show(FAILED)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == ["RuntimeError, caused by", "OptionError: unknown option 'a'; did you mean 'b'?"]
    assert len(lines) <= 6
    assert any("test_shown_errors.py" in line for line in lines)


def test_other_exceptions_are_shown_as_before(hook: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    show_causes()
    for error in (ValueError("the user's own"), OptionError("raised in the driver itself")):
        show(error)
        assert hook.pop() is error
    assert capsys.readouterr().err == ""


def test_a_second_call_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show_causes()
    show_causes()
    show(FAILED)
    assert capsys.readouterr().err.count("caused by") == 1


def test_a_notebook_shows_the_cause_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    module: Any = types.ModuleType("IPython")
    module.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", module)
    show_causes()
    assert StreamingQueryException in shell.custom_exceptions
    shell.handler(shell, RuntimeError, FAILED, None, tb_offset=1)
    assert capsys.readouterr().err.endswith("\nOptionError: unknown option 'a'; did you mean 'b'?\n")
    shell.handler(shell, ValueError, other := ValueError("x"), None, tb_offset=1)
    assert shell.shown == [other]


class Shell:
    """The part of IPython's shell that shows exceptions."""

    def __init__(self) -> None:
        self.custom_exceptions: tuple[type, ...] = ()
        self.shown: list[BaseException] = []

    def set_custom_exc(self, kinds: tuple[type, ...], handler: Any) -> None:
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, raised: tuple[Any, BaseException, Any], tb_offset: int | None) -> None:
        self.shown.append(raised[1])


def test_our_errors_lose_their_frames_and_keep_their_cause() -> None:
    def deep() -> None:
        raise OptionError("x") from KeyError("the user's class")

    with pytest.raises(OptionError) as caught, WithoutFrames():
        deep()
    assert "deep" not in [entry.name for entry in caught.traceback]
    assert isinstance(caught.value.__cause__, KeyError)
