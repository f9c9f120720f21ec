"""``windward update``: move, resize or change the role of an instance."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Screen
from scorer.client import UpdateResult
from scorer.commands.shared import ask
from scorer.commands.shared.request import AmountSettings, check_memory
from scorer.commands.shared.show import time_of
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(AmountSettings):
    """Move, resize or change the role of a confirmed instance; what is not given stays.

    --machine alone moves the instance at once. With --move the machine is reserved: the instance holds both until
    `windward confirm ID --machine MACHINE`, --cancel-move, or until --ttl-s is over; then it stays where it is. Amounts
    given with --machine and --move are reserved there, and are its own from the confirmation on.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward update db-1 --memory 12G           # resize it",
        "windward update db-1 --move --dry-run       # which machine would be better?",
        "windward update db-1 --machine m2 --move    # reserve m2; confirm db-1 --machine m2 when it runs there",
        "windward update db-1 --machine m2 --move --memory 12G   # and be larger there",
    )

    id: tuple[str, ...] = setting((), "id of the instance", positional=True)
    machine: str | None = setting(None, "where it is from now on, checked as a placement")
    move: bool = setting(False, "reserve --machine, or the best one, until the move is confirmed")
    ttl_s: float | None = setting(None, "how long a move may take; without one an hour")
    cancel_move: bool = setting(False, "end the move that is under way: it stays where it is")
    maxmemory: str | None = setting(None, "bytes")
    limits: dict[str, str] | None = setting(None, "limits by resource", metavar="RESOURCE=AMOUNT")
    expected: dict[str, str] | None = setting(None, "expected usage by resource", metavar="RESOURCE=AMOUNT")
    ports: tuple[int, ...] | None = setting(None, "ports")
    role: str | None = setting(None, "role in its cluster")
    swap_role_with: str | None = setting(None, "exchange roles with this instance, as a failover does", metavar="ID")
    cluster_masters: int | None = setting(None, "masters the whole cluster has", metavar="COUNT")
    generation: int | None = setting(None, "which reservation it must be, as `place --json` says", metavar="NUMBER")
    labels: dict[str, str] | None = setting(None, "all labels of the instance", metavar="KEY=VALUE")
    selector: str | None = setting(None, "labels a machine must have, for its next move")
    dry_run: bool = setting(False, "only say what would happen")


SETTINGS = UpdateSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(UpdateSettings, "update", argv, environ), "update", _update)


def _update(settings: UpdateSettings) -> int:
    params: dict[str, Any] = {"id": ask.one_id(settings.id, "update"), "dry_run": settings.dry_run}
    own = {field.name for field in fields(settings)} - {field.name for field in fields(ClientSettings)} - {"id"}
    check_memory(getattr(settings, "memory", None))
    params |= {name: value for name in own if (value := getattr(settings, name)) is not None}
    if settings.ttl_s is not None and not settings.move:
        raise SettingsError("ttl_s: goes with --move")
    ask.tell(settings, ask.read(settings, UpdateResult, "update", params), show)
    return ask.OK


def show(answer: UpdateResult, _: Screen | None = None) -> str:
    if answer.repeated:
        return f"{answer.id} on {answer.machine}: nothing to change{moving(answer)}"
    moved = f", moved from {answer.moved_from}" if answer.moved_from else ""
    tried = " (tried only)" if answer.dry_run else ""
    return f"{answer.id} on {answer.machine}: updated{moved}{moving(answer)}{tried}"


def moving(answer: UpdateResult) -> str:
    """Return the target of a moving instance, after a comma; "" when it does not move."""
    found = answer.moving
    return f", moving to {found.to} until {time_of(found.until)}" if found else ""
