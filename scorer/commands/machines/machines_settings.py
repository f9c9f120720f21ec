"""The settings of ``windward machines``, a class for each verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.settings import setting
from scorer.commands.machines import machine_table
from scorer.settings import ClientSettings, LedgerSettings


@dataclass(frozen=True, kw_only=True)
class ListSettings(ClientSettings):
    """List the machines with their load, instances and the age of their data."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines list --sort cpu --limit 10             # the fullest ones",
        "windward machines list --state stale                     # those with old data",
        "windward machines list --selector 'zone in (zone-1, zone-2)' --columns machine,cpu,memory,age",
        "windward machines list --quiet                           # names alone, one a line",
    )

    labels: dict[str, str] = setting({}, "only those with these labels", metavar="KEY=VALUE")
    selector: str = setting("", "only those whose labels this selects, as in `place --selector`")
    state: tuple[machine_table.State, ...] = setting(
        (), "only those in this state: " + ", ".join(machine_table.STATES), metavar="STATE"
    )
    sort: machine_table.Sort = setting("machine", "order by", metavar="COLUMN")
    reverse: bool = setting(False, "reverse the order")
    columns: tuple[str, ...] = setting((), "show these columns only: " + ", ".join(machine_table.TITLES), metavar="A,B")
    quiet: bool = setting(False, "print names alone, one a line", group="output")
    profile: str = setting("", "load as this profile sees it")
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = setting(1000, "at most so many")


@dataclass(frozen=True, kw_only=True)
class ShowSettings(ClientSettings):
    """Show all that is known about one machine."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines show sim-00001",)

    name: str = setting(help="the machine", positional=True, metavar="NAME")
    profile: str = setting("", "load as this profile sees it")


@dataclass(frozen=True, kw_only=True)
class WriteSettings(ClientSettings):
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

    Refused while the ledger has instances there. A machine whose agent still sends comes back with its next sample.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines forget sim-00007",)

    force: bool = setting(False, "even with instances there; they stay, and the machine is listed without data")


@dataclass(frozen=True, kw_only=True)
class LabelSettings(WriteSettings):
    """Label a machine; operators' labels win over those of its agent."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines label sim-00001 disk=ssd",
        "windward machines label sim-00001 disk-                  # remove the label",
    )

    words: tuple[str, ...] = setting(
        (), "a machine or glob, unless --selector; then KEY=VALUE or KEY-", positional=True, metavar="NAME KEY=VALUE"
    )


@dataclass(frozen=True, kw_only=True)
class TaintSettings(WriteSettings):
    """Taint a machine: `refuse` keeps instances away that do not tolerate it, `avoid` costs score."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines taint sim-00001 spare:refuse",
        "windward machines taint sim-00001 spare-                 # remove the taint",
    )

    words: tuple[str, ...] = setting(
        (), "a machine or glob, unless --selector; then KEY[=VALUE]:refuse, KEY[=VALUE]:avoid or KEY-",
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
    cordoned. The command may be run again to finish. It is refused while another host is live under the new name.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines rename sim-00005 db1",)

    words: tuple[str, ...] = setting((), "the old name and the new one", positional=True, metavar="OLD NEW")


SETTINGS: dict[str, type[ClientSettings]] = {
    "list": ListSettings,
    "show": ShowSettings,
    "label": LabelSettings,
    "taint": TaintSettings,
    "cordon": CordonSettings,
    "uncordon": UncordonSettings,
    "set": SetSettings,
    "forget": ForgetSettings,
    "rename": RenameSettings,
}
