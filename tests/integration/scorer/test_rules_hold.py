"""Rules that spread groups hold while everything changes: many clients, several scorers, labels that move, a cordon.

Members are resized, moved, released, and expire meanwhile. Each placement, and each target of a move, is judged from
the ledger's log: the labels that its scorer may have read are those of the last seconds. By one of these labellings, no
rule of the group may be broken by it.
"""

import threading
import time
from collections import Counter
from contextlib import ExitStack
from math import ceil
from random import Random
from typing import Any

import pytest

from scorer.client import Client, WindwardError
from scorer.ledger.record.instance import LIVE, machines_of
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.effort import effort
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.witness import read_history
from tests.window_tables import publish, window_table

MACHINES = [f"m{number:02d}" for number in range(16)]
RACKS = 4
SCORERS, CLIENTS = 4, 8
READ_S = 6.0
"""Facts are read each second; a process that is not scheduled takes longer."""
RULES = (
    {"topology": "rack", "others": 2},
    {"topology": "rack", "share": 0.4},
    {"topology": "rack", "skew": 1},
    {"topology": "machine", "others": 0},
    {"topology": "machine", "skew": 1},
)
LOG_LENGTH = 1_000_000


@pytest.mark.slow
@pytest.mark.long
def test_no_placement_puts_a_domain_over(valkey, names):
    """Eight clients of four scorers, machines that change racks, one rack cordoned: each placement keeps each rule.

    A target that is reserved by a move is a placement, too.
    """
    lasts_s = effort(10, 60)
    wire, began = Wire({"url": valkey.url}), time.time()
    labels = {machine: f"r{number % RACKS}" for number, machine in enumerate(MACHINES)}
    labellings = []

    def relabel(version):
        labellings.append((time.time(), dict(labels)))
        said = {
            machine: {
                "type": "machine",
                "v": 1,
                "machine": machine,
                "boot": 1,
                "at": float(version),
                "labels": {"rack": rack},
            }
            for machine, rack in labels.items()
        }
        publish(wire, names, [window_table(MACHINES, at=time.time() + 300, facts=version)], [said])

    relabel(1)
    stop, answers = threading.Event(), Counter[str]()

    def place(number):
        dice, held, moving = Random(number), list[str](), dict[str, Any]()
        with Client(valkey.url, names.prefix, timeout_s=30) as client:
            for turn in range(1_000_000):
                if stop.is_set():
                    return
                group = f"g{dice.randrange(len(RULES))}"
                rule = {"instances": {"app": group}, **RULES[int(group[1:])]}
                ruled = [rule] if turn % 4 or "others" in rule else []  # a share and a skew bind members without them
                try:
                    answer = client.place(
                        id=f"c{number}-{turn}", cpu=0.01, labels={"app": group}, count=1 if turn % 5 else 3,
                        anti_affinity=ruled, ttl_s=600 if turn % 7 else 1,
                    )  # fmt: skip
                    answers["placed"] += len(answer.placed)
                    answers["missing"] += answer.missing
                    for one in answer.placed if turn % 7 else ():
                        client.confirm(id=one.id)
                        held.append(one.id)
                    if held and (answer.missing or dice.random() < 0.3):
                        client.release(id=held.pop(dice.randrange(len(held))))
                    for name in held[-1:] if turn % 3 == 0 else ():
                        client.update(id=name, cpu=0.02)
                        moving[name] = client.update(id=name, move=True, ttl_s=600 if turn % 2 else 1).moving
                        answers["moving"] += 1
                    if len(moving) > 3 and (one := moving.pop(name := next(iter(moving)))):
                        if dice.random() < 0.7:
                            client.confirm(id=name, machine=one.to, move=one.number)
                        else:
                            client.update(id=name, cancel_move=True)
                except WindwardError as error:
                    answers[error.code] += 1

    with ExitStack() as running:
        for number in range(SCORERS):
            all_of_it = ("--ledger-log-length", str(LOG_LENGTH))
            running.enter_context(scorer_process(valkey.url, names, "--name", f"s{number}", *all_of_it))
        with Client(valkey.url, names.prefix, timeout_s=60) as client:
            client.health()
            placing = [threading.Thread(target=place, args=(number,)) for number in range(CLIENTS)]
            for thread in placing:
                thread.start()
            dice, version, end = Random(7), 1, time.monotonic() + lasts_s
            client.cordon(machines=[machine for machine, rack in labels.items() if rack == "r3"])
            while time.monotonic() < end:
                time.sleep(2.5)
                labels[dice.choice(MACHINES)] = f"r{dice.randrange(RACKS)}"
                version += 1
                relabel(version)
            stop.set()
            for thread in placing:
                thread.join()
    history = read_history(Ledger(wire, names, log_length=LOG_LENGTH))
    wire.close()
    faults = _faults(history, labellings)
    assert not faults, (len(faults), faults[:5])
    assert answers["placed"] > 10 * lasts_s
    assert min(answers["missing"], answers["moving"]) > 10
    assert {"expired", "released"} <= {one.state for one in history}
    assert time.time() - began < lasts_s + 60


def _faults(history, labellings):
    """Return the placements that no labelling of its time allows."""
    held = {}
    ruled = Counter()
    seen = {}
    faults = []
    for one in history:
        group, before = one.labels["app"], seen.get(one.id)
        there = held.setdefault(group, {})
        if one.state not in LIVE:
            there.pop(one.id, None)
            ruled[group] -= bool(one.rules)
            seen.pop(one.id, None)
            continue
        begun = one.moving if before is None or before.moving != one.moving else None
        came = (one.machine, one.reserved_at) if before is None else begun and (begun.to, begun.since)
        ruled[group] += before is None and bool(one.rules)
        if came and ruled[group]:
            machine, came_s = came
            others = [machines for name, machines in there.items() if name != one.id]
            recent = [labels for at, labels in labellings if at <= came_s + 0.1]
            since = sum(at < came_s - READ_S for at, _ in labellings)
            if not any(
                _holds(RULES[int(group[1:])], machine, others, labels) for labels in recent[max(0, since - 1) :]
            ):
                faults.append(f"{one.id} of {group} to {machine}, others on {sorted(others)}")
        there[one.id] = machines_of(one)
        seen[one.id] = one
    return faults


def _holds(rule, machine, others, labels):
    """Return whether a rule of the group holds with a further member on a machine, wherever moves under way end."""
    domain = (lambda of: of) if rule["topology"] == "machine" else labels.__getitem__
    near = [{*map(domain, machines)} for machines in others]
    staying = Counter(min(each) for each in near if len(each) == 1)
    here = 1 + sum(domain(machine) in each for each in near)
    if "share" in rule:
        return here <= ceil(rule["share"] * (len(others) + 1) - 1e-9)
    if "skew" in rule:
        others_there = {*map(domain, MACHINES)} - {domain(machine)}
        return here <= rule["skew"] + min((staying[each] for each in others_there), default=here)
    return here <= rule["others"] + 1
