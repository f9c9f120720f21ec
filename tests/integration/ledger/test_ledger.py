"""The ledger's scripts on a real server against the model in memory, and the laws both keep."""

import math
import threading
from collections import Counter
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from schemas.names import Names
from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, Rules, arrival, as_held, in_units, machines_of
from scorer.ledger.record.limits import Limit, in_role, one_to_a_port, total
from scorer.ledger.record.transition import NO_QUERY, Call, Candidate, Change, Held, Overtaken, Wanted
from scorer.ledger.store import scripts as ledger_module
from scorer.ledger.store.check import Check
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import ALONE, SCRIPTS, Lease, Ledger
from scorer.ledger.view.view import LedgerView
from scorer.ranking.filters.masters import Masters
from scorer.wire import Wire
from tests.effort import LONG, examples
from tests.scorer.ledger.golden_ledger import dump
from tests.scorer.ledger.ledger_model import SWEPT, LedgerModel

MACHINES = ("m1", "m2", "m3")
LIMITS = {"m1": (4.0, 8e9, math.nan), "m2": (2.0, 4e9, 1e9), "m3": (1.5, 2e9, 1e9)}
MAXMEMORY = {"m1": 4e9, "m2": 2e9, "m3": math.nan}
MASTERS = 1.0
BATCH_INSTANCES = 2
IDS = [f"i{number}" for number in range(8)]
NOW_S = 1_800_000_000.0


def amounts_of(cpu=0.0, memory=0.0, nic=0.0):
    """Return amounts in the order of the resources, however many there are."""
    return tuple({"cpu": cpu, "memory": memory, "nic": nic}.get(name, 0.0) for name in RESOURCES)


def limits_on(machine):
    sums = [
        Limit(total(name), most, f"too much {name} promised")
        for name, most in zip(("cpu", "memory", "nic"), LIMITS[machine], strict=True)
    ]
    return [
        *sums,
        Limit(total("maxmemory"), MAXMEMORY[machine], "maxmemory over its share"),
        *one_to_a_port((6379, 6380)),
        *[Limit(in_role(cluster, "master"), MASTERS, "too many masters") for cluster in ("c1", "c2")],
        Limit(total("instances", "batch", "free"), BATCH_INSTANCES, "too many of batch"),
    ]


def follower_of(ledger):
    """Return a follower that has read it."""
    follower = Follower(ledger)
    follower.poll()
    return follower


def clocked_ledger(wire, names, **more):
    """Return a ledger that takes its time from a key, so that a test can move it; now it is `NOW_S`."""
    wire.one("SET", names.key("clock"), f"{NOW_S:.6f}")
    source = f"""(function() local t = redis.call('GET', '{names.key("clock")}')
        local s = string.match(t, '^%d+')
        return {{s, string.format('%.0f', (tonumber(t) - tonumber(s)) * 1e6)}} end)()"""
    return Ledger(wire, names, log_length=100, time_source=source, **more)


amounts = st.builds(
    amounts_of,
    st.sampled_from([0.0, 0.1, 0.5, 1.5]),
    st.sampled_from([0.0, 0.5e9, 1e9, 2e9]),
    st.sampled_from([0.0, 0.3e9]),
)
instances = st.builds(
    Instance,
    id=st.sampled_from(IDS),
    machine=st.just(""),
    state=st.just("reserved"),
    amounts=amounts,
    maxmemory=st.sampled_from([0.0, 1e9]),
    ports=st.sampled_from([(), (6379,), (6380, 6379)]),
    cluster=st.sampled_from(["", "c1", "c2"]),
    role=st.sampled_from(["master", "replica"]),
    priority_class=st.sampled_from(["prod", "prod", "batch", "free"]),
    request=st.sampled_from(["q1", "q2"]),
    labels=st.sampled_from([{}, {"moving_from": '"new":{', "moving": '}}\n"}'}]),
)


queries = st.sampled_from(["", "", "qa", "qb"])
generations = st.sampled_from([None, None, 0, 1])


