"""Set up the Python process in which Spark plans batches. Runs on the driver, called by the readers."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable

from dynamic_kafka.driver.driver_log import log_to_standard_error
from dynamic_kafka.metadata import discovery

_GC_THRESHOLDS = (500_000, 10, 10)
"""`gc.set_threshold`: net new objects before a collection of the young ones, then collections before older ones."""
STOP_S = 2.0
"""The time that a query has to stop after SIGTERM."""


def set_up_planner_process() -> None:
    """Make the planner's log visible, and its garbage collection cheap. A second call changes nothing."""
    log_to_standard_error()
    logging.getLogger(discovery.__name__).addFilter(_is_not_repeated)
    # A plan of 10,000 splits makes some hundred thousand objects, none of them in cycles. With Python's defaults, the
    # collector would scan all objects several times a plan, which is a third of its CPU time. From 10,000 objects on it
    # still takes a quarter of a plan of 50,000 splits.
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.freeze()  # imported modules stay for ever: no collection needs to scan them


def _is_not_repeated(record: logging.LogRecord) -> bool:
    return record.msg != discovery.WAS_READ


def stop_when_terminated(stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM: with it, Spark ends the planner process of a stopped query, without a call of its own.

    `stop` runs in another thread, because the signal may arrive while the main thread holds a lock. It gets `STOP_S`
    seconds; then the process ends. Outside the main thread, or if SIGTERM has a handler, nothing is installed.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def terminated(_signal: int, _frame: object) -> None:
        stopping = threading.Thread(target=stop, name="terminated", daemon=True)
        stopping.start()
        stopping.join(STOP_S)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminated)
