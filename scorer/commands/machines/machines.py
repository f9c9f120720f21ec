"""``windward machines``: lists the machines as the scorer sees them, and writes operators' rules.

``cordon`` and ``uncordon`` ask a scorer where one runs, as programs do. Without one, and where the scorer refuses, the
command writes the same entries itself: an operator can cordon while no scorer runs, and a wrong name gets a hint.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from schemas.messages.operator import DEFAULT
from schemas.process.connections import WindowsSettings
from schemas.process.settings import SettingsError, load_verb, setting
from schemas.process.tables import Screen
from schemas.rpc.parameters import Risk
from schemas.values.read_json import partition_count
from scorer.client import MachinesResult, RiskResult
from scorer.commands.machines import machine_table
from scorer.commands.machines.operator_facts import change_operator_facts, in_words, labelled, replaced, tainted
from scorer.commands.shared import ask
from scorer.commands.shared.watch import ListedSettings, listed
from scorer.settings import ClientSettings, LedgerSettings

_PAGE = ask.MACHINES_MAX


@dataclass(frozen=True, kw_only=True)
class ListSettings(ListedSettings):
    """List the machines with their load, instances and the age of their data."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines list --sort cpu --limit 10             # the fullest ones",
        "windward machines list --state stale                     # those with old data",
        "windward machines list --selector 'zone in (zone-1, zone-2)' --columns machine,cpu,memory,age",
        "windward machines list -o name                            # names alone, one a line",
        "windward machines --sort cpu --watch                      # needs a terminal: Ctrl-C ends it",
    )

    labels: dict[str, str] = setting({}, "only those with these labels", metavar="KEY=VALUE")
    selector: str = setting("", "only those whose labels this selects, as in `place --selector`")
    state: tuple[machine_table.State, ...] = setting(
        (), "only those in this state: " + ", ".join(machine_table.STATES), metavar="STATE"
    )
    sort: machine_table.Sort = setting("machine", "order by", metavar="COLUMN")
    reverse: bool = setting(False, "reverse the order")
    columns: tuple[str, ...] = setting((), "show these columns only: " + ", ".join(machine_table.TITLES), metavar="A,B")
    output: Literal["", "name"] = setting("", "what is printed of each, one a line", short="-o", group="output")
    profile: str = setting("", "load as this profile sees it")
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = setting(1000, "at most so many")


@dataclass(frozen=True, kw_only=True)
class ShowSettings(ClientSettings):
    """Show all that is known about one machine."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines show sim-00001",)

    name: str = setting(help="the machine", positional=True, metavar="NAME")
    profile: str = setting("", "load as this profile sees it")


@dataclass(frozen=True, kw_only=True)
class HistorySettings(ShowSettings, WindowsSettings):
    """Show the load of one machine in the last hour: a line of bars by resource, and its windows."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines history sim-00001 --since 30m",)

    since: Annotated[float, Meta(gt=0, le=3600)] = setting(3600.0, "how far back; one hour is kept", duration=True)


@dataclass(frozen=True, kw_only=True)
class RiskSettings(ClientSettings):
    """Name the machines whose CPU will soon be hot, by chance, and what heats each."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines risk",
        "windward machines risk --within 30m --limit 0.9 --top 3",
    )

    within: Annotated[float, Meta(gt=0, le=86_400)] = setting(
        Risk().within_s, "the chance is that within this", duration=True
    )
    limit: Annotated[float, Meta(gt=0, le=10)] = setting(Risk().limit, "load above this share of allocatable is hot")
    top: Annotated[int, Meta(ge=1, le=100)] = setting(Risk().top, "so many machines")


@dataclass(frozen=True, kw_only=True)
class WriteSettings(ClientSettings, WindowsSettings):
    """The machines whose rules are written."""

    selector: str = setting("", "the machines whose labels this selects", group="machines")
    ahead: bool = setting(False, "accept an unknown name: the machine is to come", group="machines")


@dataclass(frozen=True, kw_only=True)
class CordonSettings(WriteSettings):
    """Keep further instances away from these machines."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines cordon sim-00003 sim-00004",
        "windward machines cordon 'sim-0000*'                     # all that match",
        "windward machines cordon --selector zone=zone-1",
    )

    words: tuple[str, ...] = setting(
        (), "machines, or globs; '*' alone: every machine", positional=True, metavar="NAME"
    )