class LedgerMachine(RuleBasedStateMachine):
    """Every step is taken by the scripts and by the model; answers and contents must be equal."""

    wire: Wire
    prefix = "machine"
    number = 0

    @initialize(there=st.sampled_from([0, 3, 6]), moving=st.booleans())
    def start(self, there, moving):
        """Begin at a fixed time with an empty ledger, or with some confirmed instances, one of them moving."""
        type(self).number += 1
        self.names = Names(f"{self.prefix}-{self.number}")
        self.now_s = NOW_S
        self.model = LedgerModel(lambda: self.now_s)
        self.real = clocked_ledger(self.wire, self.names, draw=self.model.drawn)
        self.follower = follower_of(self.real)
        self.named = dict(zip(MACHINES, MACHINES, strict=True))
        small = Instance(id="", machine="", state="reserved", amounts=amounts_of(0.1, 0.5e9), request="q1")
        for number, one in enumerate(IDS[:there]):
            instance = msgspec.structs.replace(small, id=one, cluster="c1", role="replica")
            wanted = [Wanted(instance, 10.0, self.candidates([MACHINES[number % 2]], fresh=True))]
            self.same(self.real.reserve(wanted), self.model.reserve(wanted))
            self.same(self.real.confirm(one), self.model.confirm(one))
        if there and moving:
            self.begin_move(0, ["m3"], 10.0, stale=False, fresh=True, again=False)

    def candidates(self, machines, fresh):
        """Return machines as a scorer that is up to date, or one that is not, would give them."""
        return [
            Candidate(
                self.named[machine],
                self.model.version(self.named[machine]) + (0 if fresh else 1000),
                limits_on(machine),
            )
            for machine in machines
        ]

    def same(self, real, model):
        """Compare two transitions and follow the real one."""
        assert [shown(o) for o in real.outcomes] == [shown(o) for o in model.outcomes]
        assert real.changes == model.changes
        self.follower.absorb(real)

    @rule(
        wanted=st.lists(instances, min_size=1, max_size=4, unique_by=lambda one: one.id),
        machines=st.lists(st.sampled_from(MACHINES), max_size=3, unique=True),
        ttl_s=st.sampled_from([1.0, 10.0]),
        fresh=st.booleans() | st.just(True),
        whole=st.booleans(),
        dry=st.sampled_from([False, False, False, True]),
        change=st.sampled_from([-1, -1, 0, 1, 2]),
        query=queries,
        in_s=st.sampled_from([0.0, 5.0, 30.0, -1.0]),
    )
    def reserve(self, wanted, machines, ttl_s, fresh, whole, dry, change, query, in_s):
        """Reserve one or some, all or none or each for itself, by a scorer up to date or not."""
        call = self.call(query, in_s)
        given = [Wanted(one, ttl_s, self.candidates(machines, fresh), call) for one in wanted]
        seen = max(0, self.model.change - change)
        expected = -1 if change < 0 else -2 - seen if change else seen
        options = {"expected_change": expected, "all_or_nothing": whole, "dry_run": dry}
        real, model = self.real.reserve(given, **options), self.model.reserve(given, **options)
        if dry:
            assert [(o.kind, *shown(o)[2:]) for o in real.outcomes] == [(o.kind, *shown(o)[2:]) for o in model.outcomes]
            assert real.changes == model.changes
            self.follower.absorb(real)
        else:
            self.same(real, model)

    @rule(
        count=st.sampled_from([30, 150, 420]),
        ttl_s=st.sampled_from([1.0, 10.0]),
        whole=st.booleans(),
        too_large=st.booleans(),
        fresh=st.booleans(),
    )
    def reserve_many(self, count, ttl_s, whole, too_large, fresh):
        """Reserve the same hundreds of tiny instances, perhaps with one that fits nowhere, all or none or each."""
        given = [
            Wanted(
                Instance(id=f"many-{n}", machine="", state="reserved", amounts=amounts_of(0.001, 1e3), request="q"),
                ttl_s,
                self.candidates([MACHINES[n % 2]], fresh),
            )
            for n in range(count)
        ]
        if too_large:
            large = Instance(id="large", machine="", state="reserved", amounts=amounts_of(1000.0), request="q")
            given.append(Wanted(large, ttl_s, self.candidates(["m1"], fresh)))
        self.same(self.real.reserve(given, all_or_nothing=whole), self.model.reserve(given, all_or_nothing=whole))

    def call(self, query, in_s):
        """Return a query with a deadline in some seconds; 0: none."""
        return Call(query, self.now_s + in_s if in_s else 0.0) if query else NO_QUERY

    def generation(self, instance_id, which):
        record = self.model.records.get(instance_id)
        return None if which is None or record is None else record.generation + which

    @rule(
        instance_id=st.sampled_from(IDS), machine=st.sampled_from(["", "", "m1"]), started=st.sampled_from([0.0, 5.0]),
        which=generations, query=queries,
    )  # fmt: skip
    def confirm(self, instance_id, machine, started, which, query):
        at = self.now_s - started if started else 0.0
        options = {"generation": self.generation(instance_id, which), "call": self.call(query, 30.0)}
        options |= {"machine": self.named.get(machine, ""), "started_at": at}
        self.same(self.real.confirm(instance_id, **options), self.model.confirm(instance_id, **options))

    @rule(
        instance_id=st.sampled_from(IDS), machine=st.sampled_from(["", "", "m1"]), which=generations, query=queries,
    )  # fmt: skip
    def release(self, instance_id, machine, which, query):
        options = {"generation": self.generation(instance_id, which), "call": self.call(query, 30.0)}
        options["machine"] = self.named.get(machine, "")
        self.same(self.real.release(instance_id, **options), self.model.release(instance_id, **options))

    @rule(
        instance_id=st.sampled_from(IDS),
        to=instances,
        machines=st.lists(st.sampled_from(MACHINES), min_size=1, max_size=2, unique=True),
        stale=st.sampled_from([False, False, False, True]),
    )
    def update(self, instance_id, to, machines, stale):
        """Resize, move and change the role of any id at once."""
        old = self.model.records.get(instance_id, Instance(id=instance_id, machine="m1", state="confirmed", amounts=()))
        if stale:
            old = msgspec.structs.replace(old, version=old.version + 1)
        new = msgspec.structs.replace(to, id=instance_id, request=old.request, generation=old.generation)
        if old.moving:  # it stays on both: both are asked
            machines = [machine for machine in MACHINES if self.named[machine] in (old.machine, old.moving.to)]
        change = Change(old, new, self.candidates(machines, fresh=True))
        self.same(self.real.update([change]), self.model.update([change]))

    def one_of(self, number, fits):
        """Return one of the records that fit; where none does any, or one that is not known."""
        known = sorted(self.model.records.values(), key=lambda one: one.id)
        found = [one for one in known if fits(one)] or known
        unknown = Instance(id="i0", machine="m1", state="confirmed", amounts=())
        return found[number % len(found)] if found else unknown

    @rule(
        number=st.integers(0, 50), to=st.permutations(MACHINES),
        lasts_s=st.sampled_from([1.0, 10.0]), stale=st.sampled_from([False, False, False, True]),
        fresh=st.booleans() | st.just(True), again=st.booleans(), size=st.none() | amounts,
    )  # fmt: skip
    def begin_move(
        self, number, to, lasts_s, stale, fresh, again,
        size = None
    ):  # fmt: skip
        """Have an instance move elsewhere, whether it moves already or not, perhaps with other amounts."""
        old = self.one_of(number, lambda one: one.state == "confirmed" and (again or not one.moving))
        candidates = [one for one in self.candidates(to, fresh) if one.machine != old.machine]
        if stale:
            old = msgspec.structs.replace(old, version=old.version + 1)
        new = None if size is None else msgspec.structs.replace(old, amounts=size, maxmemory=1e9 - old.maxmemory)
        real = self.real.begin_move(old, candidates, lasts_s, new=new)
        self.same(real, self.model.begin_move(old, candidates, lasts_s, new=new))

    @precondition(lambda self: any(one.moving for one in self.model.live()))
    @rule(number=st.integers(0, 50), query=queries, move=generations, started=st.sampled_from([0.0, 5.0]))
    def arrive(self, number, query, move, started):
        """Confirm that an instance is where it moves to, by the number of its move or of another."""
        record = self.one_of(number, lambda one: one.moving)
        options = {"call": self.call(query, 30.0), "machine": record.machine}
        options["started_at"] = self.now_s - started if started else 0.0
        if record.moving:
            options |= {"machine": record.moving.to, "move": None if move is None else record.moving.number + move}
        self.same(self.real.confirm(record.id, **options), self.model.confirm(record.id, **options))

    @precondition(lambda self: any(one.moving for one in self.model.live()))
    @rule(number=st.integers(0, 50), released=st.sampled_from([False, False, True]))
    def end_move(self, number, released):
        record = self.one_of(number, lambda one: one.moving)
        if released:
            self.same(self.real.release(record.id), self.model.release(record.id))
        else:
            self.same(self.real.cancel_move(record), self.model.cancel_move(record))

    @rule(machine=st.sampled_from(MACHINES))
    def rename(self, machine):
        """Have a machine under another name, also while instances move from it or to it."""
        old = self.named[machine]
        new = machine if old != machine else f"{machine}-renamed"
        due = 1
        while due:  # what the step itself expired would change the machine as it was read
            real, model = self.real.expire(SWEPT), self.model.expire(SWEPT)
            self.same(real, model)
            due = model.count
        ids = sorted(one.id for one in self.model.on_machine(old))
        if not ids:
            return
        self.named[machine] = new
        assert self.real.rename(old, new, self.model.version(old), ids)
        self.model.rename(old, new)
        self.follower.poll()

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 20.0]))
    def pass_time(self, seconds):
        """Let reservations run out: none, some or all."""
        self.now_s += seconds
        self.wire.one("SET", self.names.key("clock"), f"{self.now_s:.6f}")

    @rule(most=st.sampled_from([5, 200, 1000]))
    def sweep(self, most):
        real, model = self.real.expire(most), self.model.expire(most)
        self.same(real, model)
        assert real.count == model.count

    @rule()
    def another_scorer_starts(self):
        """Take the place of the follower by one that has just read everything."""
        self.follower = follower_of(self.real)

    @invariant()
    def nothing_is_over_its_limit(self):
        """Hold every limit that every step was given, at every moment."""
        if not hasattr(self, "model"):
            return
        for machine in MACHINES:
            here = self.model.on_machine(self.named[machine])
            sums = self.model.sums(self.named[machine])
            for name, limit in zip(("cpu", "memory", "nic"), LIMITS[machine], strict=True):
                if not math.isnan(limit):
                    assert sum(n for (_, what), n in sums.items() if what == name) <= in_units(name, limit)
            assert sum(sums.get((one, "instances"), 0) for one in ("batch", "free")) <= BATCH_INSTANCES
            if not math.isnan(MAXMEMORY[machine]):
                assert sum(as_held(one, self.named[machine]).maxmemory for one in here) <= MAXMEMORY[machine]
            ports = [port for record in here for port in record.ports]
            assert len(ports) == len(set(ports))
            for cluster in ("c1", "c2"):
                assert sum(r.cluster == cluster and r.role == "master" for r in here) <= max(1, MASTERS)

    @invariant()
    def the_server_holds_what_the_model_holds(self):
        """Compare records, sums, versions, and that nothing is left of what ended."""
        if not hasattr(self, "model"):
            return
        live = {record.id: record for record in self.model.live()}
        assert self.real.all_instances() == live
        assert self.follower.view.instances == live
        machines = list(self.named.values())
        versions = {machine: self.model.version(machine) for machine in machines if self.model.on_machine(machine)}
        assert self.real.machine_versions() == versions
        assert {m: self.follower.version(m) for m in machines} == {m: versions.get(m, 0) for m in machines}
        rows = self.wire.one("HGETALL", self.real.machines)
        for name, row in zip(rows[::2], rows[1::2], strict=True):
            assert sums_in(row) == self.model.sums(name.decode())
        flat = self.wire.one("HGETALL", self.real.counts)
        counts = {k.decode(): int(v) for k, v in zip(flat[::2], flat[1::2], strict=True)}
        assert counts == Counter(
            f"{machine} {what}"
            for r in live.values()
            for machine in machines_of(r)
            for what in [f"port {port}" for port in r.ports] + [f"role 2 {r.cluster} {r.role}"] * bool(r.cluster)
        )
        waiting = {name.decode() for name in self.wire.one("ZRANGE", self.real.expiry, 0, -1)}
        assert waiting == {r.id for r in live.values() if r.state == "reserved"}
        moving = {name.decode() for name in self.wire.one("ZRANGE", self.real.moving, 0, -1)}
        assert moving == {r.id for r in live.values() if r.moving}
        self.the_view_sees_both_ends(live)
        clusters = self.wire.one("HGETALL", self.real.clusters)
        found = {k.decode(): int(v.split()[1]) for k, v in zip(clusters[::2], clusters[1::2], strict=True)}
        expected = {c: sum(r.cluster == c for r in live.values()) for c in ("c1", "c2")}
        assert found == {c: n for c, n in expected.items() if n}

    def the_view_sees_both_ends(self, live):
        """Find each instance on every machine that it holds, and on the one it is on, as a new view does."""
        view, anew = self.follower.view, LedgerView(live.values())
        for machine in self.named.values():
            held = {one.id for one in self.model.on_machine(machine)}
            assert {one.id for one in view.held_on(machine)} == {one.id for one in anew.held_on(machine)} == held
            assert {one.id for one in view.on_machine(machine)} == {r.id for r in live.values() if r.machine == machine}
            assert len(view.slots_on(machine)) == len(held)
            promised = view.slots.records["amounts"][[*view.slots_on(machine)], 0]
            cpu = sum(n for (_, what), n in self.model.sums(machine).items() if what == "cpu")
            assert in_units("cpu", float(promised.sum())) == pytest.approx(cpu, abs=1)
        assert view.slots.live()[0].size == sum(len(machines_of(one)) for one in live.values())

    @invariant()
    def the_log_tells_the_whole_story(self):
        """Find every change in the log, numbered without gaps."""
        if not hasattr(self, "model"):
            return
        _, change, records = self.real.read_log(self.wire.ask(self.real.log_reads(0)))
        assert change == self.model.change
        assert records == self.model.log[-len(records) :] if records else change == 0


