"""The live table: all other lines on the terminal come above it, whole."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import termios
from collections.abc import Callable

import pytest

from dynamic_kafka.app.query.session import relayed
from dynamic_kafka.app.telemetry.live_table import show_progress
from dynamic_kafka.app.telemetry.logs import set_up_logs
from dynamic_kafka.driver.report.sink_status import StatusBoard
from tests.support.waiting import eventually

CHILD = "import sys; print('a row', flush=True); print('a warning', file=sys.stderr)"
IN_THE_BACKGROUND = """
import fcntl, os, sys, termios
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.app.telemetry.live_table import show_progress
_, terminal = os.openpty()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.dup2(terminal, 0)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    show_progress("shop", StatusBoard(["lake"]), dict)()
    os._exit(0)
_, state = os.waitpid(child, os.WUNTRACED)
sys.exit("the kernel has stopped the child" if os.WIFSTOPPED(state) else state)
"""
"""A session leader at a terminal, and a child as a shell's `&` starts it."""
CLEARED, TABLE_END = "\x1b[2K", "┘"


class Terminal(io.StringIO):
    """A terminal that keeps what it gets."""

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace the streams by a terminal. No fixture: pytest sets its own streams after a test's set-up."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def child() -> None:
    with relayed() as streams:
        process = subprocess.Popen([sys.executable, "-c", CHILD], **streams)  # type: ignore[call-overload]
    assert process.wait() == 0


def log_line() -> None:
    logging.getLogger("dynamic_kafka.test").info("a line")


@pytest.mark.parametrize(("write", "texts"), [(child, ["a row", "a warning"]), (log_line, [" INFO a line"])])
def test_a_live_table_is_drawn_below_what_else_is_written(
    write: Callable[[], None], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = at_a_terminal(monkeypatch)
    set_up_logs("text")
    stop = show_progress("shop", StatusBoard(["lake"]), dict)
    try:
        assert eventually(lambda: TABLE_END in terminal.getvalue())
        write()
        for text in texts:
            assert eventually(lambda text=text: text in terminal.getvalue())  # type: ignore[misc]
    finally:
        stop()
    # Otherwise a line would begin after the table's last line, and the next table would overwrite too few lines.
    for text in texts:
        assert TABLE_END not in terminal.getvalue().partition(text)[0].rpartition(CLEARED)[2]


def test_lines_go_to_the_standard_error_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = at_a_terminal(monkeypatch), Terminal()
    set_up_logs("text")
    log_line()
    assert "a line" in first.getvalue()
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    log_line()
    assert "a line" in second.getvalue()


def test_a_childs_redirected_rows_are_not_passed_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # a file or a pipe: the child has it, too, and keeps it
    child()
    assert eventually(lambda: "a warning\n" in terminal.getvalue())
    assert capfd.readouterr().out == "a row\n"
    assert "a row" not in terminal.getvalue()


def test_a_childs_output_comes_before_the_error_of_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), relayed() as streams:
        subprocess.run([sys.executable, "-c", CHILD], check=True, **streams)  # type: ignore[call-overload]
        _ = 1 / 0
    assert "a warning\n" in terminal.getvalue()


def test_a_stop_leaves_no_noise_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    noise = "26/11/22 19:55:05 WARN DAGScheduler: Failed to cancel job group 7. Cannot find active jobs for it."
    code = f"import sys; print({noise!r}, file=sys.stderr); print('another line', file=sys.stderr)"
    with relayed() as streams:
        process = subprocess.Popen([sys.executable, "-c", code], **streams)  # type: ignore[call-overload]
    assert process.wait() == 0
    assert eventually(lambda: "another line" in terminal.getvalue())
    assert "DAGScheduler" not in terminal.getvalue()


def test_no_control_character_is_echoed_into_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with open(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(terminal)
        stop = show_progress("shop", StatusBoard(["lake"]), dict)
        try:
            assert before[3] & termios.ECHOCTL
            assert not termios.tcgetattr(terminal)[3] & termios.ECHOCTL
        finally:
            stop()
        assert termios.tcgetattr(terminal) == before
    os.close(ours)


def test_a_table_in_the_background_is_not_stopped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_BACKGROUND], start_new_session=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
