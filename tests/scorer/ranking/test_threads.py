"""Several threads rank while rows are written: each sees whole rows, and those that are made from the same state anew.

Rows are written by a flush of windows and by transitions of the ledger. A call of the library keeps the interpreter's
lock, so no row is written meanwhile; what takes several calls is done by one thread, or by who holds the fleet's lock.
"""

import sys
import threading
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schemas.names import Names
from schemas.tables.learned import Learned
from schemas.tables.partition_windows import VERSION
from schemas.tables.window_table import decode_table, encode_table
from scorer.kubernetes.extender.fleet import FollowedFleet
from scorer.kubernetes.extender.fleet import Metrics as ExtenderMetrics
from scorer.ledger.record.instance import copy_with
from scorer.ledger.store.follower import Follower
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.metrics import Metrics
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.kernel.binding import make_rows
from scorer.ranking.profiles.catalogue import Profiles
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import Decision, rank
from scorer.rpc.methods.current import Current
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Latest
from tests.scorer.fleets import request
from tests.window_tables import GIB, window_table

NAMES = [f"m{number:04}" for number in range(1_500)]
FEW = NAMES[:120]
NOW_S = 1_795_301_775.0
ASKED = request(cpu=1, memory=4 * GIB)
"""The same share of the cores and of the memory of each machine."""
BALANCED = parse_profile('filters = []\nscores = [{use = "balanced_allocation", weights = {cpu = 1, memory = 1}}]', "b")
PROFILE = parse_profile(
    """
    debits = true
    learned = true
    filters = [{use = "fits"}, {use = "usage_threshold", thresholds = {cpu = 0.8}}, {use = "daily_peak"}]
    scores = [{use = "load_variation_risk"}, {use = "global_variance"}, {use = "expected_overload"}]
    """,
    "p",
)
ROUNDS = 40


def together(writer, *readers):
    """Run the writer once, and the readers again and again until it is done; raise what any of them raises."""
    done, raised = threading.Event(), list[BaseException]()

    def reading(read):
        try:
            while not done.is_set():
                read()
        except BaseException as error:
            raised.append(error)
            done.set()

    threads = [threading.Thread(target=reading, args=(one,)) for one in readers]
    for thread in threads:
        thread.start()
    try:
        writer()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if raised:
        raise raised[0]


@pytest.fixture(autouse=True)
def _often():
    """Threads take turns after 1 us in place of 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def table_of(names, turn):
    """Return windows in which each turn changes one machine in ten."""
    version = 1 + (turn + np.arange(len(names))) // 10
    table = decode_table(window_table(names, utilization=0.2 + 0.01 * (version % 40), at=NOW_S - 3))
    return decode_table(encode_table(table.header, {**table.columns, VERSION: version.astype(float)}, table.names))


def placed(number, names):
    """Return an instance that has just started; its amounts are sums of powers of two, which add up in any order."""
    record = instance_of(ASKED, names[number % len(names)], NOW_S, f"i{number}")
    return copy_with(record, state="confirmed", started_at=NOW_S - 1.0)


def test_a_call_sees_whole_rows():
    """One thread writes all rows again and again, three evaluate them, without any lock of their own."""
    snapshot = build_snapshot([table_of(NAMES, 0)], {}, {})
    inputs = RankingInputs(snapshot, LedgerView([placed(number, NAMES) for number in range(3_000)]), BALANCED, NOW_S)

    def reader():
        decision = Decision(ASKED, inputs)

        def read():
            decision.evaluate()
            torn = np.flatnonzero(decision.terms[0].raw != 100.0)
            assert not torn.size, f"{torn.size} rows were read while they were written"

        read()
        return read

    readers = [reader() for _ in range(3)]
    table = Decision(ASKED, inputs).machines.table
    at = np.arange(len(NAMES))
    residents = table.residents.on(at.tolist())

    def write():
        for _ in range(6 * ROUNDS):
            make_rows(table.making, at, at, residents, (*table.records, None))

    together(write, *readers)


class Log:
    """A ledger's log in memory, which is its own connection."""

    leavers_most = 50

    def __init__(self, names):
        self.wire = self
        self._names = names
        self._records = []
        self._live = []

    def grow(self):
        """Add a change: two instances start, then the older one ends."""
        version = len(self._records) + 1
        if version % 3 == 0:
            record = copy_with(self._live.pop(0), state="released", ended_at=NOW_S, version=version)
        else:
            record = copy_with(placed(7 * version, self._names), version=version)
            self._live.append(record)
        self._records.append(record)

    def ask(self, commands):
        return list(commands)

    def log_reads(self, change, most=2000):
        """Return what `read_log` answers: all after a change."""
        return [change]

    def read_log(self, answers):
        """Return the epoch, the last change, and the changes after one."""
        return "epoch", len(self._records), self._records[answers[0] :]

    def is_open(self):
        """There is a ledger, which was empty when it was read first."""
        return True

    def pages(self, torn):
        return iter(())

    def leavers(self):
        return []

    def machine_versions(self, *, around=False):
        return {}


