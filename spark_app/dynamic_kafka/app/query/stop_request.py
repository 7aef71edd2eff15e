"""Be told to stop, whoever is told first: this process, or the JVM that started it.

Driver. `python -m` makes Python the parent: SIGTERM and SIGINT reach it, the JVM below it ends when it does. Under
spark-submit the JVM is the parent, the signal reaches it alone, and its shutdown would take Spark away from under the
running batch. Two hooks in Hadoop's shutdown order, which Spark's own hooks are part of, hold it:

    1. priority 1000, before Spark's (40): tells this process to stop and waits until its queries have ended;
    2. priority 1, after all others: ends the JVM with the application's exit code instead of 143.

Measured with Spark 4.3: Python goes on talking to a JVM that is shutting down, and a query is stopped as usual.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE_SPARK = 1000
"""Hadoop runs shutdown hooks from the highest priority to the lowest; Spark's run at 40, file systems close at 10."""
AFTER_ALL = 1
MARGIN_S = 10
"""What ending takes beyond the grace period, before Hadoop gives a hook up."""

log = logging.getLogger(__name__)


class StopRequest:
    """Whether the application was asked to stop, and by what."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._exit_code = 0
        self._held: list[Any] = []
        self._hooks: Any = None

    def ask(self, reason: str) -> None:
        """Ask to stop. Asking again changes nothing."""
        if not self._asked.is_set():
            self.reason = reason
            # A JVM that ends at the same time takes calls away from under Py4J, which logs a traceback of each.
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
            self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether anyone has asked."""
        return self._asked.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody asks."""
        return self._asked.wait(timeout_s)

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT as a request. Call it again once a session is there: PySpark takes SIGINT."""

        def told(number: int, _frame: FrameType | None) -> None:
            self.ask(signal.Signals(number).name)

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)

    def on_jvm_shutdown(self, spark: SparkSession, grace_s: float) -> None:
        """Take the JVM's shutdown as a request, and hold it until `ended` was called or the grace period is over."""
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        jvm = gateway.jvm
        self._hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
        seconds = jvm.java.util.concurrent.TimeUnit.SECONDS

        def first() -> None:
            self.ask("shutdown of the JVM")
            self._ended.wait(grace_s + MARGIN_S)

        def last() -> None:
            # Python dies with the JVM's answer: nobody is left to answer to.
            try:
                jvm.java.lang.Runtime.getRuntime().halt(self._exit_code)
            finally:
                os._exit(self._exit_code)

        for action, priority in ((first, BEFORE_SPARK), (last, AFTER_ALL)):
            # A thread's object, never started, keeps its identity over py4j, which a hook needs to be taken out again.
            hook = jvm.java.lang.Thread(_Runnable(action))
            self._hooks.addShutdownHook(hook, priority, int(grace_s) + 2 * MARGIN_S, seconds)
            self._held.append(hook)

    def ended(self, exit_code: int) -> None:
        """The queries have ended. If the JVM is shutting down it now goes on, and ends this process with it.

        Otherwise the hooks are taken out, so that a JVM that ends after Python asks nobody.
        """
        self._exit_code = exit_code
        if self._hooks is None:
            return
        self._ended.set()
        try:
            if self._hooks.isShutdownInProgress():
                threading.Event().wait(2 * MARGIN_S)
            for hook in self._held:
                self._hooks.removeShutdownHook(hook)
        except Exception as error:
            log.debug("the JVM has ended before: %s", type(error).__name__)


class _Runnable:
    """A `java.lang.Runnable` over py4j."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def run(self) -> None:
        """Called by the JVM."""
        self._action()

    class Java:
        implements = ("java.lang.Runnable",)
