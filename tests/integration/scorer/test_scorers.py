"""Several scorers on one ledger."""

import threading
import time
from collections import Counter

import pytest

from schemas.resources import PRIORITY_CLASSES
from scorer.client import Client
from scorer.commands.machines.operator_facts import change_operator_facts
from tests.bench.bench_scorers import contend
from tests.effort import LONG, effort
from tests.integration.scorer.test_rpc import scorer_process
from tests.window_tables import publish, window_table


@pytest.mark.long
def test_several_scorers_never_oversubscribe(valkey, names):
    """Three scorers, one killed in the middle, six clients, a nearly full fleet: every law holds in the history."""
    placements = effort(500, 6_000) if LONG else 250
    report, _ = contend(valkey.url, names, scorers=3, clients=6, placements=placements, machines=12, kill=True)
    assert report.faults == []
    assert report.answers["placed"] > placements / 4
    assert report.answers["no machine"] > 0
    assert report.fullest > 0.95
    assert report.answers["moving"] > report.answers["moved"] > 0


@pytest.mark.slow
def test_no_class_exceeds_its_sum(valkey, names):
    """Two scorers, four clients, mixed classes with churn, measured usage that changes: each class is within its sum.

    At rest the ledger's sums are those of its instances, and what is told to leave is what no longer fits.
    """
    placements = effort(160, 6_000)
    report, _ = contend(
        valkey.url, names, scorers=2, clients=4, placements=placements, machines=3, classes=True, usage_every_s=0.3
    )
    assert report.faults == []
    assert all(report.fullest_of_class[name] > 0 for name in PRIORITY_CLASSES)


def test_rules_hold_between_scorers(valkey, names):
    """So many a rack or a machine, asked for by many at once of three scorers: each gets as many, none gets more."""
    machines = [f"m{number:02d}" for number in range(8)]
    racks = {machine: f"rack{number % 4}" for number, machine in enumerate(machines)}
    facts = {
        machine: {"type": "machine", "v": 1, "machine": machine, "boot": 1, "at": 1.0, "labels": {"rack": rack}}
        for machine, rack in racks.items()
    }
    publish(valkey.url, names, [window_table(machines, at=time.time() + 30, facts=1)], [facts])
    answers = []

    def ask(by, most, number):
        app = f"{by}{most}"
        rule = [{"instances": {"app": app}, "topology": by, "others": most - 1}]
        with Client(valkey.url, names.prefix, timeout_s=60) as client:
            answers.append(client.place(id=f"{app}-{number}", cpu=0.1, labels={"app": app}, anti_affinity=rule))

    scorers = [scorer_process(valkey.url, names, "--name", f"s{number}") for number in range(3)]
    with scorers[0], scorers[1], scorers[2]:
        with Client(valkey.url, names.prefix, timeout_s=60) as client:
            client.health()
        for by, most, count in (("rack", 1, 4), ("rack", 2, 4), ("machine", 2, 8)):
            asked = most * count + 8
            asking = [threading.Thread(target=ask, args=(by, most, number)) for number in range(asked)]
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()
            placed = [answer["machine"] for answer in answers if answer["machine"]]
            where = Counter(racks[machine] if by == "rack" else machine for machine in placed)
            assert (len(where), set(where.values()), len(answers)) == (count, {most}, asked)
            answers.clear()


def test_operators_rules_hold_for_the_next_query_of_any_scorer(valkey, names, server):
    """Of scorers that read the fleet three times a second, each answers by the rule that was written before."""
    publish(valkey.url, names, [window_table(["m00", "m01"], at=time.time() + 30)])
    scorers = [scorer_process(valkey.url, names, "--name", f"s{number}", "--refresh-s", "0.3") for number in range(2)]
    with scorers[0], scorers[1], Client(valkey.url, names.prefix, timeout_s=60) as client:
        assert client.rank(cpu=0.1).feasible == 2
        for turn in range(6):
            change_operator_facts(server, names, "m00", lambda _, turn=turn: {"labels": {"turn": f"{turn}"}})
            assert client.rank(cpu=0.1, selector=f"turn={turn}").feasible == 1
            client.cordon(machines=["m00"])
            assert client.rank(cpu=0.1).feasible == 1
