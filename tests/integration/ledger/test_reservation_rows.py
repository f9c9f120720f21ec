"""The in-house study's reservations, row by row, on the ledger itself: what others reserved is not given away."""

import pytest

from scorer.ledger.record.instance import copy_with, request_digest
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import run_to_end
from scorer.placement.placer import Placing
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile_file import parse_profile
from tests.integration.ledger.test_ledger import clocked_ledger
from tests.scorer.fleets import by_name, cases, fleet, machine, request, toml

FITS = parse_profile(toml({"filters": [{"use": "fits", "basis": "requests"}]}), "fits")
DIFFERENT = {
    "derived: reservation expiring exactly now still counts": "a reservation that ends this very second has ended",
    "derived: no reservations -> pass even if the pod does not fit": "room is looked for where nothing is reserved too",
}
"""Rows that Windward deliberately answers otherwise, and why: the other verdict is expected here."""


class World:
    """One machine, a ledger whose clock a row moves, and a placer."""

    def __init__(self, wire, names, inputs):
        node, self._wire, self._clock_key = inputs["machine"], wire, names.key("clock")
        capacity = node["allocatable"]
        self.fleet = fleet(machine(node["name"], capacity["cpu_millicores"] / 1000, capacity["memory_bytes"]))
        self.machine = node["name"]
        self.ledger = clocked_ledger(wire, names)
        self.follower = Follower(self.ledger)
        self.set_clock(inputs["now_unix_s"] - 100)
        self.placing = Placing(self.ledger, self.follower, clock=lambda: self.now_s)

    def inputs(self):
        return RankingInputs(self.fleet.snapshot, self.follower.view, FITS, self.now_s)

    def set_clock(self, now_s):
        """Move the time of the ledger and of the placer."""
        self.now_s = float(now_s)
        self._wire.one("SET", self._clock_key, f"{self.now_s:.6f}")

    def reserve(self, asked):
        """Reserve, whatever the room, as it was done when there was room."""
        anyhow = Candidate(self.machine, self.follower.version(self.machine))
        record = copy_with(instance_of(asked, "", self.now_s), request=request_digest(asked))
        wanted = Wanted(record, asked.ttl_s, [anyhow])
        self.follower.absorb(self.ledger.reserve([wanted]))


BATCHES = [
    ("each by itself", {}, 2),
    ("all or nothing", {"all_or_nothing": True}, 2),
    ("on few machines", {"machines_max": 1}, 2),
    ("all on few machines", {"machines_max": 1, "all_or_nothing": True}, 2),
    ("tried only", {"dry_run": True}, 2),
    ("without room", {}, 3),
]


@pytest.mark.parametrize("free", [0, 2], ids=["of no room", "of room for one"])
@pytest.mark.parametrize(("more", "count"), [row[1:] for row in BATCHES], ids=[row[0] for row in BATCHES])
def test_a_batch_gets_what_has_just_expired(wire, names, free, more, count):
    """Its own script ends what is due, and what had no machine before is planned again; the rest is refused."""
    node = {"name": "m1", "allocatable": {"cpu_millicores": 4_000, "memory_bytes": 4_000}}
    world = World(wire, names, {"machine": node, "now_unix_s": 1_000})
    world.follower.poll()
    world.reserve(request(id="before", ttl_s=50, cpu=4 - free, memory=1))
    world.set_clock(950)
    batch = [request(id=f"b{n}", cpu=2, memory=1, **more) for n in range(count)]
    placement = run_to_end(world.placing.steps(batch, world.inputs))
    assert [record is not None for record in placement.records] == [n < 2 for n in range(count)]
    assert sorted(placement.missing) == list(range(2, count))
    assert placement.ranking.feasible_count == 1
    assert "before" not in world.ledger.all_instances()


