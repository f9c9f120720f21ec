"""Records of the ledger with any text in them, and leavers: every script and every reader agrees on them."""

from itertools import count

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from schemas.names import Names
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, KeptAffinity, KeptToleration, Rules, copy_with
from scorer.ledger.record.limits import Limit, in_role, total
from scorer.ledger.record.transition import Candidate, Change, Difference, Wanted
from scorer.ledger.store.check import Check
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from tests.effort import examples
from tests.integration.ledger.test_ledger import NOW_S, amounts_of, clocked_ledger, follower_of

_TIMES = {name for name in Instance.__struct_fields__ if name.endswith("_at")}
OF_THE_SCRIPTS = {"version", "generation", "state", "machine", "moving", *_TIMES}
"""Fields that the scripts write; the others are as they were said."""
_FIELDS = ["moving_from", "moving", "new", "to", "until", "version", "machine", "generation", "amounts", "counts"]
_PARTS = [
    '"new":{',
    ',"moving_from":',
    '","moving_from":"x"}},"moving":{"new":{}}}',
    '\\"',
    "\\u0000",
    "\\n",
    "\r\n",
    "%s",
    "%1",
]
HOSTILE = [*_FIELDS, *_PARTS, *'"\\{}\n\0\x1f\x7f\u2028 :=,é\U0001f600', "}}", "}}}"]
texts = st.sampled_from(HOSTILE) | st.text(max_size=8) | st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
labels = st.dictionaries(texts, texts, max_size=4)


@st.composite
def instances(draw):
    """Draw an instance with any text wherever a request may have any."""
    rules = Rules(
        selector=draw(texts),
        anti_affinity=(KeptAffinity(draw(labels), draw(texts)),),
        tolerations=(KeptToleration(draw(texts), draw(texts)),),
    )
    return Instance(
        id=draw(texts), machine="", state="reserved", amounts=amounts_of(0.5, 1e9), cluster=draw(texts),
        role=draw(texts), kind=draw(texts), labels=draw(labels), request=draw(texts), ports=(7,),
        rules=draw(st.sampled_from([None, rules])),
    )  # fmt: skip


class Story:
    """One instance goes through every transition; after each the whole ledger is read in every way there is."""

    def __init__(self, wire, names, one):
        self.wire, self.names, self.said, self.now_s = wire, names, one, NOW_S
        self.ledger = clocked_ledger(wire, names)
        self.wait(0.0)
        self.follower = follower_of(self.ledger)
        self.number = self.ledger.lease("check", "test", 1e6)

    def wait(self, seconds):
        self.now_s += seconds
        self.wire.one("SET", self.names.key("clock"), f"{self.now_s:.6f}")

    def on(self, *machines):
        """Return machines with limits on a sum and on the role of the instance."""
        limits = [Limit(total("cpu"), 9.0, "full"), Limit(in_role(self.said.cluster, self.said.role), 9.0, "roles")]
        return [Candidate(machine, -1, limits) for machine in machines]

    def now(self):
        return self.ledger.find(self.said.id)

    def check(self, state, machine, to="", new=None):
        """Read the record in each way; it must say what was said, and all sums must be those of the records."""
        found = self.now()
        assert (found.state, found.machine, found.moving.to if found.moving else "") == (state, machine, to)
        assert as_said(found) == as_said(self.said)
        there = found.moving.new if found.moving else None
        assert (there is None) == (new is None)
        if there is not None and new is not None:
            names = there.__struct_fields__
            assert [getattr(there, name) for name in names] == [getattr(new, name) for name in names]
        live = {found.id: found} if state in ("reserved", "confirmed") else {}
        assert self.ledger.all_instances() == live
        _, _, log = self.ledger.read_log(self.wire.ask(self.ledger.log_reads(0)))
        assert log[-1] == found
        self.follower.poll()
        assert self.follower.view.instances == live
        assert Check(self.ledger).run().differences == []
        raw = self.wire.one("ZRANGEBYSCORE", self.names.ledger("leavers"), "-inf", "+inf")
        assert len(self.ledger.leavers()) == len(raw)

    def done(self, transition):
        """Assert that a step was done, and that its own answer has the record that is stored."""
        (outcome,) = transition.outcomes
        assert (outcome.kind, outcome.instance) == ("done", self.now())

    def change(self, **fields):
        """Update some fields of the instance, a moving one where it is and where it moves to."""
        old = self.now()
        new = msgspec.structs.replace(old, **fields)
        self.said = msgspec.structs.replace(self.said, **fields)
        stays = self.on(old.machine, old.moving.to) if old.moving else self.on(old.machine)
        self.done(self.ledger.update([Change(old, new, stays)]))

    def begin(self, to, new=None, lasts_s=60.0):
        """Begin a move, perhaps with another size."""
        self.done(self.ledger.begin_move(self.now(), self.on(to), lasts_s, new=new))

    def larger(self, rules):
        return msgspec.structs.replace(self.now(), amounts=amounts_of(2.0, 3e9), maxmemory=5.0, rules=rules)

    def repair(self):
        """Have the record written again, and the rows of both of its machines."""
        held = self.now()
        assert self.ledger.repair(self.number or 0, Difference("instance", held.id, "", b"", instance=held)) == "done"

    def rename(self, old, new):
        assert self.ledger.rename(old, new, self.ledger.machine_versions()[old], [self.said.id])


