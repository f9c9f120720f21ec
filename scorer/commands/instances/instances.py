"""``windward instances``: list, show and import instances."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from schemas.process.settings import SettingsError, load_verb, setting
from schemas.process.tables import Column, Screen, view
from schemas.resources import RESOURCES
from schemas.values.numbers import amount
from scorer.client import InstanceRow, InstancesResult, InstanceUsage, WindwardError
from scorer.commands.shared import ask
from scorer.commands.shared.show import age, ago, amount_of, amounts_in_words, resources, time_of
from scorer.commands.shared.watch import ListedSettings, listed
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    from scorer.ledger.store.reconcile import Difference


@dataclass(frozen=True, kw_only=True)
class ListSettings(ListedSettings):
    """List the instances and reservations: where they are, since when, and when a reservation expires."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward instances",
        "windward instances list --state reserved --cluster orders",
        "windward instances list --selector app=web --json",
        "windward instances list --violations                     # which rules are broken, since when, why",
        "windward instances list --machine sim-00001 -o name      # ids alone, one a line",
        "windward instances --state reserved --watch              # needs a terminal: Ctrl-C ends it",
    )

    machine: str = setting("", "only those on this machine")
    state: Literal["", "reserved", "confirmed"] = setting("", "only those in this state")
    cluster: str = setting("", "only those of this cluster")
    role: str = setting("", "only those of this role")
    kind: str = setting("", "only those of this kind")
    selector: str = setting(
        "", "only those whose labels, cluster, role or kind this selects, as `app=web,tier in (a, b)`"
    )
    labels: dict[str, str] = setting({}, "the former name of --selector", metavar="KEY=VALUE", former=True)
    after: str = setting("", "only those after this id, as the next page", metavar="ID")
    limit: Annotated[int, Meta(ge=1, le=10_000)] = setting(1000, "at most so many")
    violations: bool = setting(False, "the broken rules, since when and why; with --json the instances, too")
    output: Literal["", "name"] = setting("", "what is printed of each, one a line", short="-o", group="output")


@dataclass(frozen=True, kw_only=True)
class ShowSettings(ClientSettings):
    """Show one instance, also one that has ended within the day."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward instances show db-1",)

    id: str = setting(help="id of the instance", positional=True, metavar="ID")


@dataclass(frozen=True, kw_only=True)
class ImportSettings(ClientSettings, LedgerSettings):
    """Compare a full inventory with the ledger; with --apply make the ledger equal to it.

    The file has JSON lines, or one JSON list, of objects with `id`, `machine` and the fields of a request (`cpu`,
    `memory`, `ports`, `cluster`, `role`, ...). Instances are imported even above limits: what runs is not refused.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward instances import docs/examples/inventory.json            # what differs?",
    )

    file: str = setting(help="the inventory; - is standard input", positional=True, metavar="FILE")
    apply: bool = setting(False, "change the ledger")
    reservations: bool = setting(False, "also end reservations that are not in the inventory")


SETTINGS: dict[str, type[ClientSettings]] = {
    "list": ListSettings,
    "show": ShowSettings,
    "import": ImportSettings,
}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    verb, settings = load_verb("instances", SETTINGS, argv, environ, "list")
    work: dict[str, Callable[[Any], int]]
    work = {"list": _list, "show": _show_one, "import": _import}
    return ask.run(settings, f"instances {verb}", work[verb], "the ledger" if verb == "import" else "")


def _list(settings: ListSettings) -> int:
    fields = ("machine", "state", "cluster", "role", "kind", "labels", "selector", "after", "limit", "violations")
    params = {name: value for name in fields if (value := getattr(settings, name))}

    def find() -> tuple[InstancesResult, ask.Show[InstancesResult]]:
        answer = ask.read(settings, InstancesResult, "instances", params)
        if settings.machine and not answer.total:
            ask.read_machine(settings, settings.machine)  # refuses a name that no machine has
        return answer, _names if settings.output == "name" else _broken if settings.violations else show

    return listed(settings, find)


def _names(answer: InstancesResult, _: Screen) -> str:
    """Return the ids alone, for a script."""
    return "\n".join(one.id for one in answer.instances)


def show(answer: InstancesResult, screen: Screen | None = None, now_s: float | None = None) -> str:
    now_s = time.time() if now_s is None else now_s
    shown = resources(("cpu", "memory"), {})
    used = shown if any(one.usage for one in answer.instances) else []
    columns = (
        Column("id", of="id"), Column("machine", left=True, of="machine"), Column("state", 1, left=True, of=_state),
        Column("age", 2, of=lambda one: age(max(0.0, now_s - one.reserved_at)) if one.reserved_at else "-"),
        Column("expires", 2, of=partial(_expiry, now_s)),
        *(Column(name, 3, of=amount_of(name)) for name in shown),
        *(Column(f"{name} used", 3, of=partial(_usage, name)) for name in used),
        Column("cluster", 4, left=True, of="cluster"), Column("role", 4, left=True, of="role"),
        Column("ports", 5, left=True, of=lambda one: ",".join(map(str, one.ports)) or "-"),
    )  # fmt: skip
    return f"{view(columns, answer.instances, screen)}\n{len(answer.instances)} of {answer.total}"


