"""``windward capacity``: how many more instances of a kind fit, where, what limits them, and what if machines are lost.

It reads windows and ledger itself (`scorer.commands.shared.whole_fleet`). Nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, view
from schemas.resources import RESOURCES
from schemas.rpc.request import Request, read_request
from schemas.values.near import did_you_mean
from schemas.values.numbers import amount, counted
from scorer.commands.shared import ask
from scorer.commands.shared.request import RequestSettings
from scorer.commands.shared.show import basis, basis_in_words
from scorer.commands.shared.whole_fleet import FleetSettings, chosen_profile

if TYPE_CHECKING:
    from scorer.placement.choosing.trial import Trial
    from scorer.ranking.inputs import FleetState
    from scorer.ranking.profiles.profile import Profile

_SHOWN = ("cpu", "memory")
SHAPES_MAX = 5
"""The number of machine sizes tried as one more machine: the most frequent ones."""


@dataclass(frozen=True, kw_only=True)
class CapacitySettings(RequestSettings, FleetSettings):
    """Print how many more instances of a kind fit, and what then limits them; nothing is reserved.

    They fit as they would be placed: by the filters of the profile, on allocated amounts and measured load. One more
    machine is tried idle and empty, in each size of the fleet. The instances of --if-lost are placed anew first.
    Exit codes: 0 at least one fits, 2 wrong usage or file, 3 none fits, 4 the running fleet cannot be read.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward capacity --cpu 2 --memory 10G                        # of the running fleet",
        "windward capacity --cpu 2 --memory 10G --by rack --if-lost rack=rack-001",
        "windward capacity --cpu 2 --memory 10G --fleet-file docs/examples/machines.json   # of a file",
    )

    by: str = setting("", "count by the values of this label, or by machine", metavar="LABEL")
    if_lost: dict[str, str] = setting({}, "assume that the machines with this label are lost", metavar="LABEL=VALUE")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.if_lost) > 1:
            raise ValueError(f"if_lost: expected one LABEL=VALUE, got {len(self.if_lost)}")


SETTINGS = CapacitySettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(CapacitySettings, "capacity", argv, environ), "capacity", _capacity)


def _capacity(settings: CapacitySettings) -> int:
    request = read_request(settings.request())
    fleet, profile = settings.fleet(), chosen_profile(request.profile, settings.profiles)
    answer = _answer(settings, request, fleet, profile)
    ask.tell(settings, answer, show, indent=2)
    return ask.OK if answer["fit"] else ask.NO_MACHINE


def _answer(settings: CapacitySettings, request: Request, fleet: FleetState, profile: Profile) -> dict[str, Any]:
    import msgspec

    from scorer.placement.choosing.trial import Trial
    from scorer.planning.room import room

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


def _lost(key: str, value: str, trial: Trial) -> dict[str, Any]:
    """Cordon the machines with a label, and place their instances elsewhere; return the placements."""
    import msgspec

    from scorer.ledger.record.instance import DAEMON, Rules, copy_with
    from scorer.placement.choosing.trial import Apart, place_anew
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
    trial.inputs = trial.inputs.by(plain)
    found = place_anew(lost, trial, gone=True)
    if not all(one.target for one in found):  # filled up, as drains do where only so all of them find a place
        for one in there:
            trial.put(one)
        trial.inputs, apart = trial.inputs.by(packing(plain)), Apart(trial, together=[one.id for one in there])
        found = place_anew(there, trial, condition=apart, key=largest_first(trial.inputs))
        trial.inputs = trial.inputs.by(plain)
    if not all(one.target for one in found):
        found = place_anew(lost, trial, gone=True)
    homeless = [one.instance.id for one in found if one.target is None]
    told = {"machines": len(names), "placed": len(found) - len(homeless)}
    return told | {"homeless": homeless[:100], "homeless_count": len(homeless)}


def _without(selector: str, key: str, value: str, profile: Profile) -> str:
    """Return a selector of the machines that are left: a skew counts no lost rack. A profile may look at none."""
    return selector if "selector" in profile.ignores else ",".join(filter(None, (selector, f"{key}!={value}")))


def _by(key: str, copies: Mapping[str, int], fleet: FleetState) -> dict[str, int]:
    """Return `counts_by`; raises SettingsError for a label that no machine has."""
    from scorer.planning.room import counts_by

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
    from scorer.planning.room import room
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


_BY = (Column("value", of=lambda one: one[0] or "-"), Column("fit", of=lambda one: str(one[1])))
_LIMITS = (
    Column("filter", of="filter"),
    Column("machines", of="machines"),
    Column("what limits them", left=True, of="reason"),
)