def sums_in(row):
    """Return the sums of a machine's row, by class and name."""
    _, *classes = row.decode().split()
    groups = [group.partition(":") for group in classes]
    return {(one, name): int(n) for one, _, body in groups for name, n in (each.split("=") for each in body.split(","))}


def shown(outcome):
    """Return what two outcomes must have in common."""
    return outcome.kind, outcome.instance, outcome.position, outcome.reasons


@pytest.mark.long
def test_scripts_and_model_agree_on_every_history(wire, names):
    """Any sequence of steps gives the same answers and contents on the server as in memory, and keeps every limit."""
    machine = type("Machine", (LedgerMachine,), {"wire": wire, "prefix": names.prefix})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(25, 500),
            stateful_step_count=40 if LONG else 20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# ---- the log, and who follows it


def simple(instance_id, machine="m1", ttl_s=60.0):
    """Return a small instance that may go to one machine, whatever its version."""
    record = Instance(id=instance_id, machine="", state="reserved", amounts=amounts_of(0.0001, 1e5), request="q")
    return Wanted(record, ttl_s, [Candidate(machine, -1, limits_on("m1"))])


def test_an_inventory_with_rules_makes_others_decide_again(ledger):
    """It may tie machines beyond its own: who decided before it came saw a ledger without its rules."""
    seen = ledger.reserve([simple("first")]).changes[0].version
    for rules, kind in ((None, "placed"), (Rules(selector="zone=a"), "conflict")):
        found = msgspec.structs.replace(simple(f"found before {kind}").instance, machine="m9", rules=rules)
        ledger.correct([found])
        assert ledger.reserve([simple(f"after {kind}")], expected_change=-2 - seen).outcomes[0].kind == kind


