"""Take requests to stop, from a signal to this process or from the shutdown of the JVM that started it. Driver.

With `python -m`, Python is the parent process. SIGTERM and SIGINT reach it, and the JVM ends with it. Under
spark-submit the JVM is the parent and the only process that gets the signal; its shutdown would end Spark in the
running batch. So the application adds two hooks to Hadoop's shutdown order, which Spark's own hooks are part of:

    1. priority 1000, before Spark's (40): asks the application to stop, and waits until its queries have ended;
    2. priority 1, after all others: ends the JVM with the application's exit code instead of 143.

A test with Spark 4.3 showed that Python can still call a JVM that is shutting down, and that queries stop as usual.
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
"""Seconds beyond the grace period that stopping may take, before Hadoop cancels a hook."""

log = logging.getLogger(__name__)


class StopRequest:
    """The request to stop the application.

    Attributes:
        reason: the signal, or the JVM's shutdown; None while nothing has asked.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._exit_code = 0
        self._hooks: list[Any] = []
        self._hook_manager: Any = None

    def ask(self, reason: str) -> None:
        """Ask to stop. Asking again changes nothing."""
        if not self._asked.is_set():
            self.reason = reason
            # Py4J logs a traceback for each call that fails because the JVM ends at the same time.
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
            self._asked.set()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a request; return whether there is one."""
        return self._asked.wait(timeout_s)

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT as requests. Call it again after Spark's start, since PySpark replaces SIGINT."""

        def on_signal(number: int, _frame: FrameType | None) -> None:
            self.ask(signal.Signals(number).name)

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)

    def on_jvm_shutdown(self, spark: SparkSession, grace_s: float) -> None:
        """Take the JVM's shutdown as a request, and delay it until `ended` is called or the grace period is over."""
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        jvm = gateway.jvm
        self._hook_manager = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
        seconds = jvm.java.util.concurrent.TimeUnit.SECONDS

        def before_spark() -> None:
            self.ask("shutdown of the JVM")
            self._ended.wait(grace_s + MARGIN_S)

        def after_all() -> None:
            # `halt` ends the JVM before it answers, so the call fails here, and this process ends as well.
            try:
                jvm.java.lang.Runtime.getRuntime().halt(self._exit_code)
            finally:
                os._exit(self._exit_code)

        for action, priority in ((before_spark, BEFORE_SPARK), (after_all, AFTER_ALL)):
            # A Java thread, never started, keeps its identity over Py4J; a hook needs that to be removed again.
            hook = jvm.java.lang.Thread(_Runnable(action))
            self._hook_manager.addShutdownHook(hook, priority, int(grace_s) + 2 * MARGIN_S, seconds)
            self._hooks.append(hook)

    def ended(self, exit_code: int) -> None:
        """Let a shutdown of the JVM continue, now that the queries have ended; it then ends this process too.

        If the JVM is not shutting down, remove the hooks: they must not call a Python process that has ended.
        """
        self._exit_code = exit_code
        if self._hook_manager is None:
            return
        self._ended.set()
        try:
            if self._hook_manager.isShutdownInProgress():
                threading.Event().wait(2 * MARGIN_S)
            for hook in self._hooks:
                self._hook_manager.removeShutdownHook(hook)
        except Exception as error:
            log.debug("the JVM had already ended: %s", type(error).__name__)


class _Runnable:
    """A `java.lang.Runnable` over Py4J."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def run(self) -> None:
        """Run the action; the JVM calls this."""
        self._action()

    class Java:
        implements = ("java.lang.Runnable",)
