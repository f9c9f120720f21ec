"""The table of transitions is whole."""

from __future__ import annotations

import typing

from scorer.instance import State
from scorer.reservations import LIVE, TRANSITIONS, Step, Verdict


def test_every_state_has_every_step() -> None:
    """There is one entry for each state, unknown included, and each step; each leads to a state or a verdict."""
    states = (None, *typing.get_args(State))
    assert set(TRANSITIONS) == {(state, step) for state in states for step in typing.get_args(Step)}
    assert set(TRANSITIONS.values()) <= {*typing.get_args(State), *typing.get_args(Verdict)}


def test_what_has_ended_stays_ended() -> None:
    """No step leads from an ended state to another state, and each step taken twice changes nothing more."""
    for (state, step), following in TRANSITIONS.items():
        if state is not None and state not in LIVE:
            assert following in ("REPEAT", "FAILED_PRECONDITION")
        if following in typing.get_args(State) and step != "update":
            assert TRANSITIONS[following, step] == "REPEAT"  # type: ignore[index]
