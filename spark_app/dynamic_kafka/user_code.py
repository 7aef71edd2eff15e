"""Users' classes and functions, which options and files name as `package.module:Name`. Driver and tools.

Owns their import, and the texts of the errors that they raise.
"""

from __future__ import annotations

import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TypeVar

from dynamic_kafka.errors import DynamicKafkaError, OptionError
from dynamic_kafka.wording import without_secrets

T = TypeVar("T")
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


_PACKAGE = PurePath(__file__).parent


def is_import_path(text: str) -> bool:
    """Return whether a text has the form `package.module:Name`, without importing anything."""
    return _PATH.fullmatch(text) is not None


def import_object(path: str) -> object:
    """Import the class or function that a path names.

    Raises:
        OptionError: the path has another form, its module cannot be imported, or lacks that name.
    """
    if not is_import_path(path):
        raise OptionError(f"{path!r} does not name a class or function; write it as `package.module:Name`")
    module, _, name = path.partition(":")
    try:
        target: object = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # the user's module runs here, and may raise anything
        kind = type(error).__name__
        raise OptionError(
            f"{path}: the module cannot be imported: {kind}: {error}; check the name, and the driver's Python path"
        ) from error
    for step in name.split("."):
        target = getattr(target, step, None)
        if target is None:
            raise OptionError(f"{path}: the module {module!r} has no {name!r}; check the name after the colon")
    return target


def made_of(user_class: Callable[..., T], options: Mapping[str, str]) -> T:
    """Return an object of a user's class: called with the options if it takes an argument, else without one.

    Raises whatever its constructor raises.
    """
    try:
        inspect.signature(user_class).bind()
    except (TypeError, ValueError):  # it needs an argument, or is code in C without a signature
        return user_class(options)
    try:
        inspect.signature(user_class).bind(options)
    except TypeError:
        return user_class()
    return user_class(options)


def error_text(error: BaseException) -> str:
    """Return the type, the text and the place of an error that a user's code raised, without secrets, on one line.

    The text may hold whatever the user's code had at hand, such as a URL with a password. An error of this package has
    a text for users already: it keeps that, without type and place.
    """
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its text cannot be shown"
    shown = without_secrets(text)
    if isinstance(error, DynamicKafkaError):
        return shown
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not PurePath(frame.filename).is_relative_to(_PACKAGE)
    ]
    place = f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {shown}{place}" if shown else f"{type(error).__name__}{place}"
