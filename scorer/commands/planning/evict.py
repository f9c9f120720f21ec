"""``windward evict``: which instances of lower classes should leave, since higher classes use more again.

It reads windows and ledger itself (`scorer.commands.shared.whole_fleet`). Nothing is reserved and nothing is moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, table
from schemas.process.terminal import screen
from scorer.commands.shared import ask
from scorer.commands.shared.whole_fleet import chosen_profile, whole_fleet
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import AWAY

if TYPE_CHECKING:
    from scorer.ranking.fleet_state import FleetState
    from scorer.ranking.profiles.profile import Profile


@dataclass(frozen=True, kw_only=True)
class EvictSettings(ClientSettings, LedgerSettings):
    """Say which instances of batch, free and mid no longer fit, since higher classes use more; nothing is moved.

    The profile must count by class: `fits` with `classes`. Free leaves before batch, both before mid; within a class
    first the instance that just covers the excess. Each line says where the profile would place the instance. An
    instance with the label movable=false stays, and so do all on machines whose data is too old.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward evict --profile docs/examples/classes.toml    # of the running fleet",
        "windward evict --profile docs/examples/classes.toml --machines docs/examples/classes.json   # of a file",
    )

    machines: str | None = setting(None, "JSON file that describes the fleet; without it the running one is read",
                                   metavar="FILE")  # fmt: skip
    profile: str = setting("", "name of a profile, or a profile file, that counts by class", metavar="NAME")
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")
    evictions_max: Annotated[int, Meta(ge=1, le=100_000)] = setting(
        100, "at most so many instances, of the machines that are furthest above their sums"
    )
    same: tuple[str, ...] = setting((), "labels whose value source and target must share", metavar="LABEL")


SETTINGS = EvictSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    settings = load_settings(EvictSettings, "evict", argv, environ)
    profile = chosen_profile(settings.profile, settings.profiles)
    try:
        fleet = whole_fleet(settings, settings.machines)
    except AWAY as error:
        return ask.unreachable(settings.redis_url, error, "evict", settings)
    answer = _answer(settings, fleet, profile)
    print(json.dumps(answer, indent=2) if settings.json else show(answer, screen(wide=settings.wide)))  # noqa: T201
    return ask.OK


def _answer(settings: EvictSettings, fleet: FleetState, profile: Profile) -> dict[str, Any]:
    from scorer.planning.drain.evicting import evicting

    advice = evicting(fleet.inputs(profile), settings.evictions_max, settings.same)
    if advice is None:
        raise SettingsError(
            f"profile: {profile.name} counts all classes together; give `fits` a table `classes` "
            "(docs/examples/classes.toml)"
        )
    return {
        "profile": profile.name,
        "machines": len(fleet.snapshot),
        "instances": len(fleet.ledger),
        "above": list(advice.above),
        "stay": list(advice.stay),
        "unknown": advice.unknown,
        "evictions": [
            {
                "id": one.instance.id,
                "class": one.instance.priority_class,
                "source": one.instance.machine,
                "target": one.target,
                "sum": list(one.counted),
                "resource": one.resource,
                "excess": one.excess,
            }
            for one in advice.evicted
        ],
    }


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the instances that should leave, and how many machines stay above a sum."""
    about = f"{answer['machines']} machines, {answer['instances']} instances, profile {answer['profile']}"
    lines = []
    if answer["evictions"]:
        columns = [Column("id"), Column("class", left=True), Column("from", left=True), Column("to", left=True),
                   Column("why", 1, left=True)]  # fmt: skip
        rows = [
            [one["id"], one["class"], one["source"], one["target"] or "-", _why(one)] for one in answer["evictions"]
        ]
        lines.append(table(columns, rows, screen))
    lines.append(f"{len(answer['evictions'])} should leave; machines above a sum: {len(answer['above'])}; {about}")
    if answer["stay"]:
        lines.append(f"machines that stay above a sum, since their other instances may not move: {len(answer['stay'])}")
    if answer["unknown"]:
        lines.append(f"machines whose data is too old to judge: {answer['unknown']}")
    return "\n".join(lines)


def _why(one: Mapping[str, Any]) -> str:
    from scorer.commands.shared.show import amount

    return f"{one['resource']} of {' and '.join(one['sum'])} is {amount(one['resource'], one['excess'], 2)} too much"
