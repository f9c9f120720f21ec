"""``windward capacity``: how many more instances of a kind fit, where, what limits them, and what if machines are lost.

It reads windows and ledger itself (`scorer.commands.shared.whole_fleet`). Nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, view
from schemas.resources import RESOURCES
from schemas.rpc.request import Request, read_request
from schemas.values.near import did_you_mean
from schemas.values.numbers import amount, counted, duration
from scorer.commands.shared import ask
from scorer.commands.shared.request import RequestSettings
from scorer.commands.shared.show import amount_of, basis, basis_in_words, ratio
from scorer.commands.shared.whole_fleet import FleetSettings, chosen_profile

if TYPE_CHECKING:
    from scorer.placement.choosing.trial import Trial
    from scorer.planning.capacity.mix_room import Kind
    from scorer.ranking.inputs import FleetState
    from scorer.ranking.profiles.profile import Profile

_SHOWN = ("cpu", "memory")
SHAPES_MAX = 5
"""The number of machine sizes tried as one more machine: the most frequent ones."""


@dataclass(frozen=True, kw_only=True)
class CapacitySettings(RequestSettings, FleetSettings):
    """Print how many more instances of a kind fit, and what then limits them; nothing is reserved.

    They fit as they would be placed: by the filters of the profile, on allocated amounts and measured load. One more
    machine is tried idle and empty, in each size of the fleet. The instances of --if-lost are placed anew first. --mix
    counts instances of the kinds that were placed lately, in their shares, until the first kind no longer fits.
    Exit codes: 0 at least one fits, 2 wrong usage or file, 3 none fits, 4 the running fleet cannot be read.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward capacity --cpu 2 --memory 10G                        # of the running fleet",
        "windward capacity --cpu 2 --memory 10G --by rack --if-lost rack=rack-001",
        "windward capacity --mix --fleet-file docs/examples/hot.json       # of the kinds placed in the last week",
        "windward capacity --cpu 2 --memory 10G --fleet-file docs/examples/machines.json   # of a file",
    )

    by: str = setting("", "count by the values of this label, or by machine", metavar="LABEL")
    if_lost: dict[str, str] = setting({}, "assume that the machines with this label are lost", metavar="LABEL=VALUE")

    mix: bool = setting(False, "count the kinds of instances that were placed lately, in their shares")
    mix_since: Annotated[float, Meta(gt=0, le=366 * 86_400)] = setting(
        7 * 86_400.0, "with --mix: how long ago is lately", duration=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mix and (given := [name for name in self.request() if name != "profile"]):
            raise ValueError(f"mix: counts what was placed lately; {given[0]} has no place beside it")
        if len(self.if_lost) > 1:
            raise ValueError(f"if_lost: expected one LABEL=VALUE, got {len(self.if_lost)}")


SETTINGS = CapacitySettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(CapacitySettings, "capacity", argv, environ), "capacity", _capacity)


def _capacity(settings: CapacitySettings) -> int:
    request = read_request(settings.request())
    fleet, profile = settings.fleet(), chosen_profile(request.profile, settings.profiles)
    answer = _mix_answer(settings, fleet, profile) if settings.mix else _answer(settings, request, fleet, profile)
    ask.tell(settings, answer, show, indent=2)
    return ask.OK if answer["fit"] else ask.NO_MACHINE


def _answer(settings: CapacitySettings, request: Request, fleet: FleetState, profile: Profile) -> dict[str, Any]:
    import msgspec

    from scorer.placement.choosing.trial import Trial
    from scorer.planning.capacity.room import room

    answer, wanted, trial = basis(fleet, profile), request, Trial(fleet.inputs(profile))
    for key, value in settings.if_lost.items():
        answer["lost"] = _lost(key, value, trial)
        wanted = msgspec.structs.replace(request, selector=_without(request.selector, key, value, profile))
    here = room(wanted, trial)
    copies = dict(zip(here.machines, here.copies.tolist(), strict=True))
    return answer | {
        "fit": here.total,
        "at_least": here.at_least,
        "machines_with_room": int((here.copies > 0).sum()),
        "limits": [{"filter": one.filter, "reason": one.reason, "machines": one.machines} for one in here.limits],
        "by": _by(settings.by, copies, fleet) if settings.by else {},
        "one_more_machine": _one_more(request, fleet, profile),
    }