class Flushes:
    """Reads windows that have changed each time, and learned factors that are others at times."""

    def __init__(self, names):
        self._tables = cycle([table_of(names, turn) for turn in range(20)])
        self._turn, self._facts, self._snapshot = 0, dict[str, Any](), None

    def refresh(self, _=()):
        self._turn += 1
        found = build_snapshot([next(self._tables)], self._facts, self._facts, previous=self._snapshot)
        learned = Learned(version=2, factors={"cpu": 0.25 + 0.25 * (self._turn // 7 % 3)})
        self._snapshot = found.with_use(learned, found.usages)
        return self._snapshot


def as_made_anew(inputs):
    """Rank; rows are those made from this state alone, and totals, but for the rounding of the fleet's sums."""
    ranking, anew = rank(ASKED, inputs), rank(ASKED, RankingInputs(inputs.snapshot, inputs.ledger, PROFILE, NOW_S))
    for name in ranking.machines.table.rows.dtype.names:
        rows, wanted = ranking.machines.table.rows[name], anew.machines.table.rows[name]
        assert np.array_equal(rows, wanted, equal_nan=rows.dtype.kind == "f"), name
    np.testing.assert_allclose(ranking.total, anew.total, rtol=1e-12)


def test_records_stay_where_they_are_while_the_ledger_grows():
    """Another thread collects the addresses of all instances: they lie in the arrays that it keeps."""
    roster = build_snapshot([table_of(NAMES, 0)], {}, {}).roster

    def read():
        (addresses, ends), _, (records, _) = residents.everywhere()
        places = addresses - records.ctypes.data
        assert ends[-1] == places.size and np.all((places >= 0) & (places < records.nbytes))

    for _ in range(ROUNDS):
        ledger = LedgerView([])
        residents = Residents(ledger, roster)
        together(lambda: [ledger.apply(placed(number, NAMES)) for number in range(200)], read, read)  # noqa: B023
        assert residents.placed().rows.tolist() == list(range(200)), "no thread has misplaced another's machine"


def test_several_threads_rank_on_a_followed_fleet():
    """The extender's: its thread reads flushes and the ledger; who answers holds the lock."""
    log, flushes = Log(FEW), Flushes(FEW)
    flushes.wire = SimpleNamespace(ask=lambda _: [[]])
    parts = (log, flushes, PROFILE, ExtenderMetrics(), 0.0, Names("windward"))
    fleet = FollowedFleet(*parts, clock=lambda: NOW_S)
    fleet.turn()
    assert not fleet.trouble

    def read():
        with fleet.lock:
            as_made_anew(fleet.inputs(lambda _: None))

    def write():
        for _ in range(ROUNDS):
            log.grow()
            fleet.turn()
            assert not fleet.trouble, fleet.trouble

    together(write, read, read, read)


def test_a_scorer_ranks_while_its_other_thread_makes_rows():
    """The thread that answers follows the ledger, and takes over the rows that the refresher has made beside them."""
    log, latest, flushes = Log(FEW), Latest(), Flushes(FEW)
    follower = Follower(log)
    current = Current(follower, latest, Profiles({"p": PROFILE}, "p"), Metrics(), same_server=True, clock=lambda: NOW_S)
    current.begin()

    def refresh():
        snapshot = flushes.refresh()
        current.prepare(snapshot)
        latest.snapshot = snapshot

    def answer():
        for _ in range(2 * ROUNDS):
            log.grow()
            current.accept(current.reads())
            as_made_anew(current.ranking(PROFILE))

    refresh()
    together(answer, refresh)


def test_a_flush_of_the_whole_fleet_is_prepared():
    """The next decision takes over its rows; it follows a flush of few machines itself."""
    tables, ledger, snapshot = Tables(), LedgerView([]), None
    for turn, whole in ((0, True), (1, False), (11, True), (12, False)):
        snapshot = build_snapshot([table_of(NAMES, turn)], {}, {}, previous=snapshot)
        steps = list(tables.prepare(snapshot, ledger, PROFILE, NOW_S))
        made = [*tables._prepared.values()]
        used = rank(ASKED, RankingInputs(snapshot, ledger, PROFILE, NOW_S, tables)).machines.table
        assert (bool(steps), used in made) == (whole, whole), turn
