"""Classes and functions of the user's own, named in options and files as `package.module:Name`. Driver and tools."""

from __future__ import annotations

import importlib
import re

from dynamic_kafka.errors import OptionError

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def is_path(text: str) -> bool:
    """Whether it has the form `package.module:Name`; what is there is not looked at."""
    return _PATH.fullmatch(text) is not None


def load(path: str) -> object:
    """What a path names, its module imported.

    Raises:
        OptionError: the path has another form, its module does not import, or has nothing of that name.
    """
    if not is_path(path):
        raise OptionError(f"{path!r} names no class or function; write it as `package.module:Name`")
    module, _, name = path.partition(":")
    try:
        found: object = importlib.import_module(module)
    except Exception as error:  # a module's own code runs here, and may raise anything
        raise OptionError(
            f"{path}: the module does not import: {type(error).__name__}: {error}; check the name, and that the driver"
            " has it on its path"
        ) from error
    for step in name.split("."):
        found = getattr(found, step, None)
        if found is None:
            raise OptionError(f"{path}: the module {module!r} has no {name!r}; check the name after the colon")
    return found
