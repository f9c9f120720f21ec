"""``windward capacity --mix``: how many more instances of the kinds placed lately fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.process.settings import SettingsError
from schemas.process.tables import Column, Screen, table
from schemas.values.durations import duration
from scorer.commands.shared.show import amount, ratio

if TYPE_CHECKING:
    from scorer.fleet_state import FleetState
    from scorer.planning.capacity.mix import Kind
    from scorer.ranking.profiles.profile import Profile

_SHOWN = ("cpu", "memory")


def mix_answer(since_s: float, by: str, lost: Mapping[str, str], fleet: FleetState, profile: Profile) -> dict[str, Any]:
    """Return the answer for JSON; ``lost``: the label whose machines are lost first, or none.

    Raises SettingsError when nothing was placed lately, or no machine has the label.
    """
    from scorer.ledger.view.overlay import Overlay
    from scorer.planning.capacity.loss import lose
    from scorer.planning.capacity.mix import mix_of
    from scorer.planning.capacity.mix_room import mix_room
    from scorer.planning.drain.drain import with_cordon

    mix = mix_of(fleet.ledger.instances.values(), fleet.now_s - since_s)
    if not mix.kinds:
        raise SettingsError(f"mix_since: no instance was placed within {duration(since_s)}")
    snapshot, overlay = fleet.snapshot, Overlay(fleet.ledger)
    answer: dict[str, Any] = {"profile": profile.name, "machines": len(snapshot), "instances": len(fleet.ledger)}
    for key, value in lost.items():
        names = [name for row, name in enumerate(snapshot.names) if snapshot.rules.labels(row).get(key) == value]
        if not names:
            raise SettingsError(f"if_lost: no machine has the label {key}={value}")
        loss = lose(names, f"{key}!={value}", snapshot, fleet.ledger, profile, fleet.now_s)
        answer["lost"] = {"machines": len(names), "placed": loss.placed, "homeless": list(loss.homeless[:100]),
                          "homeless_count": len(loss.homeless)}  # fmt: skip
        snapshot, overlay, profile = snapshot.with_cordon(names), loss.overlay, with_cordon(profile)
    found = mix_room(mix, snapshot, overlay, profile, fleet.now_s)
    return answer | {
        "fit": found.total,
        "at_least": found.first is None,
        "spread": found.spread,
        "since_s": since_s,
        "placed": mix.instances,
        "covered": mix.covered,
        "mix": [
            _kind(kind) | {"placed": kind.instances, "fit": fit} for kind, fit in zip(mix.kinds, found.fit, strict=True)
        ],
        "machines_with_room": len(found.by_machine),
        "first": None if found.first is None else _kind(found.first),
        "limits": [{"filter": one.filter, "reason": one.reason, "machines": one.machines} for one in found.limits],
        "by": _by(by, found.by_machine, fleet) if by else {},
    }


def _kind(kind: Kind) -> dict[str, Any]:
    request = kind.request
    return {"kind": request.kind, "priority_class": request.priority_class} | {
        name: getattr(request, name) for name in _SHOWN
    }


def _by(key: str, copies: Mapping[str, int], fleet: FleetState) -> dict[str, int]:
    """Return copies by the values of a label, or by machine, most first."""
    found: Counter[str] = Counter()
    for row, name in enumerate(fleet.snapshot.names):
        value = name if key == "machine" else fleet.snapshot.rules.labels(row).get(key, "")
        found[value] += copies.get(name, 0)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def show_mix(answer: Mapping[str, Any]) -> str:
    """Return the first line: how many fit, and what the mix was made from."""
    number = f"{'at least ' if answer['at_least'] else ''}{answer['fit']}"
    about = f"{answer['machines']} machines, {answer['instances']} instances, profile {answer['profile']}"
    of = f"{answer['placed']} instances of the last {duration(answer['since_s'])}"
    if answer["covered"] < answer["placed"]:
        of += f", {ratio(answer['covered'] / answer['placed'])} of them in these kinds"
    return f"{number} more of the mix fit, on {answer['machines_with_room']} machines (mix: {of}; {about})"


def mix_table(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return the kinds, how many were placed and how many more fit; the first that no longer fits is marked."""
    columns = [
        Column("kind"), Column("class", 1, left=True), *(Column(name) for name in _SHOWN), Column("placed"),
        Column("fit"), Column("", left=True),
    ]  # fmt: skip
    rows = [
        [one["kind"] or "-", one["priority_class"], *(amount(name, one[name]) for name in _SHOWN), str(one["placed"]),
         str(one["fit"]), "no longer fits" * _is_first(one, answer["first"])]
        for one in answer["mix"]
    ]  # fmt: skip
    return table(columns, rows, screen)


def _is_first(one: Mapping[str, Any], first: Mapping[str, Any] | None) -> bool:
    return first is not None and all(one[name] == value for name, value in first.items())
