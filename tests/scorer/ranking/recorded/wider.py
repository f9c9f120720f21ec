"""What else was recorded: by settings and fleets that the first recording has not, and what is made from rankings.

Of each ranking the raw values of the best ten, and the refused machines by reason. Of each profile and fleet: what the
extender answers in its three modes, the machines of a batch, one by one; where the instances of two machines would go;
the moves that are advised; and how many copies fit on each machine.
"""

import random
from dataclasses import replace

import msgspec
import numpy as np

from scorer.kubernetes.extender.verbs import kept, profile_for, scored
from scorer.placement.choosing.plan import plan
from scorer.placement.choosing.trial import Trial
from scorer.planning.balance.advice import advice
from scorer.planning.drain.drain import anew
from scorer.planning.room import room
from scorer.ranking.explain import refusals
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.scorer.ranking.recorded.recorder import BEST, Found, Part, digest, first_refusals
from tests.scorer.ranking.recorded.worlds import (
    TEXTS,
    USUAL,
    as_recorded,
    profile_text,
    profiles,
    requests,
    without_id,
    world,
)

_PLAIN = '{use="least_allocated"}'
MORE_TEXTS = {
    "optional": profile_text(threshold=f'{USUAL}, optional=[], missing="estimates"', scores=_PLAIN),
    "best effort": profile_text(more='{use="memory_pressure", best_effort_only=true}', scores=_PLAIN),
    "half the masters": TEXTS["shape"].replace('{use="masters"}', '{use="masters", share=0.25}'),
    "replicas": TEXTS["beta"].replace('{use="masters"}', '{use="masters", role="replica", share=1.0}'),
    "floor": profile_text(
        threshold=USUAL, head="debits=true", scores='{use="expected_overload", floor=0.2, evenness=0.5, variation=0.3}'
    ),
    "limit weights": profile_text(
        scores='{use="low_risk_overcommitment", limit_weights={cpu=0.9, memory=0.1}, smoothing_window=10.0}'
    ),
    "allocated by weight": profile_text(
        scores='{use="most_allocated", weights={cpu=3.0, memory=1.0, nic=2.0}, default_cpu=0.5, default_memory=1e9},'
        '{use="least_allocated", weights={memory=1.0, disk=4.0}, extended=["disk"]},'
        '{use="requested_to_capacity_ratio", weights={cpu=1.0, nic=5.0}, default_cpu=0.25, default_memory=5e8}'
    ),
    "balanced by use": profile_text(
        scores='{use="balanced_allocation", basis="used"}, {use="balanced_allocation", basis="taken", default_cpu=0.2,'
        ' weights={cpu=1, memory=1, nic=1, disk=1}, extended=[]}'
    ),
    "masters apart": profile_text(
        head='ties="draw"\nstale="refuse"',
        scores='{use="spread", topology="rack", role=true}, {use="spread", role=true, weight=2}, {use="apart"}',
    ),
    "shortest": profile_text(
        head='window="shortest"\ndebits=true\nlearned=true', threshold=f"{USUAL}, window=900",
        scores='{use="global_variance"}, {use="load_variation_risk", credits="trimaran-60s", window="longest-covered"}',
    ),
}  # fmt: skip


PARTS = (
    *(Part(64, 8, 400 + seed, 12) for seed in range(5)),
    *(Part(machines, 5, 410 + machines, 4) for machines in (1, 2, 63, 65)),
    Part(40, 30, 500, 6),
    Part(40, 0, 501, 6),
    Part(40, 8, 502, 6, later_s=40.0),
    Part(40, 8, 503, 6, later_s=70_000.0),
    Part(700, 6, 504, 4),
)  # fmt: skip
QUICK = (0, 5, 10)
"""The parts that are made again in every run of the tests."""


def made(part):
    fleet = world(part.machines, part.per_machine, part.seed)
    every = {**profiles(), **{name: as_recorded(parse_profile(text, name)) for name, text in MORE_TEXTS.items()}}
    for name in sorted(every):
        yield from _of_profile(part, fleet, every[name], name)


def _of_profile(part, fleet, profile, name):
    dice = random.Random(f"wider {part.seed} {name}")
    inputs = RankingInputs(fleet.snapshot, fleet.ledger, profile, fleet.now_s + part.later_s, Tables())
    asking = map(_alone, requests(dice, fleet.snapshot.names))
    for _ in range(part.asked):
        yield _ranked(next(asking), inputs)
    asked = next(asking)
    for mode in ("score", "filter", "bind"):
        yield _extended(asked, inputs.by(profile_for(profile, mode)), dice)
    index = fleet.snapshot.roster.index
    kinds = [without_id(next(asking)) for _ in range(3)]
    batch = plan([kinds[0]] * 12 + kinds[1:] * 4, inputs)
    yield _places([-1 if one is None else index[one] for one in batch.machines], sorted(batch.reasons.items()))
    names = dice.sample(fleet.snapshot.names, min(2, part.machines))
    left, _ = anew(names, inputs)
    targets = [-1 if one.target is None else index[one.target] for one in left]
    yield _places(targets, [(one.instance.id, one.target is None) for one in left])
    advised = advice(inputs)
    moves = [(one.id, index[one.source], index[one.target]) for one in advised.moves if one.target]
    yield _places([each for _, *ends in moves[:60] for each in ends], [one for one, *_ in moves])
    found = room(kinds[0], Trial(replace(inputs, tables=Tables())))
    yield _places(found.copies[:200].tolist(), [(one.filter, one.reason, one.machines) for one in found.limits])


def _alone(request):
    """Return the request without rules about others: they bind both ways since."""
    return msgspec.structs.replace(request, affinity=[], anti_affinity=[])


def _ranked(asked, inputs):
    ranking = rank(asked, inputs)
    rows = ranking.best(BEST).tolist()
    grouped = [(one.filter, one.reason, one.machines) for one in refusals(ranking)]
    feasible = ranking.feasible
    ends = [np.ptp(term.raw[feasible]) for term in ranking.terms if term.weighted.normalise == "min-max" and rows]
    spread = min((float(each) for each in ends if each > 0), default=np.inf)
    raws = [float(term.raw[row]) for term in ranking.terms for row in rows]
    refused = digest(first_refusals(ranking), grouped)
    return Found(tuple(rows), tuple(ranking.total[rows].tolist()), refused, tuple(raws), spread)


def _extended(asked, inputs, dice):
    """Return what the scheduler is answered of some nodes, one of which is not known."""
    names = [*dice.sample(inputs.snapshot.names, len(inputs.snapshot) * 3 // 4), "unknown"]
    ranking = rank(asked, inputs)
    scores = scored(names, ranking, 20).scores
    text = msgspec.json.encode(kept(names, ranking), order="sorted").decode()
    rows = tuple(inputs.snapshot.roster.index[one.host] for one in scores)
    return Found(rows, tuple(float(one.score) for one in scores), digest(text), (), np.inf)


def _places(rows, words):
    return Found(tuple(rows), tuple(map(float, rows)), digest(words), (), np.inf)