def test_a_follower_that_fell_behind_reads_everything(wire, names):
    """When the log was trimmed past a follower it reloads; otherwise it never rereads the ledger."""
    ledger = Ledger(wire, names, log_length=100)
    behind, close = follower_of(ledger), follower_of(ledger)
    for number in range(600):
        ledger.reserve([simple(f"a{number}")])
        if number == 0:
            behind.poll()
            close.poll()
            assert (behind.reloads, close.reloads) == (1, 1)
        close.poll()
    behind.poll()
    assert behind.reloads == 2
    assert close.reloads == 1
    assert behind.view.instances == close.view.instances == ledger.all_instances()
    assert behind.change == close.change == 600


def test_a_far_but_complete_log_is_read_page_by_page(wire, names):
    """More changes than one read brings are all applied without a reload."""
    ledger = Ledger(wire, names, log_length=100_000)
    ledger.reserve([simple("first")])
    follower = follower_of(ledger)
    for number in range(2100):
        ledger.reserve([simple(f"a{number}")])
    ledger.reserve([simple(f"b{number}") for number in range(500)])
    follower.poll()
    assert follower.reloads == 1
    assert len(follower.view) == 2601


def test_reservations_of_one_script_are_few_entries_of_the_log(wire, names):
    """Each change is there once, in order, and as many are kept as the log is to have."""
    ledger, clock = clocked_ledger(wire, names), names.key("clock")
    wire.one("SET", clock, "1000.0")
    ledger.reserve([simple("early", ttl_s=10.0)])
    wire.one("SET", clock, "1020.0")
    own = ledger.reserve([simple(f"a{number}") for number in range(90)])
    _, change, records = ledger.read_log(ledger.wire.ask(ledger.log_reads(0)))
    assert [record.version for record in records] == list(range(1, change + 1)) == list(range(1, 93))
    assert records[1:] == own.changes
    assert wire.one("XLEN", ledger.log) == 3
    for first in range(250, 4000, 250):
        ledger.reserve([simple(f"a{number}") for number in range(first, first + 250)])
    _, _, records = ledger.read_log(ledger.wire.ask(ledger.log_reads(0)))
    assert 100 <= len(records) < 1000


