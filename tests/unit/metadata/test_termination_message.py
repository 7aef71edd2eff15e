"""The termination message: the application writes it, and the operator reads it back."""

from __future__ import annotations

import pytest

from dynamic_kafka.metadata.termination_message import MAX_BYTES, TerminationMessage


def test_a_message_is_read_back_as_it_was_written() -> None:
    for each in (TerminationMessage(5, "ClusterError: x\ny"), TerminationMessage.of_finished(1, 12)):
        assert TerminationMessage.parse(each.text()) == each
    assert len(TerminationMessage(6, "x" * 5000).text()) == MAX_BYTES
    wide = TerminationMessage(6, "\N{GRINNING FACE}" * 5000).text()
    assert wide.startswith("exit code 6: ") and MAX_BYTES - 4 < len(wide.encode()) <= MAX_BYTES


def test_a_finished_driver_says_so_with_counts() -> None:
    message = TerminationMessage.of_finished(2, 1)
    assert message.text() == "exit code 0: finished for good: 2 sinks, 1 split read to the end"
    assert message.is_finished


@pytest.mark.parametrize(
    "text", ["exit code 0: finished", "exit code 0: SIGTERM", "exit code 6: finished for good: 1 sink, 1 split"]
)
def test_no_other_end_counts_as_finished(text: str) -> None:
    # The first one is what each run with `availableNow` writes, and what older images write in any case.
    message = TerminationMessage.parse(text)
    assert message is not None and not message.is_finished


@pytest.mark.parametrize("text", ["", "finished for good: 1 sink", "killed", "see exit code 0: finished for good: x"])
def test_the_words_of_another_program_are_no_message(text: str) -> None:
    assert TerminationMessage.parse(text) is None
