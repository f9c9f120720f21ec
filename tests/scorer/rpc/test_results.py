"""Results: every answer of a method has all keys of its Struct and no other."""

import inspect
from typing import get_type_hints

import msgspec
import pytest

from ops.cli.main import COMMANDS
from schemas.names import Names
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import RPC
from scorer.client import AsyncClient, Client
from scorer.client.call import OPERATORS
from scorer.commands.machines.machines import SETTINGS as OF_MACHINES
from scorer.ledger.record.transition import NotAcknowledged, UnknownFormat
from scorer.ledger.store.follower import Follower
from scorer.metrics import Metrics
from scorer.placement.choosing.plan import Steps, run_to_end
from scorer.planner.service import PlannerService
from scorer.planner.settings import PlannerSettings
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.records import CallError, ForPlanners
from scorer.rpc.operator_rules import OperatorRules
from scorer.rpc.parts import Refresher
from scorer.rpc.service import ScorerService
from scorer.settings import ScorerSettings
from scorer.snapshot.snapshot import Latest
from scorer.wire import Wire
from tests.scorer.fleets import fleet, machine
from tests.scorer.ledger.ledger_model import LedgerModel


class Model(LedgerModel):
    """The model, asked as the service asks the ledger."""

    def find(self, instance_id):
        return self.records.get(instance_id)

    def confirm(self, instance_id, **more):
        """As `Ledger.confirm`; what is to be tried only is done."""
        more.pop("dry_run", None)
        return super().confirm(instance_id, **more)

    def release(self, instance_id, **more):
        more.pop("dry_run", None)
        return super().release(instance_id, **more)

    def update(self, changes, **_):
        return super().update(changes)

    def begin_move(self, old, candidates, lasts_s, *, new=None, **_):
        return super().begin_move(old, candidates, lasts_s, new=new)

    def cancel_move(self, old, **_):
        return super().cancel_move(old)


class RulesModel(OperatorRules):
    """Operators' rules in memory, with the answers of the queries that changed them."""

    def __init__(self):
        self.entries = {}
        self.answers = {}
        self.moves = []
        super().__init__(self, Names())

    def one(self, *command):
        if command[0] == "GET":
            return self.answers.get(command[1])
        if command[0] == "HMGET":
            return [self.entries.get(name) for name in command[2:]]
        if command[0] == "SET":
            self.answers[command[1]] = command[2]
            return b"OK"
        if command[0] in ("LPUSH", "LRANGE", "LREM"):
            return self._of_moves(*command)
        acted, said, given = command[5], command[9], command[10:]
        for name, _, entry in zip(given[::3], given[1::3], given[2::3], strict=True):
            self.entries[name] = entry
        self.answers[acted] = said
        return [b"done"]

    def _of_moves(self, name, *command):
        if name == "LRANGE":
            return self.moves[:]
        if name == "LREM":
            self.moves.remove(command[2])
        else:
            self.moves.insert(0, command[1])
        return 1


class Scorer:
    """A service on a fleet (of four machines, unless given) and a ledger in memory, and a planner's beside it."""

    def __init__(self, offline=None):
        offline = offline or fleet(*(machine(f"m{n}", usage={"cpu": n, "memory": n}) for n in range(4)))
        ledger = Model(lambda: offline.now_s)
        follower = Follower(ledger)
        follower.loaded = True
        self.metrics = Metrics()
        current = Current(
            follower=follower, latest=Latest(offline.snapshot), profiles=load_profiles(), metrics=self.metrics,
            same_server=True, clock=lambda: offline.now_s,
        )  # fmt: skip
        self.rules = RulesModel()
        self.service = ScorerService(ScorerSettings(name="s"), current, self.rules, self.metrics)
        self.planner = PlannerService(PlannerSettings(name="p"), current, self.rules)
        self.asked = 0

    def ask(self, method, **params):
        """Return the decoded result of a query with an id of its own."""
        self.asked += 1
        query = Query(v=1, id=f"q{self.asked}", method=method, params=msgspec.Raw(msgspec.json.encode(params)))
        return msgspec.json.decode(self.answer(query))

    def answer(self, query):
        """Return the answer of the scorer, or of the planner to which it leaves the query."""
        try:
            return run_to_end(self.service.steps(query))
        except ForPlanners:
            return run_to_end(self.planner.steps(query))


CALLS = [
    ("rank", {"cpu": 1}),
    ("rank", {"cpu": 1000}),
    ("rank", {"cpu": 1, "explain": True}),
    ("place", {"id": "i", "cpu": 1}),
    ("place", {"id": "i", "cpu": 1}),
    ("place", {"cpu": 1000}),
    ("place", {"cpu": 1, "dry_run": True}),
    ("place", {"id": "many", "cpu": 1, "count": 3}),
    ("place", {"id": "many", "cpu": 1, "count": 3}),
    ("place", {"cpu": 1000, "count": 3, "all_or_nothing": True}),
    ("confirm", {"id": "i"}),
    ("confirm", {"id": "i"}),
    ("place", {"id": "i", "cpu": 1}),
    ("instances", {}),
    ("machines", {}),
    ("machines", {"limit": 1}),
    ("update", {"id": "i", "cpu": 0.5}),
    ("update", {"id": "i", "machine": ""}),
    ("update", {"id": "i", "machine": "m3", "move": True}),
    ("update", {"id": "i", "machine": "m3", "move": True}),
    ("instances", {"id": "i"}),
    ("update", {"id": "i", "cancel_move": True}),
    ("update", {"id": "i", "machine": "m3", "move": True, "cpu": 0.7, "selector": "!gone"}),
    ("instances", {"id": "i"}),
    ("update", {"id": "i", "cancel_move": True}),
    ("update", {"id": "i", "tolerations": [{"key": "gpu"}], "affinity": []}),
    ("update", {"id": "i", "machine": "m3", "move": True}),
    ("confirm", {"id": "i", "machine": "m3"}),
    ("release", {"id": "i"}),
    ("release", {"id": "i"}),
    ("health", {}),
]


