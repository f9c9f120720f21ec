"""What the verbs answer, by rows of nodes; pods on their way count, and the scheduler is told of no figure."""

import msgspec
import numpy as np
import pytest

from schemas.messages.operator import OperatorFacts
from schemas.tables.window_table import decode_table, encode_table
from scorer.kubernetes.extender.assumed import LASTS_S, AssumedPods
from scorer.kubernetes.extender.verbs import kept, profile_for, reservation, scored
from scorer.kubernetes.pods_body import read_pod
from scorer.kubernetes.pods_request import Reading, request_of
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.snapshot.builder import build_snapshot
from tests.window_tables import GIB, window_table

NOW_S = 1_795_301_775.5
LOAD = {f"n{place}": 0.1 * place for place in range(8)}
"""By node, the share of cpu, memory and network that is used."""
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
    "status": {},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}


def request(uid="u", **amounts):
    made = request_of(read_pod(msgspec.json.encode(POD)), uid, Reading("east"))
    return msgspec.structs.replace(made, **amounts)


def inputs(ages_s=None, cordoned=(), mode="score", placed=(), load=None):
    """Return a fleet of nodes with this load, whose newest samples are 3 s old or have these ages."""
    load = load or LOAD
    names, used = list(load), list(load.values())
    table = decode_table(window_table(names, utilization=used, capacity=(16.0, 64 * GIB, 1e9), at=NOW_S - 3))
    columns = {name: column.copy() for name, column in table.columns.items()}
    for name, age_s in (ages_s or {}).items():
        columns["at"][names.index(name)] = NOW_S - age_s
    rules = {name: OperatorFacts(cordon=True) for name in cordoned}
    snapshot = build_snapshot([decode_table(encode_table(table.header, columns, table.names))], {}, rules)
    return RankingInputs(snapshot, LedgerView(placed), profile_for(load_profiles().choose(), mode), NOW_S)


ALL = list(LOAD)
SCORED = [
    # name, nodes asked about, fleet, the most that have a score, those that have one
    ("best first", ["n6", "n1", "n5"], inputs(), 500, ["n1", "n5", "n6"]),
    ("the best two", ALL, inputs(), 2, ["n0", "n1"]),
    ("one that is not known", ["x", "n5", "n1"], inputs(), 500, ["n1", "n5"]),
    ("none that is known", ["x", "y"], inputs(), 500, []),
    ("none", [], inputs(), 500, []),
    ("a stale one", ["n0", "n1"], inputs({"n0": 500}), 500, ["n1"]),
    ("a cordoned one", ["n0", "n1"], inputs(cordoned=("n0",)), 500, ["n1"]),
    ("a hot one", ["a", "b"], inputs(load={"a": 0.97, "b": 0.5}), 500, ["b"]),
]


@pytest.mark.parametrize(("names", "given", "top", "wanted"), [row[1:] for row in SCORED], ids=[r[0] for r in SCORED])
def test_scores(names, given, top, wanted):
    assert [one.host for one in scored(names, rank(request(), given), top).scores] == wanted


def test_scores_are_whole_and_never_none():
    found = scored(ALL, rank(request(), inputs()), 500).scores
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert {type(one.score) for one in found} == {int}
    assert all(1 <= one.score <= 100 for one in found)
    assert found[0].score > found[-1].score
    ranking = rank(request(), inputs())
    ranking.total = np.linspace(-0.2, 100.3, len(LOAD))
    assert [one.score for one in scored(ALL, ranking, 500).scores][:: len(LOAD) - 1] == [100, 1]


