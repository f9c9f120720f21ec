"""The plan of a fleet: snapshot, ledger and profile in, moves out. Nothing is reserved and nothing is changed.

Thresholds, fixed or around the fleet's mean, and the moves of the last hour say which machines may give and take. The
moves are read from the ledger, so limits per hour need no state of their own.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.results import RebalanceMove, RebalanceResult
from schemas.values.numbers import counted, finite
from scorer.ledger.record.facets import Avoids, Facet, avoids, facets, facets_of
from scorer.ledger.record.instance import SHARD, Instance, as_request, copy_with
from scorer.ledger.record.instance import machines_of as holders_of
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.placement.choosing.trial import Trial
from scorer.planning.balance.rounds import NOTHING, Rounds, UnderWay
from scorer.planning.balance.scene import Loads, Scene, scene_of
from scorer.planning.balance.tentative import (
    COPY_CORES,
    UNKNOWN_NIC,
    Draft,
    Hosts,
    Movable,
    Step,
    copy_rates,
    memory_of,
    plan,
)
from scorer.planning.candidates import elsewhere, may_move
from scorer.ranking.filters.masters import Masters
from scorer.ranking.inputs import RankingInputs, machines_of, quiet
from scorer.ranking.profiles.rebalance_section import INSTANCES
from scorer.snapshot.arrays import Bools, Floats, Integers, known_or
from scorer.snapshot.snapshot import Snapshot

HOUR_S = 3600.0
COMPARED = (*RESOURCES, INSTANCES)


def over_and_under(
    utilization: Floats, fresh: Bools, high: Mapping[str, float], low: Mapping[str, float], deviation: bool = False
) -> tuple[Bools, Bools]:
    """Return [M] whether each machine is above any of ``high``, and whether at or below all of ``low``.

    ``utilization`` [R, M]: shares; an unknown one is neither. Without thresholds every machine with fresh data is both.
    ``deviation``: the per cents are distances from the mean over the machines with fresh data.
    """
    over = np.zeros(len(fresh), np.bool_) if high else np.ones(len(fresh), np.bool_)
    under = np.ones(len(fresh), np.bool_)
    for name, percent in high.items():
        row = utilization[COMPARED.index(name)]
        over |= row > limit_of(row, fresh, percent, deviation)
    for name, percent in low.items():
        row = utilization[COMPARED.index(name)]
        under &= ~(row > limit_of(row, fresh, -percent if deviation else percent, deviation))
    return over & fresh, under & fresh


def ceiling_of(
    rows: Sequence[int], utilization: Floats, fresh: Bools, high: Mapping[str, float], deviation: bool = False
) -> Floats:
    """Return [K] the threshold at or below which a target must stay, for the resources at these rows; or infinity."""
    found = np.full(len(rows), np.inf)
    for k, row in enumerate(rows):
        if (percent := high.get(RESOURCES[row])) is not None:
            found[k] = limit_of(utilization[row], fresh, percent, deviation)
    return found


def limit_of(row: Floats, fresh: Bools, percent: float, deviation: bool) -> float:
    """Return the share that machines are compared with: with ``deviation`` the mean is in it."""
    known = row[fresh & np.isfinite(row)]
    mean = float(known.mean()) if deviation and known.size else 0.0
    return float(np.clip(mean + percent / 100, 0.0, 1.0)) if deviation else percent / 100


@dataclass(frozen=True)
class Moved:
    """Moves of the last hour by any program; moves under way count, too."""

    count: int
    given: Integers
    """[M] From each machine."""
    taken: Integers
    """[M] To each machine."""


def moved_lately(snapshot: Snapshot, ledger: LedgerView, placed: PlacedInstances, now_s: float) -> Moved:
    """Return the moves of the last hour; ``placed``: the live instances, ``rows`` being rows of the snapshot.

    A moved instance has left a leaver, whose end is the start of the instance on its new machine.
    """
    machines, index = len(snapshot), snapshot.roster.index
    given, taken = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
    under_way = [one for one in ledger.instances.values() if one.moving is not None]
    for one in under_way:
        for name, counts in zip(holders_of(one), (given, taken), strict=True):
            if name in index:
                counts[index[name]] += 1
    slots, numbers = ledger.leavers.slots.live()
    ended = ledger.leavers.slots.take(slots, numbers).records["ended_at"]
    late = (ended > now_s - HOUR_S) & (ended > 0)
    if not late.any():
        return Moved(len(under_way), given, taken)
    slots, numbers, ended = slots[late], numbers[late], ended[late]
    moved = np.isin(ended, placed.started_at)
    place = np.full(len(ledger.numbers), -1, np.int64)
    for name, number in ledger.numbers.items():
        place[number] = index.get(name, -1)
    left = place[numbers[moved]]
    np.add.at(given, left[left >= 0], 1)
    came = placed.rows[np.isin(placed.started_at, ended[moved])]
    np.add.at(taken, came, 1)
    return Moved(len(under_way) + int(moved.sum()), given, taken)


_CPU, _MEMORY, _NIC = (RESOURCES.index(name) for name in ("cpu", "memory", "nic"))


@quiet
def rebalance(
    inputs: RankingInputs, rounds: Rounds | None = None, under_way: UnderWay = NOTHING, *,
    nic_unknown: float = UNKNOWN_NIC, first: Callable[["Balancing"], None] = lambda _: None,
) -> RebalanceResult:  # fmt: skip
    """Return the moves that cut the fleet's expected overload the most.

    Weights, limit and floor are those of the profile's `ExpectedOverload` (`scorer.planning.balance.scene`). The usage
    of an instance is its measured usage, or else the usage that the profile expects. Machines without fresh data give
    and take nothing; thresholds of the profile's ``[rebalance]`` say which others do not. ``nic_unknown``: bytes/s of a
    NIC whose speed is not known. ``first``: what is done before any move. The others are those of `advice.advice`.
    """
    balancing = Balancing(inputs, rounds, under_way, nic_unknown)
    first(balancing)
    plan(balancing.draft, balancing.allowed, balancing.left)
    return balancing.plan()


class Balancing:
    """A plan of either rule in progress: the moves so far as loads (`draft`) and in the ledger (`trial`)."""

    def __init__(
        self, inputs: RankingInputs, rounds: Rounds | None, under_way: UnderWay, nic_unknown: float = UNKNOWN_NIC
    ) -> None:
        self.trial, self.scene = Trial(inputs), (scene := scene_of(inputs))
        hosts, self._in_hour = hosts_of(scene, rounds, nic_unknown)
        self._movable, settings = movable_in(scene, under_way.stay), inputs.profile.rebalance
        self._settings, self._hour_max = settings, settings.in_hour(len(inputs.ledger))
        self._needed: set[frozenset[Facet]] = set()
        """What instances that move must have near them: who is so stays where it is."""
        self.draft = Draft(scene.loads.copy(), self._movable, settings, hosts, self._moved)
        self.on_way = on_way_in(scene, under_way.pending)
        """Moves that count as made."""
        self.leaving = leaving_in(scene)
        """Instances whose target is reserved and so has their load already."""
        for instance, target in self.on_way:
            self.draft.take_as_made(instance, target)
        for instance, at in self.leaving:
            self.draft.see_leaving(instance, at)
        self.place = {one.id: n for n, one in enumerate(scene.instances)}
        self.swaps: list[RebalanceMove] = []
        known = self.place.keys()
        handing = [pair for pair in under_way.handing.items() if known >= {*pair}]
        self.handing = [(self.place[one], self.place[other]) for one, other in handing]
        """Exchanges of roles under way."""
        self._see_handed()
        self._before = self.draft.loads.copy()
        left = settings.moves_max if self._hour_max is None else self._hour_max - self._in_hour
        self.left = max(min(settings.moves_max, left) - len(self.on_way), 0)
        """How many moves the plan may have."""

    def allowed(self, place: int) -> Bools:
        """Return [M]: the machines that an instance may go to, by the filters and the settings."""
        one = self.scene.instances[place]
        with self._gone(one):
            return self.trial.allowed(as_request(one)) & self._elsewhere(place)

    def best(self, place: int, among: Bools) -> int | None:
        """Return the row of the machine that the profile chooses ``among`` [M] the allowed ones; None without any."""
        one = self.scene.instances[place]
        with self._gone(one):
            found = self.trial.best(as_request(one), among & self._elsewhere(place))
        return None if found.machine is None else self.scene.snapshot.roster.index[found.machine]

    def plan(self, unplaced: Sequence[tuple[Instance, str]] = (), why: str = "") -> RebalanceResult:
        """Return the plan: the exchanges of roles, the steps of the draft, and who finds no machine, with the reason.

        ``why``: why it has no moves, if the rule knows it.
        """
        scene, inputs, before, after = self.scene, self.scene.inputs, self._before, self.draft.loads
        moves = [*self.swaps, *map(self._move, self.draft.steps)]
        moves += [
            RebalanceMove(id=one.id, generation=one.generation, source=one.machine, target=None, reason=reason)
            for one, reason in unplaced
        ]
        return RebalanceResult(
            rule=self._settings.rule,
            objective="overload",
            profile=inputs.profile.name,
            machines=len(scene.snapshot),
            instances=len(inputs.ledger),
            at=inputs.now_s,
            movable=int(self._movable.free.sum()),
            measured=int(scene.measured.sum()),
            moved_in_hour=self._in_hour,
            hour_max=self._hour_max,
            moves=moves,
            totals=totals(before, after),
            std={name: [_std(before, k), _std(after, k)] for k, name in enumerate(scene.resources)},
            why="" if moves else self._why_none(why),
        )

    def _move(self, step: Step) -> RebalanceMove:
        one, loads = self.scene.instances[step.instance], dict[str, dict[str, list[float | None]]]()
        for at, side in enumerate(("source", "target")):
            pairs = step.utilization[at].T.tolist()
            loads[side] = {
                name: [finite(x) for x in pair] for name, pair in zip(self.scene.resources, pairs, strict=True)
            }
        overload = {
            "source": [step.source_before, step.source_after],
            "target": [step.target_before, step.target_after],
        }
        return RebalanceMove(
            id=one.id, generation=one.generation, source=one.machine, target=self.scene.snapshot.names[step.target],
            gain=step.gain, cost=step.cost, copy_bytes=step.copy_bytes, copy_s=step.copy_s,
            reason=step.reason or _why(loads["source"]), overload=overload, utilization=loads,
        )  # fmt: skip

    def _why_none(self, why: str) -> str:
        if self.left:
            return why or why_none(self.scene, self.draft, self.allowed)
        return (
            f"no move is left: {self._in_hour} of {self._hour_max} in the last hour (hour_max), "
            f"{len(self.on_way)} of {self._settings.moves_max} under way (moves_max)"
        )

    # ---- roles

    def partners(self, place: int) -> list[int]:
        """Return the members of its cluster that may exchange roles with an instance: of its shard, if it names one."""
        one, found = self.scene.instances[place], list[int]()
        if not (one.cluster and one.role and self.draft.may_go(place)):
            return found
        for name in self.scene.inputs.ledger.matching(frozenset([("cluster", one.cluster)])):
            n = self.place.get(name, place)
            other = self.scene.instances[n]
            alike = other.labels.get(SHARD) == one.labels.get(SHARD)
            if alike and other.role not in ("", one.role) and self.draft.free[n] and self._may_lead(n, one.role):
                found.append(n)
        return sorted(found)

    def _may_lead(self, place: int, role: str) -> bool:
        """Return whether the filter of masters lets an instance take a role where it is."""
        request = as_request(copy_with(self.scene.instances[place], role=role))
        masters = self.scene.inputs.profile.find(Masters)
        if masters is None or not masters.wanted(request, self.scene.machines):
            return True
        there, most = masters.columns(request, machines_of(self.trial.inputs))
        row = self.scene.placed.rows[place]
        return bool(there[row] + 1 <= most[row])

    def handed(self, place: int, other: int) -> Floats:
        """Return [K]: by how much the use of one's role is above the other's: means of their cluster, as measured."""
        return known_or(self.used(place) - self.used(other), 0.0)

    def used(self, place: int) -> Floats:
        """Return [K]: the mean use of its cluster in its role, without those that took it in the last hour."""
        one = self.scene.instances[place]
        names = self.scene.inputs.ledger.matching(frozenset([("cluster", one.cluster), ("role", one.role)]))
        members = [n for name in names if (n := self.place.get(name)) is not None and self.scene.measured[n]]
        before_s = self.scene.inputs.now_s - HOUR_S
        settled = [n for n in members if self.scene.instances[n].swapped_at <= before_s]
        return self._movable.usage[:, settled].mean(axis=1) if settled else np.full(len(self.scene.resources), np.nan)

    def exchange(self, place: int, other: int, reason: str) -> None:
        """Let two instances exchange their roles; nothing is copied."""
        one, two = self.scene.instances[place], self.scene.instances[other]
        gain = self.draft.hand_over(place, other, self.handed(place, other))
        self.draft.engage(place, other)
        self.swaps.append(
            RebalanceMove(
                id=one.id, generation=one.generation, source=one.machine, target=None, swap_role_with=two.id,
                role=two.role, gain=gain, reason=f"{reason}; hand its role to {two.id}: nothing is copied",
            )
        )  # fmt: skip
        self.take_roles(place, other)

    def take_roles(self, place: int, other: int) -> None:
        instances = self.scene.instances
        one, two = instances[place], instances[other]
        for n, instance, role in ((place, one, two.role), (other, two, one.role)):
            instances[n] = copy_with(instance, role=role)
            self.trial.put(instances[n])

    def _see_handed(self) -> None:
        """Count exchanges under way as made, and of those of the last hour what an hour's window does not show yet."""
        for place, other in self.handing:
            self.draft.hand_over(place, other, self.handed(place, other))
            self.draft.engage(place, other)
        for n, one in enumerate(self.scene.instances):
            left = 1 - (self.scene.inputs.now_s - one.swapped_at) / HOUR_S
            if left > 0 and one.swap[:1] == (one.id,) and one.swap[1] in self.place:
                other = self.place[one.swap[1]]
                self.draft.hand_over(n, other, min(left, 1.0) * self.handed(other, n))

    def rules_about(self, one: Instance) -> frozenset[Avoids]:
        """Return the rules of anti-affinity of an instance, and those of others that count it."""
        of = facets_of(one)
        return avoids(one).union(*(several.of(of) for several in self.scene.inputs.ledger.avoiders if several))

    @contextmanager
    def _gone(self, one: Instance) -> Iterator[None]:
        """Take an instance out meanwhile where a rule would count it at its source."""
        counts = (one.rules is not None and one.rules.affinity) or any(rule.far for rule in self.rules_about(one))
        if counts:
            self.trial.leave(one.id)
        yield
        if counts:
            self.trial.put(one)

    def _elsewhere(self, place: int) -> Bools:
        one = self.scene.instances[place]
        if self._needed and any(near <= facets_of(one) for near in self._needed):
            return np.zeros(len(self.scene.snapshot), np.bool_)
        return elsewhere(self.trial, one, self.scene.fresh, self._settings.same)

    def _moved(self, place: int, target: int) -> None:
        one = self.scene.instances[place]
        self.trial.move(one, self.scene.snapshot.names[target])
        self._needed.update(facets(term) for term in (one.rules.affinity if one.rules else ()))


