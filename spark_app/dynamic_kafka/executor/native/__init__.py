"""The native reader's extension in C, and whether a process can use it. Runs on executors; the driver checks it, too.

`reader.c` is built where a C compiler is; an installation without it reads in Python, and so does a process with
`DYNAMIC_KAFKA_NATIVE=no` in its environment. Decision 028 has the reasons.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, cimpl

from dynamic_kafka.kafka.background import quiet_logger

PLUGIN = "plugin.library.paths"
"""librdkafka's property by which the extension gets at the client that confluent's `Consumer` makes."""

SWITCH = "DYNAMIC_KAFKA_NATIVE"
"""The environment variable with which a build (`setup.py`) or a process goes without the extension, if it is `no`."""


class Extension(Protocol):
    """The module `_reader`. `claim` returns its view of the client that this thread has made last, None without one."""

    __file__: str

    def load(self, path: str) -> None: ...
    def forget(self) -> None: ...
    def claim(self) -> Any: ...


@functools.cache
def load() -> Extension | str:
    """Return the extension, or the reason why this process cannot use it."""
    if os.environ.get(SWITCH) == "no":
        return f"{SWITCH}=no"
    try:
        extension: Extension = importlib.import_module(f"{__name__}._reader")  # type: ignore[assignment]
        if ";" in extension.__file__:
            return f"the path of the extension has a semicolon: {extension.__file__}"
        extension.load(cimpl.__file__)
        # Some builds of librdkafka load no plugins. A client without servers connects to nothing.
        extension.forget()
        Consumer({"group.id": "dynamic-kafka", PLUGIN: extension.__file__}, logger=quiet_logger()).close()
        return extension if extension.claim() is not None else "librdkafka does not hand its clients to plugins"
    except (ImportError, KafkaException) as error:
        return f"the extension is not part of this installation, or does not fit it: {error}"
