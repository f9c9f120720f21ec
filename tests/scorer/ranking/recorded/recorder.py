"""Makes the recorded rankings again, world by world: what each of them must have in common with the record.

Of each ranking: the chosen machine, the best ten with their totals, a digest of the first refusal of every machine and
of the counts by reason, and of every few the raw values of the chosen machine. Of each batch a digest of its machines.
"""

import random
from collections import Counter
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from unittest.mock import patch

import numpy as np

from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import plan
from scorer.ranking.filters import fits
from scorer.ranking.filters.daily_peak import DailyPeak
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.rank import rank
from tests.scorer.ranking.recorded.worlds import profiles, requests, without_id, world

RAW_EVERY = 4
BEST = 10


@dataclass(frozen=True)
class Part:
    """Some rankings on one world: each profile in turn is asked so many times."""

    machines: int
    per_machine: int
    seed: int
    asked: int
    profiles: tuple[str, ...] = ()
    """All where none are named."""
    batch: int = 12
    later_s: float = 0.0
    """How much later than the world's own time it is."""


_LARGE = ("windward", "koordinator", "kubernetes", "trimaran", "seed", "classes", "aware")
PARTS = (
    *(Part(20, 8, seed, 22) for seed in range(26)),
    *(Part(1, 5, 100 + seed, 3) for seed in range(8)),
    Part(0, 0, 120, 1),
    *(Part(300, 8, 200 + seed, 20) for seed in range(3)),
    *(Part(5_000, 8, 300 + seed, 10, _LARGE, 8) for seed in range(2)),
)  # fmt: skip
QUICK = (0, 1, 27, 36, 37)
"""The parts that are made again in every run of the tests."""


@dataclass(frozen=True)
class Found:
    rows: tuple[int, ...]
    totals: tuple[float, ...]
    refused: bytes
    raws: tuple[float, ...]
    spread: float
    """The least distance of the highest and the lowest raw value of a score that is spread over 0-100; inf: none is."""
    batch: bytes = b""


def made(part):
    fleet = world(part.machines, part.per_machine, part.seed)
    every = profiles()
    for name in part.profiles or sorted(every):
        yield from _of_profile(part, fleet, every[name], name)


def _of_profile(part, fleet, profile, name):
    dice = random.Random(f"{part.seed} {name}")
    ledger = deepcopy(fleet.ledger)
    inputs = RankingInputs(fleet.snapshot, ledger, profile, fleet.now_s, Tables())
    if dice.random() < 0.1:
        inputs = replace(inputs, now_s=inputs.now_s + 5_000.0)  # all data is stale
    asking, placed = requests(dice, fleet.snapshot.names), list[Instance]()
    for number in range(part.asked):
        asked = next(asking)
        seen = inputs
        if number % 6 == 5 and len(ledger):
            seen = inputs.on(_changed(ledger, dice, asking, fleet))
        ranking = rank(asked, seen)
        yield _found(ranking, number)
        if ranking.chosen is not None and seen is inputs and dice.random() < 0.5:
            record = instance_of(asked, ranking.chosen, inputs.now_s, f"placed-{number}")
            ledger.apply(record)
            placed.append(record)
        if placed and dice.random() < 0.3:
            one = placed.pop(dice.randrange(len(placed)))
            ledger.apply(copy_with(one, state="confirmed", started_at=inputs.now_s - 400.0))
            if dice.random() < 0.5:
                ledger.apply(copy_with(one, state="released", started_at=inputs.now_s - 400.0, ended_at=inputs.now_s))
    yield _batch(part, inputs, asking)


def _changed(ledger, dice, asking, fleet):
    """Return the ledger with some instances taken out and others proposed."""
    ids = sorted(ledger.instances)
    overlay = Overlay(ledger, [ids[dice.randrange(len(ids))] for _ in range(2)])
    for number in range(3):
        machine = fleet.snapshot.names[dice.randrange(len(fleet.snapshot))]
        overlay.propose(instance_of(next(asking), machine, fleet.now_s, f"proposed-{number}"))
    return overlay


def _batch(part, inputs, asking):
    """Return the machines of a batch: identical instances, then two other kinds in turn."""
    kinds = [without_id(next(asking)) for _ in range(3)]
    several = [kinds[0]] * part.batch + [kinds[1], kinds[2]] * (part.batch // 4)
    machines = plan(several, inputs).machines
    return Found((), (), b"", (), np.inf, digest(Counter(map(str, machines[: part.batch])), machines[part.batch :]))


def _found(ranking, number):
    rows = ranking.best(BEST).tolist()
    refusals = first_refusals(ranking)
    raws = [float(term.raw[rows[0]]) for term in ranking.terms] if rows and number % RAW_EVERY == 0 else []
    feasible = ranking.feasible
    spread = [
        float(np.ptp(term.raw[feasible])) for term in ranking.terms if term.weighted.normalise == "min-max" and rows
    ]
    least = min((each for each in spread if each > 0), default=np.inf)
    return Found(tuple(rows), tuple(ranking.total[rows].tolist()), digest(refusals), tuple(raws), least)


def digest(*of):
    text = repr([sorted(one.items()) if isinstance(one, Counter) else one for one in of])
    return blake2b(text.encode(), digest_size=8).digest()


FULL = {"too much {name} promised": "{name} too full", "too much {name} used": "{name} too full",
        "too much {name} of prod": "{name} of prod too full"}  # fmt: skip
OVER = ((UsageThreshold, "used over", "over"), (DailyPeak, "peak of use", "peak"))


@contextmanager
def named_as_then():
    """Give refusals the names under which they were recorded: promised and used had one for both."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(fits, "_WHYS", tuple(FULL.get(why, why) for why in fits._WHYS)))
        for of, new, old in OVER:
            now = of.reasons.fget

            def then(plugin, now=now, new=new, old=old):
                return [why.replace(new, old) for why in now(plugin)]

            patched.enter_context(patch.object(of, "reasons", property(then)))
        yield


def first_refusals(ranking):
    """Return by machine the first filter that refuses it and why; "" where none does."""
    found = (ranking.verdict_of(row) for row in range(len(ranking.machines)))
    return ["" if why is None else f"{why[0].filter.name}: {why[1]}" for why in found]
