"""A list that is drawn again and again."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import pytest

from ops.cli import main as cli
from schemas.process.settings import SettingsError
from scorer.client import WindwardError
from scorer.commands.shared import watch
from scorer.commands.shared.watch import ListedSettings, listed

AWAY = WindwardError("UNAVAILABLE", "no connection", retryable=True)
WRONG = WindwardError("INVALID_ARGUMENT", "no such column")


class Terminal(io.StringIO):
    """A terminal whose user presses Ctrl-C when the answers are over."""

    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, *answers: str | WindwardError) -> list[str]:
    """Return the frames of these answers, without what moves the cursor."""
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("COLUMNS", "80")
    waited, left = [], list(answers)

    def sleep(wait_s: float) -> None:
        waited.append(wait_s)
        if not left:
            raise KeyboardInterrupt

    def find() -> tuple[list[str], Any]:
        answer = left.pop(0)
        if isinstance(answer, WindwardError):
            raise answer
        return answer.split("\n"), lambda found, _: "\n".join(found)

    monkeypatch.setattr(watch.time, "sleep", sleep)
    monkeypatch.setattr(watch.time, "strftime", lambda _: "12:00:00")
    with redirect_stdout(Terminal()) as terminal, pytest.raises(KeyboardInterrupt):
        listed(ListedSettings(watch=True), find)
    assert waited == [2.0] * len(answers)
    first, *frames = terminal.getvalue().split("\x1b[H")
    assert first == "\x1b[2J"
    assert all(frame.endswith("\x1b[K\x1b[J\n") for frame in frames)
    return [frame.replace("\x1b[K", "").removesuffix("\x1b[J\n") for frame in frames]


def test_it_is_drawn_again_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the frame before, cut to the terminal's height; what it counts stays."""
    frames = drawn(monkeypatch, "id\na\n1 of 1", "id\na\nb\n2 of 2", "id\na\nb\nc\n3 of 3")
    assert frames == [
        "12:00:00\nid\na\n1 of 1", "12:00:00\nid\na\nb\n2 of 2", "12:00:00\nid\na\n(2 more lines)\n3 of 3",
    ]  # fmt: skip


def test_a_list_stays_while_the_scorer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason in the heading, until there is another."""
    frames = drawn(monkeypatch, "1 of 1", AWAY, "2 of 2")
    assert frames == [
        "12:00:00\n1 of 1",
        "12:00:00; no connection: the list is from before\n1 of 1",
        "12:00:00\n2 of 2",
    ]


@pytest.mark.parametrize("errors", [[AWAY], ["1 of 1", WRONG]])
def test_an_error_ends_it(monkeypatch: pytest.MonkeyPatch, errors: list[str | WindwardError]) -> None:
    """At the beginning any, later one that would come again."""
    with pytest.raises(WindwardError):
        drawn(monkeypatch, *errors)


def test_it_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, or where nothing can be drawn over, it is refused."""
    with pytest.raises(SettingsError, match="standard output is no terminal"):
        listed(ListedSettings(watch=True), lambda: ("", lambda *_: ""))
    for command in ("machines", "instances"):
        assert cli.main([command, "--watch", "--json"]) == 2
        assert "watch: for a terminal, not with --json" in capsys.readouterr().err