def test_every_answer_of_a_method_has_its_keys():
    """Whatever was asked, known, missing or moved; the values are of the Struct's types."""
    scorer = Scorer()
    for method, params in CALLS:
        kind = RPC[method].result
        found = scorer.ask(method, **params)
        assert set(found) == set(kind.__struct_fields__), (method, params)
        assert keys(msgspec.to_builtins(msgspec.convert(found, kind))) == keys(found), (method, params)


def keys(value):
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return [keys(one) for one in value] if isinstance(value, list) else None


def test_a_repeated_count_has_the_ids_of_the_first():
    scorer = Scorer()
    asked = {"first_id": "1ksdg00000000y", "cpu": 1, "count": 3}
    first, again = scorer.ask("place", **asked), scorer.ask("place", **asked)
    assert [one["id"] for one in first["placed"]] == ["1ksdg00000000y", "1ksdg00000000z", "1ksdg000000010"]
    assert (again["placed"], first["repeated"], again["repeated"]) == (first["placed"], 0, 3)


def test_the_answer_to_a_move_has_the_terms_of_its_ranking():
    """Its expected use is by resource, unless the record has it; what does not move has no terms."""
    scorer = Scorer()
    for name, declared in (("plain", {}), ("declared", {"expected": {"cpu": 0.5}})):
        scorer.ask("place", id=name, cpu=1, machine="m1", **declared)
        scorer.ask("confirm", id=name)
    moved, begun = (
        scorer.ask("update", id="plain", machine="m2"),
        scorer.ask("update", id="plain", machine="", move=True),
    )
    for found in (moved, begun):
        assert found["expected"]["cpu"] == 1.0
        assert found["candidates"]
        assert found["fleet"] == 4
    assert (moved["moved_from"], begun["moved_from"]) == ("m1", None)
    assert scorer.ask("update", id="declared", machine="m2")["expected"][0] == 0.5
    resized = scorer.ask("update", id="declared", cpu=0.7)
    assert (resized["profile"], resized["candidates"], resized["amounts"][0]) == ("", [], 0.7)


def test_scorer_or_planner_answers_each_with_the_struct_of_its_result():
    """Each method of the table, and no other; whole or in steps."""
    assert ScorerService.METHODS.keys() == RPC.keys()
    for name, method in (ScorerService.METHODS | PlannerService.METHODS).items():
        returned, result = get_type_hints(method)["return"], RPC[name].result
        assert returned in (result, Steps[result]), name
        assert issubclass(result, msgspec.Struct)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_has_every_method_and_no_other(kind):
    """A method is one public function of the client, under its own name.

    `placed` is three of them in one; `events` reads the ledger's stream and asks no scorer.
    """
    public = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    assert public - {"call", "close", "aclose", "placed", "events"} == set(RPC)


def test_every_method_has_a_command():
    """What can be called can be called from a terminal."""
    assert set(RPC) <= {*COMMANDS, *OF_MACHINES}


@pytest.mark.parametrize("method", RPC)
def test_the_client_knows_which_are_for_operators(method):
    """It pushes them on the operators' list; the file is distributed alone, so it has a copy of their names."""
    assert (method in OPERATORS) == RPC[method].operators


def test_what_is_not_acknowledged_is_told(monkeypatch):
    def unacknowledged(*_, **__):
        raise NotAcknowledged("0 have")

    monkeypatch.setattr(Model, "reserve", unacknowledged)
    with pytest.raises(CallError, match="0 have"):
        Scorer().ask("place", cpu=1)


class Follows:
    """A copy of the ledger that is brought up to date when it is polled, or cannot be."""

    def __init__(self, known):
        self.view = "old"
        self._known = known

    def poll(self):
        self.view = "new"

    def require(self):
        if not self._known:
            raise UnknownFormat("w:v1:{ledger}", "9")


def test_a_round_sees_what_changed_during_the_last_query():
    """The ledger, which another planner or a command has changed meanwhile, and the snapshot."""
    current = Scorer().service.current
    current.follower = Follows(known=True)
    current.latest.snapshot = fleet(machine("m9")).snapshot
    found = current.newest(7.0)
    assert (found.ledger, found.snapshot.names, found.now_s) == ("new", ("m9",), 7.0)


def test_a_ledger_that_cannot_be_read_is_no_empty_one():
    current = Scorer().service.current
    current.follower = Follows(known=False)
    with pytest.raises(UnknownFormat):
        current.newest(7.0)


class OneSnapshot:
    wire = windows = Wire({"url": "redis://127.0.0.1"})
    refused, operator_version = 3, b"7"

    def __init__(self):
        self._left = [fleet(machine("a")).snapshot]

    def refresh(self, ledger_machines=(), woken=None):
        return self._left.pop() if self._left else None


def test_what_preparing_raises_keeps_no_snapshot_back():
    """What fails before anybody asks must not leave the scorer without machines."""

    def fails(snapshot):
        raise ZeroDivisionError("division by zero")

    loader = OneSnapshot()
    latest, metrics = Latest(), Metrics()
    wake_ups = lambda stopping: None  # noqa: E731
    refresher = Refresher(loader, latest, fails, metrics, 0.05, wake_ups)
    refresher.look()
    assert latest.snapshot.names == ("a",)
    assert metrics.refresh_failures.labels("rows")._value.get() == 1
    assert metrics.refresh_failures.labels("tables")._value.get() == 3
    refresher.look()
    assert latest.snapshot is not None