def movable_in(scene: Scene, stay: Collection[str]) -> Movable:
    clusters: dict[str, int] = {}
    cluster = [clusters.setdefault(one.cluster, len(clusters)) if one.cluster else -1 for one in scene.instances]
    free = may_move(scene.instances, scene.inputs.profile.rebalance, stay, scene.inputs.now_s)
    rows = scene.rows
    return Movable(
        scene.placed.rows,
        scene.usage[rows],
        scene.variance[rows],
        free,
        np.array(cluster, np.int64),
        memory_of(scene.usage[_MEMORY], scene.placed.amounts[_CPU]),
    )


def hosts_of(scene: Scene, rounds: Rounds | None, nic_unknown: float) -> tuple[Hosts, int]:
    """Return the machines as columns of a plan, and the number of moves in the last hour."""
    utilization, settings, now_s = scene.machines.utilization, scene.inputs.profile.rebalance, scene.inputs.now_s
    gates = (settings.high, settings.low, settings.deviation) if settings.rule == "overload" else ({}, {}, False)
    over, under = over_and_under(utilization, scene.fresh, *gates)
    if rounds is not None and settings.rule == "overload":
        over = rounds.sources(scene.snapshot.names, over & (scene.loads.now() >= max(settings.gain_min, 1e-12)), now_s)
    given, taken, in_hour = np.zeros(len(over), np.int64), np.zeros(len(over), np.int64), 0
    if settings.hour_max:
        lately = moved_lately(scene.snapshot, scene.inputs.ledger, scene.placed, now_s)
        given, taken, in_hour = lately.given, lately.taken, lately.count
    ceiling = ceiling_of(scene.rows, utilization, scene.fresh, gates[0], gates[2])
    rates = copy_rates(scene.machines.allocatable[_NIC], settings.nic_share, nic_unknown)
    of = np.array(scene.rows)
    return Hosts(over, under, ceiling, rates, given, taken, COPY_CORES * (of == _CPU), 1.0 * (of == _NIC)), in_hour


