"""What kafka-python says while the broker is away."""

import logging

from schemas.process.logs import OncePerMinute


def record(name: str, line: int) -> logging.LogRecord:
    """Return a log record of one place in one library, with a traceback."""
    error = OSError("gone")
    return logging.LogRecord(name, logging.ERROR, "path", line, "away", (), (OSError, error, error.__traceback__))


def test_a_library_says_each_thing_once_in_a_while():
    """The same line of the library is heard once, another line too, and everybody else always."""
    shown = OncePerMinute("kafka")
    said = [
        ("kafka.net", 1, True),
        ("kafka.net", 1, False),
        ("kafka.net", 2, True),
        ("kafka.cluster", 1, True),
        ("kafkaesque", 1, True),
        ("windward.agent", 1, True),
        ("windward.agent", 1, True),
    ]
    assert [shown.filter(record(name, line)) for name, line, _ in said] == [heard for *_, heard in said]


def test_it_is_heard_again_after_the_period():
    """A period of nothing lets everything through, without tracebacks."""
    shown = OncePerMinute("kafka", period_s=0.0)
    again = record("kafka.net", 1)
    assert [shown.filter(record("kafka.net", 1)), shown.filter(again)] == [True, True]
    assert again.exc_info is None
