"""Why a plan has no moves: the first condition of a move that nothing fulfils, in words."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from schemas.resources import RESOURCES
from schemas.values.numbers import counted
from scorer.planning.balance.gates import over_and_under
from scorer.planning.balance.scene import Scene
from scorer.planning.balance.tentative import Draft
from scorer.snapshot.arrays import Bools

_TRIED = 20
"""Instances of the hottest machines for which a target is looked for."""


def why_none(scene: Scene, draft: Draft, allowed: Callable[[int], Bools]) -> str:
    """Return why a finished plan that may have moves has none, and in brackets the setting that decides."""
    return next(_reasons(scene, draft, allowed))


def _reasons(scene: Scene, draft: Draft, allowed: Callable[[int], Bools]) -> Iterator[str]:
    """Yield what stands against any move, the first cause first."""
    settings = draft.settings
    if not scene.fresh.any():
        yield "no machine has fresh data"
    if not draft.free.any():
        ages_s = [scene.inputs.now_s - max(one.reserved_at, one.started_at) for one in scene.instances]
        resting = sum(age_s < settings.rest_s for age_s in ages_s)
        others = f"{len(ages_s) - resting} are reserved, moving, movable=false or of a class that stays"
        yield f"no instance may move: {resting} came less than {settings.rest_s:g} s ago (rest_s), {others}"
    high, low = ({name: each[name] for name in each if name in RESOURCES} for each in (settings.high, settings.low))
    over, under = over_and_under(scene.machines.utilization, scene.fresh, high, low, settings.deviation)
    if not over.any() and not settings.prod_high:
        yield f"no machine is above {_in_words(high)} (high)"
    if not under.any():
        yield f"no machine is below {_in_words(low)} (low)"
    if settings.rule == "thresholds":
        yield (
            f"{counted(int(over.sum()), 'machine')} above high, {int(under.sum())} below low: none is above for more "
            f"than {settings.rounds_over} rounds (rounds_over), or no instance there may move and fits"
        )
    hot = over & (draft.overload >= settings.gain_min) if settings.objective == "overload" else over
    if not hot.any():
        most = int(draft.overload.argmax())
        highest = f"the highest is {draft.overload[most]:.4f}, of {scene.snapshot.names[most]}"
        limit = f"{settings.gain_min:g} above {draft.loads.limit:.0%}"
        yield f"no machine has an expected load of {limit}: {highest} (gain_min)"
    hot &= draft.hosts.gives
    if not hot.any():
        yield f"no machine is that hot for more than {settings.rounds_over} rounds (rounds_over)"
    there = [n for n in np.flatnonzero(hot[draft.movable.machine]).tolist() if draft.may_go(n)]
    if not there:
        yield "no instance of a hot machine may move (rest_s, from_machine_max, cluster_max)"
    if not any((draft.targets(n, under_limit=True)[1] & allowed(n)).any() for n in there[:_TRIED]):
        yield "no machine may take an instance of a hot one (filters, low, same, to_machine_max)"
    yield f"no move gains {settings.gain_min:g} more than its copy costs (gain_min)"


def _in_words(percents: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {percent:g} %" for name, percent in percents.items())
