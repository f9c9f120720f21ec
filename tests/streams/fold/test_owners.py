"""Of two live hosts under one name the first goes on; how often changed facts are told."""

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, encode
from schemas.values.hosts import host_key
from streams.fold.batch import Arrived
from streams.fold.fact_changes import CHANGE_S, FactChanges
from streams.fold.refusals import HELD_S
from streams.state.checkpoint import decode_vitals, encode_vitals
from streams.state.partition import Partition
from tests.effort import examples
from tests.streams.batches import START, sample
from tests.streams.state.test_partition import partition


def of(host, slot, **more):
    """A sample of machine ``m`` from a host ("": it says none)."""
    return sample("m", slot, host_id=host, **more)


def facts_of(host, slot):
    return MachineFacts(v=1, machine="m", boot=1, at=START + slot * 10, labels={"by": host}, host_id=host)


def log_of(messages):
    return [Arrived(k, encode(one), one.at + 1, b"m") for k, one in enumerate(messages)]


def fold(state, messages):
    """Fold messages one by one; return "" for each that was taken, else why not."""
    found = []
    for one in log_of(messages):
        outcome = state.fold([one])
        found.append(outcome.refused[0][1].reason if outcome.refused else "")
    return found


TAKEN = "name-taken"
HELD_SLOTS = int(HELD_S // 10)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        pytest.param([of("a", 0), of("b", 1), of("a", 2)], ["", TAKEN, ""], id="the first goes on"),
        pytest.param([of("", 0), of("b", 1), of("", 2)], ["", "", ""], id="without an id all is as before"),
        pytest.param([of("", 0), of("b", 1), of("a", 2)], ["", "", TAKEN], id="the first that says an id has the name"),
        pytest.param([of("a", 0), of("b", HELD_SLOTS)], ["", TAKEN], id="at the end of the hold"),
        pytest.param(
            [of("a", 0), of("b", HELD_SLOTS + 1), of("a", HELD_SLOTS + 2)], ["", "", TAKEN], id="the silent is replaced"
        ),
        pytest.param(
            [of("a", 0, interval_s=600.0), of("b", HELD_SLOTS + 1), of("b", 181)], ["", TAKEN, ""], id="slow agents"
        ),
        pytest.param([of("a", 0), facts_of("b", 1), facts_of("a", 2)], ["", TAKEN, ""], id="facts too"),
        pytest.param([facts_of("b", 0), of("a", 1), facts_of("b", 2)], ["", "", TAKEN], id="facts take no name"),
    ],
)
def test_which_host_goes_on(messages, found):
    state = partition()
    assert fold(state, messages) == found
    refused = [one for one, why in zip(messages, found, strict=True) if why]
    assert set(state.taken) == ({"m"} if refused else set())
    if refused:
        assert state.taken["m"] == (f"{host_key(refused[-1].host_id):016x}", refused[-1].at + 1)
        assert state.taken_lately(refused[-1].at + 901) == {}


def test_what_is_refused_leaves_no_trace_in_the_windows():
    state, alone = partition(), partition()
    fold(state, [of("a", 0), of("b", 1), of("a", 1), of("b", 2, boot=9), of("a", 2)])
    fold(alone, [of("a", 0), of("a", 1), of("a", 2)])
    assert encode_vitals(state.ring) == encode_vitals(alone.ring)
    np.testing.assert_array_equal(state.ring.mean, alone.ring.mean)


@settings(max_examples=examples(40, 400), deadline=None)
@given(seed=st.integers(0, 2**16), cuts=st.sets(st.integers(1, 59), max_size=12))
@example(seed=47, cuts=set())  # the new owner's facts are recorded before its first sample
def test_batches_do_not_matter(seed, cuts):
    """Owners, windows, facts and refusals are those of the log read one by one."""
    rng = random.Random(seed)
    slot, messages = 0, []
    for _ in range(60):
        slot += rng.choice([0, 1, 1, 2, HELD_SLOTS + 2])
        make = facts_of if rng.random() < 0.2 else of
        messages.append(make(rng.choice(["a", "a", "b", "c", ""]), slot))
    one_by_one = partition()
    refusals = fold(one_by_one, messages)
    state, found = partition(), [""] * len(messages)
    log = log_of(messages)
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(log)], strict=True):
        for arrived, refused in state.fold(log[first:last]).refused:
            found[arrived.offset] = refused.reason
    assert found == refusals
    assert encode_vitals(state.ring) == encode_vitals(one_by_one.ring)
    assert state.facts == one_by_one.facts


def test_a_log_read_again_onto_its_state_refuses_what_it_refused():
    """Samples of the host that had the name before are taken again; those refused then are refused again."""
    messages = [of("a", 0), of("b", 1), of("a", 2), of("b", HELD_SLOTS + 4), of("a", HELD_SLOTS + 5)]
    state = partition()
    first = fold(state, messages)
    assert first == ["", TAKEN, "", "", TAKEN]
    assert fold(state, messages) == first


def test_the_owner_is_stored_with_the_vitals():
    state = partition()
    fold(state, [of("a", 0)])
    again = decode_vitals(encode_vitals(state.ring))
    assert again.owner[0] == host_key("a")
    assert again.owner_until[0] == START + 3 + 1 + HELD_S
    assert fold(Partition(0, state.table, again), [of("b", 1)]) == [TAKEN]


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
def test_when_a_change_is_told(name, steps, told):
    """At once, unless the machine's last one was told less than `CHANGE_S` ago."""
    changes = FactChanges()
    assert [changes.tell(machine, at) for machine, at in steps] == told, name


def test_what_was_dropped_is_not_told():
    changes = FactChanges()
    changes.tell("a", 0.0)
    changes.tell("a", 1.0)
    changes.drop({"a"})
    assert not changes.due(100.0)
    assert changes.tell("a", 100.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5)), max_size=60))
def test_every_change_is_told_within_the_bound(steps):
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