def _mix_answer(settings: CapacitySettings, fleet: FleetState, profile: Profile) -> dict[str, Any]:
    """Return the answer of ``--mix``; raises SettingsError when nothing was placed lately."""
    from scorer.placement.choosing.trial import Trial
    from scorer.planning.capacity.mix_room import mix_of, mix_room

    mix = mix_of(fleet.ledger.instances.values(), fleet.now_s - settings.mix_since)
    if not mix.kinds:
        raise SettingsError(f"mix_since: no instance was placed within {duration(settings.mix_since)}")
    answer, trial = basis(fleet, profile), Trial(fleet.inputs(profile))
    for key, value in settings.if_lost.items():
        answer["lost"] = _lost(key, value, trial)
    found = mix_room(mix, trial)
    return answer | {
        "fit": found.total,
        "at_least": found.first is None,
        "spread": found.spread,
        "since_s": settings.mix_since,
        "placed": mix.instances,
        "covered": mix.covered,
        "mix": [
            _kind(kind) | {"placed": kind.instances, "fit": fit} for kind, fit in zip(mix.kinds, found.fit, strict=True)
        ],
        "machines_with_room": len(found.by_machine),
        "first": None if found.first is None else _kind(found.first),
        "limits": [{"filter": one.filter, "reason": one.reason, "machines": one.machines} for one in found.limits],
        "by": _by(settings.by, found.by_machine, fleet) if settings.by else {},
    }


def _lost(key: str, value: str, trial: Trial) -> dict[str, Any]:
    """Cordon the machines with a label, and place their instances elsewhere; return the placements."""
    import msgspec

    from scorer.ledger.record.instance import DAEMON, Rules, copy_with
    from scorer.planning.anew import place_anew
    from scorer.ranking.survive import largest_first, packing, with_cordon

    snapshot, ledger = trial.snapshot, trial.inputs.ledger
    names = [name for row, name in enumerate(snapshot.names) if snapshot.rules.labels(row).get(key) == value]
    if not names:
        raise SettingsError(f"if_lost: no machine has the label {key}={value}")
    there = [one for name in names for one in ledger.on_machine(name) if one.labels.get(DAEMON) != "true"]
    rules, profile = [one.rules or Rules() for one in there], trial.inputs.profile
    rules = [msgspec.structs.replace(one, selector=_without(one.selector, key, value, profile)) for one in rules]
    lost, plain = [copy_with(one, rules=own) for one, own in zip(there, rules, strict=True)], with_cordon(profile)
    trial.cordon(names)
    for how in (plain, packing(plain), plain):  # filled up where only so all of them find a place
        trial.inputs = trial.inputs.by(how)
        found = place_anew(lost, trial, gone=True, key=None if how is plain else largest_first(trial.inputs))
        if all(one.target for one in found):
            break
    trial.inputs = trial.inputs.by(plain)
    homeless = [one.instance.id for one in found if one.target is None]
    told = {"machines": len(names), "placed": len(found) - len(homeless)}
    return told | {"homeless": homeless[:100], "homeless_count": len(homeless)}


def _without(selector: str, key: str, value: str, profile: Profile) -> str:
    """Return a selector of the machines that are left: a skew counts no lost rack. A profile may look at none."""
    return selector if "selector" in profile.ignores else ",".join(filter(None, (selector, f"{key}!={value}")))


def _kind(kind: Kind) -> dict[str, Any]:
    request = kind.request
    return {"kind": request.kind, "priority_class": request.priority_class} | {
        name: getattr(request, name) for name in _SHOWN
    }


def _by(key: str, copies: Mapping[str, int], fleet: FleetState) -> dict[str, int]:
    """Return `counts_by`; raises SettingsError for a label that no machine has."""
    from scorer.planning.capacity.room import counts_by

    snapshot = fleet.snapshot
    known = {"machine"}.union(*map(snapshot.rules.labels, range(len(snapshot))))
    if key not in known and snapshot.names:
        hint = did_you_mean(key, known) or f"; there are {', '.join(sorted(known))}"
        raise SettingsError(f"by: no machine has a label {key!r}{hint}")
    return counts_by(key, copies, snapshot)