def as_said(record):
    return [(name, getattr(record, name)) for name in record.__struct_fields__ if name not in OF_THE_SCRIPTS]


runs = count()


@settings(max_examples=examples(30, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=instances(), later=labels, rules=st.none() | texts.map(lambda text: Rules(selector=text)))
@example(
    one=Instance(id="a", machine="", state="reserved", amounts=amounts_of(0.5), labels={"a": "b", "moving_from": "x"}),
    later={"moving_from": "x"},
    rules=None,
)
def test_whatever_a_record_says_every_transition_leaves_it_so(wire, names, one, later, rules):
    """Any text in labels, names and rules: each step takes the record, writes what was said, and every reader reads it.

    A text that looks like a part of a record, as a label with the key ``moving_from``, is a text.
    """
    story = Story(wire, Names(f"{names.prefix}-{next(runs)}"), one)
    ledger = story.ledger
    (placed,) = ledger.reserve([Wanted(one, 60.0, story.on("m1"))]).outcomes
    assert (placed.kind, placed.instance) == ("placed", story.now())
    story.check("reserved", "m1")
    story.done(ledger.confirm(one.id))
    story.check("confirmed", "m1")
    story.change(labels=later)
    story.check("confirmed", "m1")
    # a move to another size: updated, repaired, renamed at both ends, and cancelled
    larger = story.larger(rules)
    story.begin("m2", larger)
    story.check("confirmed", "m1", "m2", larger)
    story.change(labels=one.labels, ports=(7, 8))
    story.check("confirmed", "m1", "m2", larger)
    story.repair()
    story.check("confirmed", "m1", "m2", larger)
    story.rename("m1", "m3")
    story.rename("m2", "m4")
    story.check("confirmed", "m3", "m4", larger)
    story.done(ledger.cancel_move(story.now()))
    story.check("confirmed", "m3")
    # again, confirmed there
    larger = story.larger(rules)
    story.begin("m2", larger)
    story.change(ports=(9,))
    story.done(ledger.confirm(one.id, machine="m2"))
    story.said = msgspec.structs.replace(story.said, amounts=larger.amounts, maxmemory=5.0, rules=rules)
    story.check("confirmed", "m2")
    # of the same size, ended by itself; then the inventory finds a moving one elsewhere
    story.begin("m1", None, 10.0)
    story.check("confirmed", "m2", "m1")
    story.wait(11.0)
    assert ledger.expire().count == 1
    story.check("confirmed", "m2")
    story.begin("m1", story.larger(rules))
    story.said = msgspec.structs.replace(story.said, labels=later, swap=(one.id, one.kind))
    ledger.correct([msgspec.structs.replace(story.now(), machine="m5", labels=later, swap=(one.id, one.kind))])
    story.check("confirmed", "m5")
    # the end: released while it moves, found again, found no more, reserved anew and expired
    story.begin("m1", story.larger(None))
    story.done(ledger.release(one.id))
    story.check("released", "m5")
    ledger.correct([msgspec.structs.replace(story.said, machine="m1")])
    story.check("confirmed", "m1")
    ledger.correct([], [one.id])
    story.check("released", "m1")
    story.said = one
    ledger.reserve([Wanted(one, 10.0, story.on("m1"))])
    story.wait(11.0)
    assert ledger.expire().count == 1
    story.check("expired", "m1")


def reserve(ledger, instance_id, machine, ttl_s=300.0):
    record = instance_of(Request(id=instance_id, cpu=1.0), "", 0.0)
    (outcome,) = ledger.reserve([Wanted(record, ttl_s, [Candidate(machine, -1)])]).outcomes
    assert outcome.kind == "placed"


def run(ledger, instance_id, machine):
    reserve(ledger, instance_id, machine)
    return ledger.confirm(instance_id).outcomes[0].instance


def known(follower):
    """Return machine, start, end and cpu of every leaver that a scorer has."""
    leavers = follower.view.leavers
    slots, numbers = leavers.slots.live()
    names = list(follower.view.numbers)
    placed = leavers.slots.take(slots, numbers)
    return {
        (names[number], placed.started_at[k], placed.records["ended_at"][k], placed.amounts[0, k])
        for k, number in enumerate(numbers.tolist())
    }


def test_who_starts_later_knows_who_left(ledger):
    """Released and moved instances are left behind where they ran; what was never confirmed leaves nothing."""
    following = Follower(ledger)
    following.load()
    ended, moving = run(ledger, "ended", "m1"), run(ledger, "moving", "m1")
    run(ledger, "stays", "m1")
    reserve(ledger, "given back", "m1")
    reserve(ledger, "run out", "m1", ttl_s=0.001)
    released = ledger.release("ended").outcomes[0].instance
    ledger.release("given back")
    ledger.expire()
    moved = ledger.update([Change(moving, copy_with(moving, labels={"a": "b"}), [Candidate("m2", -1)])])
    assert moved.outcomes[0].instance is not None
    assert released is not None
    following.poll()
    starting = Follower(ledger)
    starting.load()
    assert known(following) == known(starting)
    assert known(starting) == {
        ("m1", ended.started_at, released.ended_at, 1.0),
        ("m1", moving.started_at, moved.outcomes[0].instance.started_at, 1.0),
    }


def test_who_starts_later_knows_where_starts_failed(ledger):
    """Of reservations and of what ran; a repeated release counts once. What never ran left nothing in the windows."""
    following = Follower(ledger)
    following.load()
    reserve(ledger, "a", "m1")
    reserve(ledger, "b", "m1")
    run(ledger, "c", "m2")
    for name in ("a", "a", "b", "c"):
        ledger.release(name, failed=True)
    reserve(ledger, "a", "m1")
    ledger.release("a")
    assert ledger.release("a", failed=True).outcomes[0].kind == "repeat"
    following.poll()
    starting = Follower(ledger)
    starting.load()
    assert following.view.failures == starting.view.failures
    assert {machine: round(count, 2) for machine, (count, _) in starting.view.failures.items()} == {"m1": 2, "m2": 1}
    assert {machine for machine, *_ in known(starting)} == {"m2"}


def test_a_failed_start_of_a_moving_instance_is_of_the_machine_it_moves_to(ledger):
    following = Follower(ledger)
    following.load()
    ledger.begin_move(run(ledger, "a", "m1"), [Candidate("m2", -1)], 60.0)
    done = ledger.release("a", failed=True).outcomes[0]
    assert (done.kind, done.instance and done.instance.machine) == ("done", "m2")
    following.poll()
    starting = Follower(ledger)
    starting.load()
    for follower in (following, starting):
        assert follower.view.failures.keys() == {"m2"}
        assert "m1" in {machine for machine, *_ in known(follower)}
        assert not len(follower.view)
    assert (ledger.all_instances(), ledger.machine_versions()) == ({}, {})
    assert ledger.release("a", failed=True).outcomes[0].kind == "repeat"


def test_leavers_are_bounded(wire, names):
    """The setting bounds their number; a repeated release leaves nothing twice."""
    ledger = Ledger(wire, names, leavers_most=2)
    for number in range(4):
        run(ledger, f"i{number}", "m1")
        ledger.release(f"i{number}")
        ledger.release(f"i{number}")
    assert [one.id for one in ledger.leavers()] == ["i2", "i3"]
    follower = Follower(ledger)
    follower.load()
    assert len(known(follower)) == 2


def test_what_ended_two_hours_ago_is_forgotten(wire, names):
    clock = names.key("clock")
    ledger = Ledger(wire, names, time_source=f"{{redis.call('GET', '{clock}'), '0'}}")
    for number, at in enumerate((1_800_000_000, 1_800_007_000, 1_800_007_300)):
        wire.ask([("SET", clock, at)])
        run(ledger, f"i{number}", "m1")
        ledger.release(f"i{number}")
    assert [one.id for one in ledger.leavers()] == ["i1", "i2"]