@pytest.mark.parametrize(("count", "cpu"), [(1, 6), (3, 2)])
def test_placing_is_planned_anew_once(wire, names, count, cpu, monkeypatch):
    """Where something ends during each try, what has no room is refused as elsewhere."""
    node = {"name": "m1", "allocatable": {"cpu_millicores": 4_000, "memory_bytes": 4_000}}
    world = World(wire, names, {"machine": node, "now_unix_s": 1_000})
    world.follower.poll()
    for n in range(30):
        world.reserve(request(id=f"before{n}", ttl_s=n + 1, cpu=0.001, memory=1))
    plain, tries = world.ledger.reserve, []

    def reserve(*wanted, **more):
        tries.append(world.now_s)
        world.set_clock(world.now_s + 1)
        return plain(*wanted, **more)

    monkeypatch.setattr(world.ledger, "reserve", reserve)
    batch = [request(id=f"b{n}", cpu=cpu, memory=1, all_or_nothing=count > 1) for n in range(count)]
    placement = run_to_end(world.placing.steps(batch, world.inputs))
    assert (placement.records, sorted(placement.missing), len(tries)) == ([None] * count, list(range(count)), 2)


@pytest.mark.parametrize(("count", "whole"), [(1, False), (2, False), (9, True)])
def test_two_scorers_do_not_both_take_the_last_room_that_a_loss_leaves(wire, names, count, whole):
    """They choose different machines; what the second chose before it read of the first is refused."""
    filters = [{"use": "machine_name"}, {"use": "fits", "basis": "requests"}]
    safe, ledger = parse_profile(toml({"survive": "machine", "filters": filters}), "safe"), Ledger(wire, names)
    of, followers = fleet(*(machine(f"m{n}", 20, 4) for n in range(3))), [Follower(ledger), Follower(ledger)]

    def steps(follower, wanted, machine, **more):
        asked = [request(id=f"{machine}-{n}", cpu=1, machine=machine, **more) for n in range(wanted)]
        placing = Placing(ledger, follower, clock=lambda: of.now_s)
        return placing.steps(asked, lambda: RankingInputs(of.snapshot, follower.view, safe, of.now_s))

    def placed(steps):
        return sum(record is not None for record in run_to_end(steps).records)

    followers[0].poll()
    assert placed(steps(followers[0], 40 - count, "")) == 40 - count
    followers[1].poll()
    second = steps(followers[1], count, "m2", all_or_nothing=whole)
    if whole:
        next(second)  # some of them have their machine
    assert placed(steps(followers[0], count, "m1")) == count
    if whole:
        followers[1].poll()
    assert placed(second) == 0


@pytest.mark.parametrize("row", cases("reservation", "unicore_filter"), ids=by_name)
def test_reservations_of_others_are_kept(wire, names, row):
    """Nobody gets what is reserved for others, in whatever order; who comes with its own id gets its reservation."""
    inputs = row["inputs"]
    world = World(wire, names, inputs)
    world.follower.poll()
    own = None
    for reserved in inputs["reservations"]:
        amounts = {"cpu": reserved["cpu_millicores"] / 1000, "memory": reserved["memory_bytes"]}
        asked = request(id=reserved["pod"], ttl_s=reserved["expire_at_unix_s"] - world.now_s, **amounts)
        own = asked if reserved["pod"] == inputs["pod"]["name"] else own
        world.reserve(asked)
    assert len(world.ledger.all_instances()) == len(inputs["reservations"])
    world.set_clock(inputs["now_unix_s"])
    need = inputs["pod"]["need"]
    amounts = {"cpu": need["cpu_millicores"] / 1000, "memory": need["memory_bytes"]}
    asked = own or request(id=inputs["pod"]["name"], **amounts)
    assert asked.amounts()[:2] == (amounts["cpu"], amounts["memory"])
    (record,) = run_to_end(world.placing.steps([asked], world.inputs)).records
    intended = row["expected"]["intended_verdict"] == "pass"
    assert (record is not None) == (intended != (row["name"] in DIFFERENT))