def _one_more(request: Request, fleet: FleetState, profile: Profile) -> list[dict[str, Any]]:
    """Return how many copies an idle and empty machine of each size takes; the most frequent sizes."""
    import numpy as np

    from scorer.commands.shared.fleet_file import read_fleet
    from scorer.placement.choosing.trial import Trial
    from scorer.planning.capacity.room import room
    from scorer.ranking.survive import with_cordon

    sizes = fleet.snapshot.allocatable.T
    known = np.flatnonzero(np.isfinite(sizes).any(axis=1))
    if not known.size:
        return []
    as_numbers = np.nan_to_num(sizes[known], nan=-1.0)  # two unknown capacities are equal
    _, first, counts = np.unique(as_numbers, axis=0, return_index=True, return_counts=True)
    found = []
    for place in np.argsort(-counts, kind="stable")[:SHAPES_MAX]:
        row = int(known[first[place]])
        capacity = {name: size for name, size in zip(RESOURCES, sizes[row].tolist(), strict=True) if np.isfinite(size)}
        labels = dict(fleet.snapshot.rules.labels(row))
        idle = {"name": "one more", "capacity": capacity, "labels": labels, "usage": dict.fromkeys(capacity, 0.0)}
        new = read_fleet([idle])
        copies = room(request, Trial(new.inputs(with_cordon(profile)))).total
        found.append({"capacity": capacity, "machines": int(counts[place]), "copies": copies})
    return found


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return the count, where it is, and what limits it."""
    number = f"{'at least ' if answer['at_least'] else ''}{answer['fit']} more"
    there, about = f"fit, on {counted(answer['machines_with_room'], 'machine')}", basis_in_words(answer)
    if "mix" in answer:
        lines = [f"{number} of the mix {there} (mix: {_mix_words(answer)}; {about})", _mix_table(answer, screen)]
    else:
        lines = [f"{number} {there} ({about})"]
    tables = ((_BY, answer["by"].items()), (_LIMITS, answer["limits"]))
    lines += [view(columns, rows, screen) for columns, rows in tables if rows]
    return "\n".join([*_lost_line(answer), *lines, *_sizes(answer.get("one_more_machine", ()))])


def _lost_line(answer: Mapping[str, Any]) -> list[str]:
    if not (lost := answer.get("lost")):
        return []
    homeless = (
        f"{lost['homeless_count']} {'finds' if lost['homeless_count'] == 1 else 'find'} no machine"
        if lost["homeless_count"]
        else "all find a machine"
    )
    placed = lost["placed"] + lost["homeless_count"]
    return [f"without {counted(lost['machines'], 'machine')}: {counted(placed, 'instance')} placed anew, {homeless}"]


def _sizes(shapes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each size of machines, with cpu, memory, and every resource in which the sizes differ."""
    names = [name for name in RESOURCES if any(name in one["capacity"] for one in shapes)]
    shown = [n for n in names if n in _SHOWN or len({one["capacity"].get(n) for one in shapes}) > 1]
    return [
        f"one more machine with {size or 'unknown capacity'}: {one['copies']}"
        for one in shapes
        for size in [", ".join(f"{n} {amount(n, one['capacity'].get(n), 0)}" for n in shown)]
    ]


def _mix_words(answer: Mapping[str, Any]) -> str:
    """Return the basis of the mix, in words: how many placements, and since when."""
    of = f"{counted(answer['placed'], 'instance')} of the last {duration(answer['since_s'])}"
    if answer["covered"] < answer["placed"]:
        of += f", {ratio(answer['covered'] / answer['placed'])} of them in these kinds"
    return of


def _mix_table(answer: Mapping[str, Any], screen: Screen | None) -> str:
    """Return the kinds, how many were placed and how many more fit; the first that no longer fits is marked."""
    first = answer["first"]

    def mark(one: Mapping[str, Any]) -> str:
        return "no longer fits" * bool(first and all(one[name] == value for name, value in first.items()))

    return view([*_MIX, Column("", left=True, of=mark)], answer["mix"], screen)


_BY = (Column("value", of=lambda one: one[0] or "-"), Column("fit", of=lambda one: str(one[1])))
_LIMITS = (
    Column("filter", of="filter"),
    Column("machines", of="machines"),
    Column("what limits them", left=True, of="reason"),
)
_MIX = (
    Column("kind", of="kind"), Column("class", 1, left=True, of="priority_class"),
    *(Column(name, of=amount_of(name)) for name in _SHOWN), Column("placed", of="placed"), Column("fit", of="fit"),
)  # fmt: skip
