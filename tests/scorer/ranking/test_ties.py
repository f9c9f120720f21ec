"""Ties: the first by name, or by lot for each instance, the same in a batch as one after the other."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import plan
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request, toml

SCORES = [{"use": "least_allocated"}]
DRAW = parse_profile(toml({"ties": "draw", "scores": SCORES}), "draw")
NAME = parse_profile(toml({"scores": SCORES}), "name")


def hosts(count: int) -> list[dict[str, object]]:
    """Return machines that are all alike."""
    return [machine(f"m{n:02}", usage={"cpu": 1, "memory": 1}) for n in range(count)]


def test_without_the_setting_the_first_by_name_is_taken() -> None:
    """As it was."""
    offline = fleet(*hosts(5))
    for n in range(9):
        assert rank(request(id=f"i{n}"), offline.inputs(NAME)).chosen == "m00"


def test_the_lot_is_the_instances_and_falls_evenly() -> None:
    """The same id always goes to the same of the equals, whatever order they are listed in; ids are spread."""
    offline, turned = fleet(*hosts(8)), fleet(*reversed(hosts(8)))
    ids = [f"i{n}" for n in range(400)]
    chosen = [rank(request(id=i), offline.inputs(DRAW)).chosen for i in ids]
    again = [rank(request(id=i), turned.inputs(DRAW)).chosen for i in ids]
    assert chosen == again
    counts = Counter(chosen)
    assert len(counts) == 8
    assert 25 <= min(counts.values()) <= max(counts.values()) <= 80


def test_the_lot_is_one_that_every_process_draws() -> None:
    """The hashes of machine and instance, exclusive or, through the finaliser of splitmix64; the least is taken."""

    def lot(machine_name: str, instance_id: str) -> int:
        texts = (machine_name, instance_id)
        left, right = (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts)
        z = left ^ right
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    offline = fleet(*hosts(40))
    for n in range(20):
        ranking = rank(request(id=f"i{n}"), offline.inputs(DRAW))
        names = sorted(offline.snapshot.names, key=lambda name: lot(name, f"i{n}"))
        assert [offline.snapshot.names[row] for row in ranking.best(40)] == names


def test_a_better_machine_is_taken_whatever_the_lot() -> None:
    """Only equals are drawn from."""
    offline = fleet(*hosts(5), instances=[{"id": f"x{n}", "machine": f"m{n:02}", "cpu": 1} for n in range(4)])
    for n in range(20):
        asked = request(id=f"i{n}", cpu=1)
        assert rank(asked, offline.inputs(DRAW)).chosen == "m04"


@settings(max_examples=examples(10, 100), deadline=None)
@given(count=st.integers(1, 20), machines=st.integers(1, 8), salt=st.integers(0, 10**6))
def test_a_batch_draws_as_one_after_the_other(count: int, machines: int, salt: int) -> None:
    """Identical instances but for their ids, planned together, or each by itself."""
    offline = fleet(*hosts(machines))
    asked = [request(id=f"i{salt}-{n}", cpu=1) for n in range(count)]
    together = plan(asked, offline.inputs(DRAW)).machines
    overlay, singly = Overlay(offline.ledger), []
    for one in asked:
        chosen = rank(one, RankingInputs(offline.snapshot, overlay.base, DRAW, offline.now_s).on(overlay)).chosen
        assert chosen is not None
        singly.append(chosen)
        overlay.propose(instance_of(one, chosen, offline.now_s))
    assert list(together) == singly


def test_another_word_is_refused() -> None:
    """The message says which there are."""
    with pytest.raises(ProfileError, match=r"ties.*name, draw"):
        parse_profile('ties = "random"', "test")
