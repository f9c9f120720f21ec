"""How often changed facts are told: one machine is bounded, the others are not delayed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fold.fact_changes import CHANGE_S, FactChanges


def test_a_machine_that_flips_does_not_take_the_share_of_the_others() -> None:
    """Twenty changes a second for a minute are told six times; a change of any other machine is told at once."""
    changes, told, others = FactChanges(), 0, []
    for tick in range(1200):
        now_s = 1000.0 + tick / 20
        told += changes.tell("flips", now_s)
        if tick % 100 == 50:
            others.append(changes.tell(f"m{tick}", now_s))
        told += changes.due(now_s)
    assert told == 60 / CHANGE_S
    assert others == [True] * 12
    assert not changes.due(1060.0 - 0.1)
    assert changes.due(1060.0)
    assert not changes.due(2000.0)


@pytest.mark.parametrize(
    ("name", "steps", "told"),
    [
        ("the first at once", [("a", 0)], [True]),
        ("the next not", [("a", 0), ("a", 9)], [True, False]),
        ("after the time at once", [("a", 0), ("a", 10)], [True, True]),
        ("a record time that goes back wins nothing", [("a", 300), ("a", 0), ("a", 301)], [True, False, False]),
        ("each by itself", [("a", 0), ("b", 1), ("a", 2), ("b", 3)], [True, True, False, False]),
    ],
)
def test_when_a_change_is_told(name: str, steps: list[tuple[str, float]], told: list[bool]) -> None:
    """At once, unless the machine's last one was told less than `CHANGE_S` ago."""
    changes = FactChanges()
    assert [changes.tell(machine, at) for machine, at in steps] == told, name


def test_what_was_dropped_is_not_told() -> None:
    """Its next change is a first one again."""
    changes = FactChanges()
    changes.tell("a", 0.0)
    changes.tell("a", 1.0)
    changes.drop({"a"})
    assert not changes.due(100.0)
    assert changes.tell("a", 100.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5)), max_size=60))
def test_every_change_is_told_within_the_bound(steps: list[tuple[str, float]]) -> None:
    """None is lost, none waits longer than `CHANGE_S` while messages come, and none comes too often."""
    changes, now_s, waiting, last = FactChanges(), 0.0, dict[str, float](), dict[str, float]()
    for machine, pause_s in [*steps, *[("d", 1.0)] * 12]:
        now_s += pause_s
        if changes.due(now_s):
            over = [one for one in waiting if last[one] <= now_s - CHANGE_S]
            assert over
            last |= dict.fromkeys(over, now_s)
            waiting = {one: since for one, since in waiting.items() if one not in over}
        if changes.tell(machine, now_s):
            assert now_s - last.get(machine, -CHANGE_S) >= CHANGE_S
            last[machine] = now_s
            waiting.pop(machine, None)
        else:
            waiting.setdefault(machine, now_s)
        assert all(since > now_s - CHANGE_S for since in waiting.values())
