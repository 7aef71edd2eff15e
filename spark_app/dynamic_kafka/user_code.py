"""Import of users' classes and functions, which options and files name as `package.module:Name`. Driver and tools."""

from __future__ import annotations

import importlib
import re

from dynamic_kafka.errors import OptionError

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


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
        found: object = importlib.import_module(module)
    except Exception as error:  # the user's module runs here, and may raise anything
        raise OptionError(
            f"{path}: the module cannot be imported: {type(error).__name__}: {error}; check the name, and that the"
            " driver has it on its path"
        ) from error
    for step in name.split("."):
        found = getattr(found, step, None)
        if found is None:
            raise OptionError(f"{path}: the module {module!r} has no {name!r}; check the name after the colon")
    return found