@pytest.mark.parametrize("how", [{}, {"dry_run": True}, {"all_or_nothing": True}], ids=["some", "dry run", "all"])
def test_alike_instances_that_share_a_record_are_reserved_as_by_their_own(wire, names, how):
    """The same ledger and answers: some placed, some too many, one known, one listed twice, one of another request."""
    kind = msgspec.structs.replace(simple("").instance, cluster="shop", role="replica", ports=(1,), labels={"a": '"/é'})
    where = [Candidate("m1", -1, [*limits_on("m1"), Limit(total("instances"), 150, "150 instances")])]
    ids, found = [f'i"/{number}' for number in range(210)], []
    for part, shared in (("own", False), ("shared", True)):
        of = Names(f"{names.prefix}-{part}")
        ledger = Ledger(wire, of, time_source="{'1000', '250000'}", draw=partial(next, count(1)))
        call = Call("query", 1030.0)

        def wanted(one, digest="q", shared=shared, call=call):
            own = msgspec.structs.replace(kind, id=one, request=digest)
            return Wanted(kind, 60.0, where, call, one, digest) if shared else Wanted(own, 60.0, list(where), call)

        ledger.reserve([wanted(ids[0])])
        batches = [[wanted(one) for one in (*ids, ids[1])], [wanted("x"), wanted("y", "r"), wanted("x")]]
        batches.append([wanted("z"), wanted(ids[0], "other")])
        done = [ledger.reserve(batch, **how) for batch in batches]
        assert all(ledger.find(one.id) == one for each in done for one in each.changes)
        state = dump(wire, of)
        found.append((state, [(each.changes, each.outcomes) for each in done]))
    assert found[0] == found[1]


def test_a_ledger_of_another_life_is_noticed(ledger, wire, names):
    """A server that came back empty, even with as many changes, or with an older state, makes followers reload."""
    ledger.reserve([simple("old")])
    follower = follower_of(ledger)
    keys = [key for key in wire.one("KEYS", f"{names.ledger()}*") if b"clock" not in key]
    wire.ask([("DEL", key) for key in keys])
    ledger.reserve([simple("new")])
    follower.poll()
    assert set(follower.view.instances) == {"new"}
    ledger.reserve([simple("newer")])
    follower.poll()
    wire.ask(
        [("HSET", ledger.head, "change", 1), ("HDEL", ledger.instances, "newer"), ("XTRIM", ledger.log, "MAXLEN", 0)]
    )
    follower.poll()
    assert set(follower.view.instances) == {"new"}


@contextmanager
def storm(url, names):
    """Reserve and release instances on seven machines all the time, until the end of the block."""
    other, stop = Wire({"url": url}), threading.Event()

    def work():
        busy, number = Ledger(other, names), 0
        while not stop.is_set():
            busy.reserve([simple(f"s{number}", f"m{number % 7}")])
            busy.release(f"s{number - 3}")
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        other.close()


def test_changes_while_everything_is_read_are_not_lost(ledger, names, valkey):
    """A follower that loads during a storm of changes ends up with exactly what the ledger holds."""
    ledger.reserve([simple(f"c{number}") for number in range(2000)])
    with storm(valkey.url, names):
        for _ in range(5):
            follower = follower_of(ledger)
    follower.poll()
    assert follower.view.instances == ledger.all_instances()
    assert follower._versions == ledger.machine_versions()


def tiny(count, ttl_s=1.0):
    """Return so many instances for seven machines."""
    return [simple(f"t{number}", f"m{number % 7}", ttl_s) for number in range(count)]


NOWHERE = Wanted(
    Instance(id="nowhere", machine="", state="reserved", amounts=amounts_of(1000.0), request="q"),
    60.0,
    [Candidate("m1", -1, [Limit(total("cpu"), 4.0, "too much cpu promised")])],
)


def give_up_a_batch(ledger, held):
    """Ask for the same ids, with one that fits nowhere, all or none."""
    transition = ledger.reserve([*held, NOWHERE], all_or_nothing=True)
    assert transition.outcomes[-1].reasons == ("too much cpu promised",)


def try_a_batch(ledger, held):
    ledger.reserve(held, dry_run=True)


def mistake_an_id(ledger, held):
    """Ask for the same ids, and for one that is live with another request."""
    live = simple("live")
    ledger.reserve([live])
    mistaken = live._replace(instance=msgspec.structs.replace(live.instance, request="other"))
    assert ledger.reserve([*held[:-1], mistaken]).outcomes[-1].kind == "other"
    ledger.release("live")


def update_two(ledger, held):
    ledger.update(
        [Change(one.instance, one.instance, [Candidate("m1", -1)]) for one in (held[-1], held[-2])], dry_run=True
    )


def confirm_the_last(ledger, held):
    assert ledger.confirm(held[-1].instance.id, dry_run=True).outcomes[0].kind == "ended"


def correct_all(ledger, held):
    """Only try an inventory that has half of them and not the others."""
    true = [msgspec.structs.replace(one.instance, machine="m9", state="confirmed") for one in held[:300]]
    ledger.correct(true, [one.instance.id for one in held[300:]], dry_run=True)


@pytest.mark.parametrize(
    "step", [give_up_a_batch, try_a_batch, mistake_an_id, update_two, confirm_the_last, correct_all]
)
def test_what_has_expired_gives_back_whatever_becomes_of_the_step(wire, names, step):
    """A step on hundreds of reservations that have run out, more than one sweep takes, leaves no sum behind."""
    ledger = clocked_ledger(wire, names)
    held = tiny(600)
    ledger.reserve(held)
    wire.one("SET", names.key("clock"), f"{NOW_S + 1:.6f}")
    step(ledger, held)
    while ledger.expire().count:
        pass
    assert ledger.all_instances() == {}
    assert [wire.one("EXISTS", key) for key in ledger._keys[1:6]] == [0] * 5


def moving_instance(ledger, lasts_s=60.0, **fields):
    """Return an instance that is confirmed on m1 and moves to m2."""
    own = Wanted(msgspec.structs.replace(simple("a").instance, **fields), 60.0, [Candidate("m1", -1)])
    ledger.reserve([own])
    (old,) = ledger.confirm("a").changes
    (begun,) = ledger.begin_move(old, [Candidate("m2", -1)], lasts_s).changes
    return begun


