"""Show our errors briefly: short tracebacks from Spark's Python processes, and the cause alone in the user's driver.

Spark repeats a Python traceback in its log and in the text of its exception. The frames of this package say nothing to
a user whose option or cluster is wrong, and would bury the message.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable
from itertools import takewhile
from types import TracebackType
from typing import Any

from dynamic_kafka.errors import DynamicKafkaError, cause_of

_SPARKS = ("/pyspark/", "/py4j/", "/dynamic_kafka/")
"""Parts of the paths of frames where the user's own code ends."""
_NOTEBOOKS = ("/IPython/",)
"""Parts of the paths of frames that call the user's code."""

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


class WithoutFrames(contextlib.ContextDecorator):
    """A decorator or context that raises our errors without the frames inside this package."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise one of our errors anew, with its explicit cause: that may be an error of the user's own class."""
        if isinstance(error, DynamicKafkaError):
            raise error.with_traceback(None) from error.__cause__


def show_causes() -> None:
    """Show an uncaught exception of Spark's as the user's own frames and our error, in a script, shell or notebook.

    All other exceptions are shown as before. A second call changes nothing.
    """
    if not isinstance(sys.excepthook, _CauseHook):
        sys.excepthook = _CauseHook(sys.excepthook)
    shell = _notebook()
    if shell is not None and not shell.custom_exceptions:  # the user may have a handler already
        from pyspark.errors.exceptions import captured

        kinds = [value for value in vars(captured).values() if isinstance(value, type) and issubclass(value, Exception)]
        shell.set_custom_exc(tuple(kinds), _show_in_notebook)


def cause_text(error: BaseException, trace: TracebackType | None) -> str | None:
    """Return the user's frames and our error in an exception of Spark's; None if it holds none of our errors."""
    cause = cause_of(error)
    if cause is None or cause is error:
        return None
    own = takewhile(lambda frame: not _is_in(_SPARKS, frame), traceback.extract_tb(trace))
    frames = traceback.format_list([frame for frame in own if not _is_in(_NOTEBOOKS, frame)])
    head = ["Traceback of your own code (most recent call last):\n", *frames] if frames else []
    return f"{''.join(head)}{type(error).__name__}, caused by\n{type(cause).__name__}: {cause}\n"


class _CauseHook:
    """An `sys.excepthook` that falls back to the one before it."""

    def __init__(self, before: Hook) -> None:
        self._before = before

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = cause_text(error, trace)
        if text is None:
            self._before(kind, error, trace)
        else:
            sys.stderr.write(text)


def _is_in(folders: tuple[str, ...], frame: traceback.FrameSummary) -> bool:
    return any(folder in frame.filename for folder in folders)


def _notebook() -> Any:
    """Return IPython's shell, which runs notebooks, too; None in another Python."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def _show_in_notebook(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: int | None = None
) -> None:
    text = cause_text(error, trace)
    if text is None:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    else:
        sys.stderr.write(text)