def leaving_in(scene: Scene) -> list[tuple[int, int | None]]:
    """Return the positions of moving instances, and of the machines reserved for them."""
    index = scene.snapshot.roster.index
    return [(n, index.get(one.moving.to)) for n, one in enumerate(scene.instances) if one.moving is not None]


def on_way_in(scene: Scene, pending: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return the positions of pending moves: instance and target, without finished, reserved or unknown ones."""
    index = scene.snapshot.roster.index
    if not pending:
        return []
    return [
        (n, index[target])
        for n, one in enumerate(scene.instances)
        if (target := pending.get(one.id)) is not None and target in index
        if target != one.machine and one.moving is None
    ]


def totals(before: Loads, after: Loads) -> dict[str, list[float]]:
    """Return, before and after: overload in mean machines, machines above the limit, highest and std of utilization.

    The figures of utilization are those of the resource with the highest utilization before.
    """
    worst = int(before.utilization.max(axis=1).argmax()) if before.utilization.size else 0

    def of(loads: Loads) -> tuple[float, float, float, float]:
        if not loads.utilization.size:
            return 0.0, 0.0, 0.0, 0.0
        over = (loads.utilization > loads.limit).any(axis=0).sum()
        highest = float(loads.utilization[worst].max())
        return float(loads.now().sum()), float(over), highest, _std(loads, worst)

    names = ("overload", "machines_over", "highest", "std")
    return {name: [*pair] for name, *pair in zip(names, of(before), of(after), strict=True)}


def _why(loads: Mapping[str, Sequence[float | None]]) -> str:
    """Return in words which load falls the most; ``loads``: before and after, by resource."""
    falls = {name: (before or 0.0, after or 0.0) for name, (before, after) in loads.items()}
    name, (before, after) = max(falls.items(), key=lambda item: item[1][0] - item[1][1])
    return f"{name} of the source {100 * before:.0f}% -> {100 * after:.0f}%"


def _std(loads: Loads, resource: int) -> float:
    known = loads.inverse[resource] > 0
    return float(np.std(loads.utilization[resource, known])) if known.any() else 0.0


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
    counts = np.bincount(scene.placed.rows, minlength=len(scene.snapshot)) / settings.instances_full
    shares = np.vstack([scene.machines.utilization, counts])
    over, under = over_and_under(shares, scene.fresh, settings.high, settings.low, settings.deviation)

    def in_words(percents: Mapping[str, float], sign: int = 1) -> str:
        of = ((name, shares[COMPARED.index(name)], sign * percent) for name, percent in percents.items())
        limits = ((name, 100 * limit_of(row, scene.fresh, percent, settings.deviation)) for name, row, percent in of)
        return ", ".join(f"{name} {limit:.4g} %" for name, limit in limits)

    if not over.any() and not settings.prod_high:
        yield f"no machine is above {in_words(settings.high)} (high)"
    if not under.any():
        yield f"no machine is below {in_words(settings.low, -1 if settings.deviation else 1)} (low)"
    if settings.rule == "thresholds":
        yield (
            f"{counted(int(over.sum()), 'machine')} above high, {int(under.sum())} below low: none is above for more "
            f"than {settings.rounds_over} rounds (rounds_over), or no instance there may move and fits"
        )
    hot = over & (draft.overload >= settings.gain_min)
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