def held(ledger, wire):
    """Return how many instances each machine holds, by its row."""
    flat = wire.one("HGETALL", ledger.machines)
    return {
        name.decode(): sum(n for (_, what), n in sums_in(row).items() if what == "instances")
        for name, row in zip(flat[::2], flat[1::2], strict=True)
    }


MOVES = [
    ("confirmed there", lambda ledger: ledger.confirm("a", machine="m2"), {"m2": 1}, "m2"),
    ("confirmed where it is", lambda ledger: ledger.confirm("a", machine="m1"), {"m1": 1, "m2": 1}, "m1"),
    ("confirmed anywhere", lambda ledger: ledger.confirm("a"), {"m1": 1, "m2": 1}, "m1"),
    ("another move confirmed", lambda ledger: ledger.confirm("a", machine="m2", move=1), {"m1": 1, "m2": 1}, "m1"),
    ("released", lambda ledger: ledger.release("a"), {}, ""),
    ("released there", lambda ledger: ledger.release("a", machine="m2"), {"m1": 1, "m2": 1}, "m1"),
    ("cancelled", lambda ledger: ledger.cancel_move(ledger.find("a")), {"m1": 1}, "m1"),
    ("found there", lambda ledger: ledger.correct([msgspec.structs.replace(ledger.find("a"),
                                                                          machine="m2")]), {"m2": 1}, "m2"),
    ("found nowhere", lambda ledger: ledger.correct([], ["a"]), {}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("step", "rows", "machine"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES])
def test_what_becomes_of_a_move(ledger, wire, step, rows, machine):
    """Both machines are held until it is confirmed there, has ended or is released; ports, role and sums alike."""
    moving = moving_instance(ledger, ports=(7,), cluster="c", role="master")
    assert (moving.machine, moving.moving and moving.moving.to, held(ledger, wire)) == ("m1", "m2", {"m1": 1, "m2": 1})
    step(ledger)
    found = ledger.find("a")
    assert held(ledger, wire) == rows
    assert found.machine == (machine or found.machine)
    assert (found.moving is None) == (len(rows) < 2)
    counts = {name.decode() for name in wire.one("HKEYS", ledger.counts)}
    assert counts == {f"{name} {what}" for name in rows for what in ("port 7", "role 1 c master")}
    follower = follower_of(ledger)
    assert sorted(follower.view.holders(frozenset({("cluster", "c")}))) == sorted(rows)


def test_who_moved_away_is_a_leaver_where_it_was(wire, names):
    """From the confirmation on, as its record was there; one that stays, and what was only reserved, leave nothing."""
    ledger = clocked_ledger(wire, names)
    follower = follower_of(ledger)
    ledger.cancel_move(moving_instance(ledger))
    (old,) = ledger.all_instances().values()
    wire.one("SET", names.key("clock"), f"{NOW_S + 5:.6f}")
    ledger.begin_move(old, [Candidate("m2", -1)], 60.0)
    assert ledger.leavers() == []
    wire.one("SET", names.key("clock"), f"{NOW_S + 9:.6f}")
    ledger.confirm("a", machine="m2", started_at=NOW_S)  # it cannot have begun before the move
    follower.poll()
    (left,) = ledger.leavers()
    assert (left.machine, left.started_at, left.ended_at, left.moving) == ("m1", NOW_S, NOW_S + 5, None)
    assert follower.view.instances["a"].started_at == NOW_S + 5
    followed, read = follower.view.leavers, LedgerView(leavers=[left]).leavers
    assert len(followed) == len(read) == len(followed.slots_on("m1")) == 1


def test_a_move_may_give_it_another_size(ledger, wire):
    """Each machine holds its own amounts; what else changes meanwhile is there, too; cancelled, it is as before."""
    own = Wanted(
        msgspec.structs.replace(simple("a").instance, amounts=amounts_of(2.0, 3e9)), 60.0, [Candidate("m1", -1)]
    )
    ledger.reserve([own])
    (old,) = ledger.confirm("a").changes
    rules = Rules(selector="disk=ssd")
    new = msgspec.structs.replace(old, amounts=amounts_of(4.0, 1e9), maxmemory=5e8, rules=rules)
    full = Candidate("m2", -1, [Limit(total("cpu"), 3.0, "m2 is full")])
    assert ledger.begin_move(old, [full], 60.0, new=new).outcomes[0].reasons == ("m2 is full",)
    (begun,) = ledger.begin_move(old, [full._replace(limits=())], 60.0, new=new).changes
    assert (begun.amounts, begun.moving and begun.moving.new) == (old.amounts, arrival(new))

    def cpu():
        flat = wire.one("HGETALL", ledger.machines)
        return {k.decode(): sums_in(v)["prod", "cpu"] for k, v in zip(flat[::2], flat[1::2], strict=True)}

    assert cpu() == {"m1": 2_000_000, "m2": 4_000_000}
    labelled = msgspec.structs.replace(begun, labels={"moving": '"new":{', "x": "y"})
    (begun,) = ledger.update([Change(begun, labelled, [])]).changes
    assert (begun.labels["x"], begun.moving and begun.moving.new) == ("y", arrival(new))
    assert Check(ledger).run().differences == []
    (stays,) = ledger.cancel_move(begun).changes
    assert (stays.amounts, stays.moving, cpu()) == (old.amounts, None, {"m1": 2_000_000})
    new = msgspec.structs.replace(stays, amounts=amounts_of(4.0, 1e9), maxmemory=5e8, rules=rules)
    ledger.begin_move(stays, [Candidate("m2", -1)], 60.0, new=new)
    (there,) = ledger.confirm("a", machine="m2").changes
    kept = ("amounts", "maxmemory", "labels", "rules", "generation")
    assert [getattr(there, name) for name in kept] == [getattr(new, name) for name in kept]
    assert cpu() == {"m2": 4_000_000}
    assert ledger.leavers()[0].amounts == old.amounts
    assert Check(ledger).run().differences == []


def test_a_move_ends_by_itself(wire, names):
    """At its time whichever script comes first frees the target; the instance stays, and can move anew."""
    ledger = clocked_ledger(wire, names)
    first = moving_instance(ledger, 10.0)
    wire.one("SET", names.key("clock"), f"{NOW_S + 10.0:.6f}")
    assert ledger.expire().count == 1
    assert held(ledger, wire) == {"m1": 1}
    (stays,) = ledger.all_instances().values()
    (again,) = ledger.begin_move(stays, [Candidate("m2", -1)], 10.0).changes
    assert first.moving and again.moving and first.moving.number != again.moving.number
    late = ledger.confirm("a", machine="m2", move=first.moving.number)
    assert late.outcomes[0].kind == "moving"
    wire.one("SET", names.key("clock"), f"{NOW_S + 30.0:.6f}")
    assert ledger.confirm("a", machine="m2", move=again.moving.number).outcomes[0].kind == "elsewhere"
    assert held(ledger, wire) == {"m1": 1}
    assert wire.one("EXISTS", ledger.moving) == 0


def test_a_query_that_comes_again_does_not_confirm_the_next_move(wire, names):
    """It acted on the move before: delivered again it changes nothing."""
    ledger, call = Ledger(wire, names), Call("q1", 0.0)
    moving_instance(ledger)
    (there,) = ledger.confirm("a", machine="m2", call=call).changes
    (back,) = ledger.begin_move(there, [Candidate("m1", -1)], 60.0).changes
    (home,) = ledger.confirm(back.id, machine="m1").changes
    ledger.begin_move(home, [Candidate("m2", -1)], 60.0)
    again = ledger.confirm("a", machine="m2", call=call)
    assert (again.outcomes[0].kind, again.changes) == ("elsewhere", [])


def test_what_is_tried_of_a_move_is_not_written(ledger):
    moving = moving_instance(ledger)
    tried = ledger.confirm("a", machine="m2", dry_run=True).outcomes[0]
    assert (tried.kind, tried.instance and tried.instance.machine) == ("done", "m2")
    ledger.cancel_move(moving, dry_run=True)
    assert ledger.all_instances() == {"a": moving}


def test_what_grows_while_it_moves_must_have_room_on_both(ledger, wire):
    """The reason is that of the machine that has none; with room on both it is still moving."""
    moving = moving_instance(ledger)
    larger = msgspec.structs.replace(moving, amounts=amounts_of(1.0))
    for most, kind, reasons in ((0.5, "conflict", ("m2 is full",)), (1.0, "done", ())):
        limits = {"m1": [Limit(total("cpu"), 9.0, "m1 is full")], "m2": [Limit(total("memory"), 1.0, "-"),
                  Limit(total("cpu"), most, "m2 is full")]}  # fmt: skip
        done = ledger.update([Change(moving, larger, [Candidate(name, -1, of) for name, of in limits.items()])])
        assert (done.outcomes[0].kind, done.outcomes[0].reasons) == (kind, reasons)
    assert done.changes[0].moving == moving.moving
    assert held(ledger, wire) == {"m1": 1, "m2": 1}


@pytest.mark.parametrize(("old", "new", "rows", "to"), [
    ("m1", "m9", {"m9": 1, "m2": 1}, "m2"), ("m2", "m9", {"m1": 1, "m9": 1}, "m9"),
    ("m1", "m2", {"m2": 1}, None), ("m2", "m1", {"m1": 1}, None),
])  # fmt: skip
def test_both_ends_of_a_move_may_have_another_name(ledger, wire, old, new, rows, to):
    """A move between two names of one machine has ended; what moved there is not a leaver."""
    follower = Follower(ledger)
    moving_instance(ledger)
    follower.poll()
    assert ledger.rename(old, new, ledger.machine_versions()[old], ["a"])
    far, change = wire.one("HMGET", ledger.head, "far", "change")
    assert far == change, "what was decided before is decided again"
    follower.poll()
    (now,) = ledger.all_instances().values()
    assert (held(ledger, wire), now.moving.to if now.moving else None) == (rows, to)
    assert follower.view.instances == {"a": now}
    assert follower.view.machine_names == tuple(sorted(rows))
    assert ledger.leavers() == []
    ledger.release("a")
    assert held(ledger, wire) == {}


def test_masters_are_counted_by_the_role_that_the_filter_names(ledger):
    """With a limit of one primary the script places one of three, and any number of replicas."""
    masters = Masters(share=0.5, role="primary")
    request = Request(cluster="shop", role="primary", cluster_masters=3)
    limits = list(masters.limit(request, None))
    kinds = []
    for number in range(6):
        record = Instance(
            id=f"p{number}", machine="", state="reserved", amounts=amounts_of(0.1), request="q", cluster="shop",
            role="primary" if number < 3 else "replica", cluster_masters=3,
        )  # fmt: skip
        kinds.append(ledger.reserve([Wanted(record, 60.0, [Candidate("m1", -1, limits)])]).outcomes[0].kind)
    assert kinds == ["placed", "conflict", "conflict", "placed", "placed", "placed"]


EXPIRIES = [("none", 0), ("some", 137), ("all", 450)]


@pytest.mark.parametrize("expired", [row[1] for row in EXPIRIES], ids=[row[0] for row in EXPIRIES])
def test_expiry_of_none_some_and_all(wire, names, expired):
    """So many of 450 reservations run out, more than one sweep takes; the others stay; nothing of the ended is left."""
    ledger = clocked_ledger(wire, names)
    soon = [simple(f"e{n}", f"m{n % 7}", 1.0 if n < expired else 100.0) for n in range(450)]
    ledger.reserve(soon)
    wire.one("SET", names.key("clock"), f"{NOW_S + 1:.6f}")
    follower = follower_of(ledger)
    assert len(follower.view) == 450
    assert ledger.expire(200).count == min(200, expired)
    while ledger.expire(200).count:
        pass
    follower.poll()
    assert len(follower.view) == 450 - expired == len(ledger.all_instances())
    for number in range(450):
        record = ledger.find(f"e{number}")
        assert record.state == ("expired" if number < expired else "reserved")
    if expired == 450:
        left = [wire.one("EXISTS", key) for key in ledger._keys[1:6]]
        assert left == [0] * 5


def test_a_confirm_at_the_very_moment_of_expiry_is_too_late(wire, names):
    """At expires_at the reservation has ended, a microsecond before it has not."""
    ledger = clocked_ledger(wire, names)
    for offset, kind in ((59.999999, "done"), (60.0, "ended")):
        wire.one("SET", names.key("clock"), f"{NOW_S:.6f}")
        ledger.reserve([simple(f"at-{offset}")])
        wire.one("SET", names.key("clock"), f"{NOW_S + offset:.6f}")
        assert ledger.confirm(f"at-{offset}").outcomes[0].kind == kind


def test_correcting_brings_back_and_overrules(ledger, wire):
    """An inventory's word: a released instance that runs is live again, whatever the limits; gone is gone."""
    ledger.reserve([simple("h1"), simple("h2")])
    ledger.release("h1")
    true = Instance(id="h1", machine="m2", state="confirmed", amounts=amounts_of(50.0, 1e12), ports=(1,))
    ledger.correct([true], ["h2", "never"])
    follower = follower_of(ledger)
    assert set(follower.view.instances) == {"h1"}
    assert follower.view.instances["h1"].state == "confirmed"
    assert wire.one("EXISTS", f"{ledger.ended}:h1") == 0
    ledger.correct([msgspec.structs.replace(true, machine="m3")])
    assert ledger.machine_versions().keys() == {"m3"}


def test_correcting_takes_the_true_start(wire, names):
    """Where the inventory knows it, never one that is yet to come; else it stays, or is now."""
    ledger = clocked_ledger(wire, names)
    one = Instance(id="s", machine="m1", state="confirmed", amounts=amounts_of(1.0), started_at=NOW_S - 500.0)

    def started(there, **more):
        (change,) = ledger.correct([there], **more).changes
        return change.started_at

    assert started(one) == NOW_S
    assert started(one, true_starts=True) == NOW_S - 500.0
    assert started(msgspec.structs.replace(one, started_at=0.0), true_starts=True) == NOW_S - 500.0
    assert started(msgspec.structs.replace(one, started_at=NOW_S + 9.0), true_starts=True) == NOW_S
    assert started(msgspec.structs.replace(one, machine="m2", started_at=0.0), true_starts=True) == NOW_S


def test_an_inventory_of_a_lost_lease_changes_nothing(ledger, wire):
    """The lease ran out and another took it: neither does what it has appear, nor does what it lacks end."""
    lease, other = Lease(ledger, "pods", "one", 60.0), Lease(ledger, "pods", "other", 60.0)
    number = lease.take()
    held = Held("pods", number)
    there = Instance(id="l", machine="m1", state="confirmed", amounts=amounts_of(1.0))
    ledger.correct([there], lease=held)
    lease.give_up()
    assert other.take() != number
    before = wire.one("HGETALL", ledger.head), wire.one("HGETALL", ledger.instances)
    for found, gone in (([msgspec.structs.replace(there, machine="m2")], []), ([], ["l"])):
        with pytest.raises(Overtaken):
            ledger.correct(found, gone, lease=held)
    assert (wire.one("HGETALL", ledger.head), wire.one("HGETALL", ledger.instances)) == before
    assert ledger.live(["l", "none"])["l"].machine == "m1"


def test_ended_ids_are_forgotten_after_their_time(wire, names):
    """An ended record carries the lifetime it was given."""
    ledger = Ledger(wire, names, remember_s=1000)
    ledger.reserve([simple("k")])
    ledger.release("k")
    assert 990 <= wire.one("TTL", f"{ledger.ended}:k") <= 1000


def test_a_script_looks_for_what_is_due_when_the_head_does_not_say_when(wire, names):
    """The head's `due` saves the look until that time."""
    ledger, clock = clocked_ledger(wire, names), names.key("clock")
    for now_s, name, due, expired in (
        (1000, "a", None, []),
        (1020, "b", "9999", []),  # "nothing is due": believed
        (1040, "c", "", ["a", "b"]),
        (1045, "d", None, []),
        (1050, "e", None, ["c"]),
    ):
        wire.one("SET", clock, f"{now_s:.6f}")
        if due is not None:
            wire.one("HSET", ledger.head, "due", due)
        changes = ledger.reserve([simple(name, ttl_s=10.0)]).changes
        assert [(one.id, one.state) for one in changes] == [
            *((gone, "expired") for gone in expired),
            (name, "reserved"),
        ]


def test_every_script_names_its_arguments():
    """Each script begins with a header; the shared one names every key."""
    lua = Path(ledger_module.__file__).parent / "lua"
    header = (lua / "ledger.lua").read_text().split("]]", 1)[0]
    assert all(f"KEYS[{number}]" in header for number in range(1, 13))
    for name in SCRIPTS:
        own = (lua / f"{name}.lua").read_text()
        assert own.startswith("--[[ ")
        assert ("ARGV[1" if name in ALONE else "ARGV[5") in own
        assert "Result" in own