FULL = instance_of(request("v", cpu=16.0, expected={"cpu": 0.0, "memory": 0.0}), "n0", 1.0)
"""Promised all cores of its node, and expected to use none."""
FILTERED = [
    # name, nodes asked about, fleet, kept, refused, refused whatever is evicted
    ("all", ["n3", "n1"], inputs(), ["n3", "n1"], {}, {}),
    ("one that is not known", ["x", "n1"], inputs(), ["x", "n1"], {}, {}),
    ("a cordoned one", ["n0", "n1"], inputs(cordoned=("n0",)), ["n1"], {}, {"n0": "cordoned"}),
    ("a stale one", ["n1", "n0"], inputs({"n0": 500}), ["n1"], {}, {"n0": "stale"}),
    ("all of them", ["n0"], inputs(cordoned=("n0",)), [], {}, {"n0": "cordoned"}),
    ("a hot one", ["a", "b"], inputs(load={"a": 0.97, "b": 0.5}), ["b"], {}, {"a": "cpu used over threshold"}),
    ("a full one, in mode filter", ["n0", "n1"], inputs(placed=(FULL,)),
     ["n0", "n1"], {}, {}),
    ("a full one, in mode bind", ["n0", "n1"], inputs(mode="bind", placed=(FULL,)), ["n1"],
     {"n0": "too much cpu promised"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "given", "keeps", "failed", "unresolvable"), [row[1:] for row in FILTERED], ids=[r[0] for r in FILTERED]
)
def test_filter(names, given, keeps, failed, unresolvable):
    found = kept(names, rank(request(), given))
    assert found.node_names == keeps
    assert found.failed_nodes == failed
    assert found.failed_and_unresolvable_nodes == unresolvable


def test_unknown_nodes_are_counted():
    assert scored(["x", "n1", "y"], rank(request(), inputs()), 500).unknown == 2


def test_a_reservation_is_for_the_chosen_node_within_its_limits():
    ranking = rank(request(), inputs(mode="bind"))
    wanted = reservation(request(), "n3", ranking)
    (offered,) = wanted.candidates
    assert (wanted.own[0], offered.machine, offered.version) == ("u", "n3", -1)
    assert {limit.measure[-1] for limit in offered.limits} >= {"cpu", "memory"}
    assert reservation(request(), "x", ranking).candidates[0].limits == ()


def test_pods_on_their_way_count():
    """Each goes to the node that is best with the ones before; not twice, and not for longer than they last."""
    given, pending, chosen = inputs(load=dict.fromkeys("abcd", 0.3)), AssumedPods(), []
    for number in range(8):
        overlay = pending.over(given.ledger, f"u{number}", NOW_S)
        ranking = rank(request(f"u{number}", cpu=4.0), given if overlay is None else given.on(overlay))
        chosen.append(scored(["a", "b", "c", "d"], ranking, 500).scores[0].host)
        pending.note(instance_of(request(f"u{number}", cpu=4.0), chosen[-1], NOW_S), NOW_S)
    assert sorted(chosen) == sorted("abcd" * 2)
    assert pending.over(given.ledger, "u0", NOW_S) is not None
    assert len(pending) == 7
    given.ledger.apply(instance_of(request("u1"), "a", NOW_S))
    overlay = pending.over(given.ledger, "", NOW_S)
    assert [len(overlay.held_on(node)) for node in "abcd"].count(0) == 0
    assert len(pending) == 6
    assert pending.over(given.ledger, "", NOW_S + LASTS_S + 0.1) is None
    assert len(pending) == 0


def test_a_pod_that_is_tried_again_does_not_count_itself():
    given, pending = inputs(placed=(instance_of(request("u"), "n0", 1.0),)), AssumedPods()
    pending.note(instance_of(request("v"), "n1", NOW_S), NOW_S)
    overlay = pending.over(given.ledger, "u", NOW_S)
    assert [one.id for node in ("n0", "n1") for one in overlay.held_on(node)] == ["v"]


def test_a_pod_does_not_count_for_longer_since_the_clock_was_set_back():
    given, pending = inputs(), AssumedPods()
    pending.note(instance_of(request("early"), "n0", NOW_S), NOW_S)
    back_s = NOW_S - 3_600
    pending.note(instance_of(request("late"), "n1", back_s), back_s)
    over = pending.over(given.ledger, "", back_s)
    assert over is not None
    assert "late" in over
    assert "early" not in over
    assert pending.over(given.ledger, "", back_s + LASTS_S + 1) is None


def test_a_port_of_the_host_is_the_schedulers():
    """53/TCP and 53/UDP are two: the record has the port, the reservation no limit on it."""
    asked = request(ports=(53,))
    wanted = reservation(asked, "n1", rank(asked, inputs(mode="bind")))
    assert wanted.instance.ports == (53,)
    assert "port taken" not in [limit.reason for one in wanted.candidates for limit in one.limits]
    assert [limit.reason for one in wanted.candidates for limit in one.limits]
