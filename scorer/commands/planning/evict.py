"""``windward evict``: which instances of lower classes should leave, since higher classes use more again.

It reads windows and ledger itself (`scorer.commands.shared.whole_fleet`). Nothing is reserved and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, table
from scorer.commands.shared import ask
from scorer.commands.shared.show import amount
from scorer.commands.shared.whole_fleet import FleetSettings, basis, basis_in_words, chosen_profile

if TYPE_CHECKING:
    from scorer.ranking.fleet_state import FleetState
    from scorer.ranking.profiles.profile import Profile


@dataclass(frozen=True, kw_only=True)
class EvictSettings(FleetSettings):
    """Say which instances of batch, free and mid no longer fit, since higher classes use more; nothing is moved.

    The profile must count by class: `fits` with `classes`. Free leaves before batch, both before mid; within a class
    first the instance that just covers the excess. Each line says where the profile would place the instance. An
    instance with the label movable=false stays, and so do all on machines whose data is too old.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward evict --profile docs/examples/classes.toml    # of the running fleet",
        "windward evict --profile docs/examples/classes.toml --fleet-file docs/examples/classes.json   # of a file",
    )

    profile: str = setting("", "name of a profile, or a profile file, that counts by class", metavar="NAME")
    evictions_max: Annotated[int, Meta(ge=1, le=100_000)] = setting(
        100, "at most so many instances, of the machines that are furthest above their sums"
    )
    same: tuple[str, ...] = setting((), "labels whose value source and target must share", metavar="LABEL")


SETTINGS = EvictSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    return ask.run(load_settings(EvictSettings, "evict", argv, environ), "evict", _evict)


def _evict(settings: EvictSettings) -> int:
    profile = chosen_profile(settings.profile, settings.profiles)
    ask.tell(settings, _answer(settings, settings.fleet(), profile), show, indent=2)
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
        **basis(fleet, profile),
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
    lines, about = [], basis_in_words(answer)
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
    return f"{one['resource']} of {' and '.join(one['sum'])} is {amount(one['resource'], one['excess'], 2)} too much"
