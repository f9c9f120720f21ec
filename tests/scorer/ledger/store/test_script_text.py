"""What a server gets as a script: the functions that it uses, constants put in, no comment."""

from __future__ import annotations

import re

from scorer.ledger.store.script_text import SCRIPTS, script_text
from tests.rows import each_row

MADE = re.compile(r"^local function (\w+)", re.MULTILINE)


@each_row("name", SCRIPTS)
def test_a_script_has_the_functions_it_uses(name: str) -> None:
    """Each function of a script is used after it was made, and no name in capitals is left but those of the server."""
    text = script_text(name)
    for found in MADE.finditer(text):
        assert re.search(rf"\b{found[1]}\b", text[found.end() :]), found[1]
    assert not re.search(r"\b(HEAD|EXPIRY|SWEEP_MAX|FORMAT|CLOCK|SCRIPT|QUERY|FIRST|TAIL)\b|--", text)


def test_functions_of_other_scripts_are_left_out() -> None:
    """A release needs no limits, a reservation no move, a lease nothing."""
    lease, release, reserve = (set(MADE.findall(script_text(name))) for name in ("lease", "release", "reserve"))
    assert "misfit" in reserve - release
    assert not lease
    assert "arrive" in set(MADE.findall(script_text("confirm"))) - reserve


def test_a_constant_is_replaced() -> None:
    """A test's clock, the scorer's number of leavers."""
    text = script_text("confirm", CLOCK="{'7', '0'}", LEAVERS_MOST="3")
    assert "local time = {'7', '0'}" in text
    assert "> 3 then" in text
    assert "redis.call('TIME')" not in text