def _broken(answer: InstancesResult, screen: Screen | None = None) -> str:
    """Return a table of the broken rules."""
    now_s = time.time()
    columns = (
        Column("rule", left=True, of="rule"), Column("on", left=True, of="domain"), Column("has", of="count"),
        Column("may have", of="most"), Column("since", 2, of=lambda one: ago(one.since, now_s)),
        Column("why", 1, left=True, of="why"), Column("newest", 3, left=True, of=lambda one: one.instances[0]),
    )  # fmt: skip
    return view(columns, answer.violations, screen) if answer.violations else "no rule is broken"


def _usage(name: str, one: InstanceRow) -> str:
    return amount(name, one.usage.recent.get(name) if one.usage else None)


def _state(one: InstanceRow) -> str:
    moving = one.moving
    return f"moving to {moving['to']}" if moving else str(one.state)


def _expiry(now_s: float, one: InstanceRow) -> str:
    """Return when a reservation or a move expires; a confirmed instance does not."""
    if moving := one.moving:
        return ago(moving["until"], now_s)
    return ago(one.expires_at, now_s) if one.state == "reserved" and one.expires_at else "-"


def _show_one(settings: ShowSettings) -> int:
    answer = ask.read(settings, InstancesResult, "instances", {"id": settings.id})
    if not answer.instances:
        raise WindwardError("NOT_FOUND", f"no instance {settings.id!r} is known, nor was any within the day")
    ask.tell(settings, answer.instances[0], lambda one, _: _page(one, time.time()), indent=2)
    return ask.OK


def _page(one: InstanceRow, now_s: float) -> str:
    times = ("reserved_at", "started_at", "expires_at", "ended_at")
    lines = [f"{one.id} on {one.machine}: {one.state}"]
    if moving := one.moving:
        lines[0] += f", moving to {moving['to']} until {time_of(moving['until'])} (move {moving['number']})"
        if new := moving.get("new"):
            lines.append(f"  {'there with'.ljust(16)} {amounts_in_words(new['amounts'])}")
    lines += [
        f"  {name.removesuffix('_at').ljust(16)} {time_of(one[name])} ({ago(one[name], now_s)})"
        for name in times
        if one.get(name) and not (name == "expires_at" and one.state != "reserved")
    ]
    lines += [f"  {name.ljust(16)} {amount(name, one[name])}" for name in RESOURCES if one.get(name)]
    others = [
        name
        for name in one
        if name not in (*times, *RESOURCES, "id", "machine", "state", "usage", "moving") and one[name]
    ]
    lines += [f"  {name.ljust(16)} {_text(one[name])}" for name in others]
    return "\n".join(lines + _usage_lines(one.usage, now_s))


def _usage_lines(usage: InstanceUsage | None, now_s: float) -> list[str]:
    """Return the usage of an instance: the means of its reports."""
    if not usage:
        return []
    rows = (("used, 30 min", "recent"), ("used, 24 h", "daily"), ("peak of the day", "day_peak"))
    lines = [
        f"  {title.ljust(16)} {', '.join(f'{name} {amount(name, value)}' for name, value in usage[key].items())}"
        for title, key in rows
        if usage[key]
    ]
    known = f"{usage['count']} reports since {time_of(usage['since'])}, the last {ago(usage['at'], now_s)}"
    earlier = "; what it used before is not known" if usage["partial"] else ""
    return [*lines, f"  {'measured'.ljust(16)} {known}{earlier}"]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _import(settings: ImportSettings) -> int:
    from scorer.ledger.store.reconcile import InventoryError, apply, difference, read_inventory

    file = settings.file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        found = read_inventory(text)
    except OSError as error:
        raise SettingsError(f"import: {file}: {error.strerror}") from None
    except InventoryError as error:
        raise SettingsError(f"import: {file}: {error}") from None
    with ask.open_ledger(settings) as ledger:
        ledger.expire()
        diff = difference(ledger.all_instances(around=True), found, reservations=settings.reservations)
        if settings.apply:
            apply(ledger, diff)
    ask.tell(settings, diff.summary(settings.apply), lambda *_: _words(diff, settings.apply))
    return ask.OK


def _words(diff: Difference, applied: bool) -> str:
    lines = [f"+ {one.id} on {one.machine}" for one in diff.added]
    lines += [f"~ {old.id}: {what}" for old, _, what in diff.changed]
    lines += [f"- {one.id} on {one.machine}" for one in diff.gone]
    counts = f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.gone)} gone, {diff.same} unchanged"
    lines.append(f"{counts}{'' if applied else '; nothing was written: give --apply'}")
    return "\n".join(lines)
