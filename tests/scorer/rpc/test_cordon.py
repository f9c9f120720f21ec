"""Cordons by query: the same machines and the same entries as the command's, once a query."""

import msgspec
import pytest

from schemas.rpc.envelope import Query
from schemas.rpc.request import InvalidRequest
from scorer.placement.choosing.plan import run_to_end
from scorer.rpc.methods.records import CallError
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


@pytest.fixture
def scorer():
    racks = {"a1": "r1", "a2": "r1", "b1": "r2"}
    return Scorer(fleet(*(machine(name, usage={"cpu": 1}, labels={"rack": rack}) for name, rack in racks.items())))


@pytest.mark.parametrize(
    ("asked", "machines"),
    [
        ({"machines": ["b1"]}, ["b1"]),
        ({"machines": ["b1", "a*", "b1"]}, ["b1", "a1", "a2"]),
        ({"selector": "rack=r1"}, ["a1", "a2"]),
        ({"machines": ["a2"], "selector": "rack notin (r1)"}, ["a2", "b1"]),
        ({"machines": ["*"]}, ["*"]),
        ({"machines": ["c9"], "ahead": True}, ["c9"]),
    ],
)
def test_which_machines(scorer, asked, machines):
    found = scorer.ask("cordon", **asked)
    assert found == {"rules": {name: {"cordon": True} for name in machines}, "dry_run": False}
    assert scorer.rules.entries == dict.fromkeys(machines, b'{"cordon":true}')
    assert scorer.ask("uncordon", **asked)["rules"] == {name: {} for name in machines}
    assert scorer.rules.entries == dict.fromkeys(machines, b"")


def test_other_rules_stay(scorer):
    scorer.rules.entries["a1"] = b'{"labels":{"disk":"ssd"},"newer":[]}'
    scorer.rules.entries["a2"] = b'{"newer":7}'
    assert scorer.ask("cordon", machines=["a*"])["rules"]["a2"] == {"newer": 7, "cordon": True}
    assert msgspec.json.decode(scorer.rules.entries["a1"]) == {"labels": {"disk": "ssd"}, "cordon": True}
    assert msgspec.json.decode(scorer.rules.entries["a2"]) == {"newer": 7, "cordon": True}


def test_a_dry_run_changes_nothing(scorer):
    assert scorer.ask("cordon", machines=["a1"], dry_run=True) == {"rules": {"a1": {"cordon": True}}, "dry_run": True}
    assert scorer.rules.entries == {}


def test_the_same_query_acts_once(scorer):
    """It gets the same answer again, also when the machine has been uncordoned meanwhile; that stays."""

    def ask(query_id, method):
        query = Query(id=query_id, method=method, deadline=9e9, params=msgspec.Raw(b'{"machines":["a1"]}'))
        return run_to_end(scorer.service.steps(query))

    first = ask("q", "cordon")
    ask("r", "uncordon")
    assert ask("q", "cordon") == first
    assert scorer.rules.entries["a1"] == b""


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({}, "machines: give names, globs or a selector"),
        ({"machines": ["c9"]}, "no machine 'c9'"),
        ({"machines": ["c*"]}, r"no machine matches 'c\*'; there are 3"),
        ({"selector": "rack=r9"}, "no machine has labels that 'rack=r9' selects"),
        ({"selector": "((("}, "selector"),
        ({"machines": ["a b"], "ahead": True}, "not printable ASCII"),
        ({"machines": "a1"}, "machines"),
        ({"machine": ["a1"]}, "machine"),
    ],
)
def test_refused(scorer, asked, error):
    with pytest.raises((InvalidRequest, CallError), match=error):
        scorer.ask("cordon", **asked)
    assert scorer.rules.entries == {}
