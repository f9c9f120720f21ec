"""Progress on a terminal and elsewhere."""

import io
import logging

import pytest

from streams.load_generator.loop import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_terminal_gets_one_line_that_is_redrawn():
    """At most ten times a second, and a full bar with a line end when done."""
    stream = Terminal()
    progress = Progress(100, stream, started_s=0)
    for done in range(100):
        progress.update(done, now_s=done / 100)
    progress.finish(100, now_s=1.0)
    drawn = stream.getvalue().split("\r")
    assert 8 <= len(drawn) <= 13
    assert " 10%  10/100  100/s" in stream.getvalue()
    assert drawn[-1].endswith("100%  100/100  100/s\n")


def test_elsewhere_it_is_a_log_line_now_and_then(caplog: pytest.LogCaptureFixture):
    """Every five seconds and at the end, nothing on the stream."""
    stream = io.StringIO()
    with caplog.at_level(logging.INFO, "windward.fleet"):
        progress = Progress(100, stream, started_s=0)
        for second in range(13):
            progress.update(second * 8, now_s=second)
        progress.finish(100, now_s=12.5)
    assert [record.getMessage() for record in caplog.records] == [
        "fleet.backfill.progress",
        "fleet.backfill.progress",
        "fleet.backfill.done",
    ]
    assert stream.getvalue() == ""