@dataclass(frozen=True, kw_only=True)
class UncordonSettings(CordonSettings):
    """Let these machines take instances again."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines uncordon sim-00003 sim-00004 'sim-0000*' --selector zone=zone-1",
    )


@dataclass(frozen=True, kw_only=True)
class ForgetSettings(CordonSettings, LedgerSettings):
    """Forget machines that are gone or never existed: operators' rules, windows and agents' facts.

    Refused while the ledger has instances there, or its agent sent in the last minute.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines forget sim-99999",)

    force: bool = setting(
        False, "even with instances there, which stay; and a live one, which comes back with its next sample"
    )


@dataclass(frozen=True, kw_only=True)
class LabelSettings(WriteSettings):
    """Label a machine; operators' labels win over those of its agent."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines label sim-00001 sim-00002 disk=ssd",
        "windward machines label sim-00001 disk-                  # remove the label",
    )

    words: tuple[str, ...] = setting(
        (), "machines or globs, unless --selector; then KEY=VALUE or KEY-", positional=True, metavar="NAME KEY=VALUE"
    )


@dataclass(frozen=True, kw_only=True)
class TaintSettings(WriteSettings):
    """Taint a machine: `refuse` keeps instances away that do not tolerate it, `avoid` costs score."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines taint sim-00001 spare:refuse",
        "windward machines taint sim-00001 spare-                 # remove the taint",
    )

    words: tuple[str, ...] = setting(
        (), "machines or globs, unless --selector; then KEY[=VALUE]:refuse, KEY[=VALUE]:avoid or KEY-",
        positional=True, metavar="NAME KEY:EFFECT",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SetSettings(WriteSettings):
    """Set operators' rules of a machine, as JSON; null removes a field. See schemas/operator.v1.schema.json."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        """windward machines set sim-00001 '{"reserve": {"memory": "8G"}}'""",
        """windward machines set '*' '{"reserve": {"memory": null}}'       # every machine's default""",
    )

    words: tuple[str, ...] = setting(
        (), "a machine or glob, unless --selector; then a JSON object", positional=True, metavar="NAME JSON"
    )


@dataclass(frozen=True, kw_only=True)
class RenameSettings(ClientSettings, LedgerSettings):
    """Give a machine another name, with its instances and operators' rules; its windows begin with its next samples.

    Then set WINDWARD_MACHINE=NEW in /etc/default/windward-agent and restart the agent. Until then the old name is
    cordoned. The command may be run again to finish. It is refused where another host has the new name: it is live, or
    has instances.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines rename sim-00005 db1",)

    words: tuple[str, ...] = setting((), "the old name and the new one", positional=True, metavar="OLD NEW")


SETTINGS: dict[str, type[ClientSettings]] = {
    "list": ListSettings,
    "show": ShowSettings,
    "history": HistorySettings,
    "risk": RiskSettings,
    "label": LabelSettings,
    "taint": TaintSettings,
    "cordon": CordonSettings,
    "uncordon": UncordonSettings,
    "set": SetSettings,
    "forget": ForgetSettings,
    "rename": RenameSettings,
}

_Change = Callable[[dict[str, Any], list[str]], dict[str, Any]]
_CHANGES: Mapping[str, _Change] = {
    "label": labelled,
    "taint": tainted,
    "set": replaced,
    "cordon": lambda facts, _: facts | {"cordon": True},
    "uncordon": lambda facts, _: facts | {"cordon": False, "drain": None},
    "forget": lambda _, __: {},
}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    verb, settings = load_verb("machines", SETTINGS, argv, environ, "list")
    work: dict[str, Callable[[Any], int]] = {
        "list": _list, "show": _show, "history": _history, "risk": _risk, "rename": _rename,
    }  # fmt: skip
    return ask.run(settings, f"machines {verb}", work.get(verb, partial(_write, verb)))


def _show(settings: ShowSettings) -> int:
    answer = ask.read_machine(settings, settings.name, settings.profile)
    ask.tell(settings, answer.machines[0], machine_table.page, indent=2)
    return ask.OK


def _history(settings: HistorySettings) -> int:
    from scorer.commands.machines import history

    row = ask.read_machine(settings, settings.name, settings.profile).machines[0]
    with ask.server(settings) as server, ask.open_windows(settings) as windows:
        partitions = partition_count(server.get(settings.names.partitions)) or 0
        found = history.read_history(windows, settings.names, partitions, settings.name, settings.since)
    ask.tell(settings, found | {"windows": row.windows}, lambda each, screen: history.show(each, row, screen))
    return ask.OK


def _risk(settings: RiskSettings) -> int:
    params = {"within_s": settings.within, "limit": settings.limit, "top": settings.top}
    ask.tell(settings, ask.read(settings, RiskResult, "risk", params), machine_table.soon_hot)
    return ask.OK


def _rename(settings: RenameSettings) -> int:
    from scorer.commands.machines.rename import run

    return run(settings)


def _list(settings: ListSettings) -> int:
    return listed(settings, partial(_found, settings))


def _found(settings: ListSettings) -> tuple[MachinesResult, ask.Show[MachinesResult]]:
    plain = not (settings.selector or settings.state or settings.sort != "machine" or settings.reverse)
    params: dict[str, Any] = {"labels": settings.labels, "profile": settings.profile}
    params["limit"] = min(settings.limit, _PAGE) if plain else _PAGE
    answer = ask.read(settings, MachinesResult, "machines", params)
    total, rows = answer.total, list(answer.machines)
    while answer.more and not (plain and len(rows) >= settings.limit):
        answer = ask.read(settings, MachinesResult, "machines", params | {"after": rows[-1].machine})
        rows += answer.machines
    if not plain:
        rows = machine_table.matching(rows, settings.state, settings.selector)
        total = len(rows)
        rows = machine_table.ordered(rows, settings.sort, reverse=settings.reverse)
    rows = rows[: settings.limit]

    def shown(found: MachinesResult, screen: Screen) -> str:
        if settings.output == "name":
            return "\n".join(row.machine for row in found.machines)
        listing = machine_table.listing(found.machines, settings.columns, screen)
        return f"{listing}\n{len(found.machines)} of {total}"

    return MachinesResult(total=total, machines=rows, more=len(rows) < total), shown


def _write(verb: str, settings: WriteSettings) -> int:
    from scorer.commands.machines.operator_facts import known_machines, meant, write_cordon
    from scorer.commands.machines.rename import forget

    arguments: list[str] = []
    if isinstance(settings, CordonSettings):
        given = list(settings.words)
    else:
        words = list(getattr(settings, "words", ()))
        names = 0 if settings.selector else _names(words) if verb in ("label", "taint") else 1
        given, arguments = words[:names], words[names:]
        if (given or settings.selector) and not arguments:
            raise SettingsError(f"{verb} what? `windward machines {verb} --help` has examples")
    if not given and not settings.selector:
        raise SettingsError(f"{verb} which machine? Give names, globs or --selector")
    change = _CHANGES[verb]
    change({}, arguments)  # refuses invalid arguments before anything is written
    if verb in ("cordon", "uncordon"):
        return _told(verb, settings, write_cordon(settings, verb, given, settings.selector, ahead=settings.ahead))
    with ask.server(settings) as server, ask.open_windows(settings) as windows:
        known = known_machines(server, windows, settings.names)
        machines = meant(given, settings.selector, known, ahead=settings.ahead)
        if isinstance(settings, ForgetSettings):
            after = forget(settings, server, windows, machines, force=settings.force)
        else:
            after = {
                machine: change_operator_facts(server, settings.names, machine, lambda facts: change(facts, arguments))
                for machine in machines
            }
    return _told(verb, settings, after)


def _names(words: Sequence[str]) -> int:
    """Return how many of the words are names of machines: all before the first change.

    >>> _names(["m1", "m2", "disk=ssd", "old-"]), _names(["m1", "spare:avoid"]), _names(["m1"])
    (2, 1, 1)
    """
    rules = (place for place, word in enumerate(words) if place and ("=" in word or ":" in word or word.endswith("-")))
    return next(rules, len(words))


def _told(verb: str, settings: WriteSettings, after: Mapping[str, dict[str, Any]]) -> int:
    ask.tell(settings, after, lambda found, _: "\n".join(_line(verb, *one) for one in found.items()))
    return ask.OK


def _line(verb: str, name: str, facts: Mapping[str, Any]) -> str:
    words = "forgotten" if verb == "forget" else in_words(facts)
    words = f"takes instances again; {words}" if verb == "uncordon" else words
    return f"{'every machine' if name == DEFAULT else name}: {words}"
