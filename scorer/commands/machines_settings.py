"""The settings of ``windward machines``, a class for each verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.settings import setting
from scorer.commands import machine_table
from scorer.settings import ClientSettings, LedgerSettings


@dataclass(frozen=True, kw_only=True)
class ListSettings(ClientSettings):
    """List the machines with their load, instances and the age of their data."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines list --sort cpu --limit 10             # the fullest ones",
        "windward machines list --state stale                     # whose data is old",
        "windward machines list --selector 'zone in (zone-1, zone-2)' --columns machine,cpu,memory,age",
        "windward machines list --quiet                           # names alone, one a line",
    )

    labels: dict[str, str] = setting({}, "only those with these labels", metavar="KEY=VALUE")
    selector: str = setting("", "only those whose labels this selects, as in `place --selector`")
    state: tuple[machine_table.State, ...] = setting(
        (), "only those that are so: " + ", ".join(machine_table.STATES), metavar="STATE"
    )
    sort: machine_table.Sort = setting("machine", "order by", metavar="COLUMN")
    reverse: bool = setting(False, "the other way round")
    columns: tuple[str, ...] = setting((), "show these columns only: " + ", ".join(machine_table.TITLES), metavar="A,B")
    quiet: bool = setting(False, "print names alone, one a line", group="output")
    profile: str = setting("", "load as this profile sees it")
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = setting(1000, "at most so many")


@dataclass(frozen=True, kw_only=True)
class ShowSettings(ClientSettings):
    """Show all that is known of one machine."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines show sim-00001",)

    name: str = setting(help="the machine", positional=True, metavar="NAME")
    profile: str = setting("", "load as this profile sees it")


@dataclass(frozen=True, kw_only=True)
class WriteSettings(ClientSettings):
    """What is said, and of which machines."""

    selector: str = setting("", "the machines whose labels this selects", group="machines")
    ahead: bool = setting(False, "a machine that is unknown is to come: say it ahead", group="machines")


@dataclass(frozen=True, kw_only=True)
class CordonSettings(WriteSettings):
    """Let no machine of these take another instance."""

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
    """Forget machines that are gone, or never were: what was said of them, their windows, what their agents told.

    Refused while the ledger has instances there. A machine whose agent still sends comes back with its next sample.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines forget sim-00007",)

    force: bool = setting(False, "although instances are there; they stay, and the machine is listed without data")


@dataclass(frozen=True, kw_only=True)
class LabelSettings(WriteSettings):
    """Label a machine; what operators say wins over what an agent says."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines label sim-00001 disk=ssd",
        "windward machines label sim-00001 disk-                  # take the label away",
    )

    words: tuple[str, ...] = setting(
        (), "a machine or glob, unless --selector; then KEY=VALUE or KEY-", positional=True, metavar="NAME KEY=VALUE"
    )


@dataclass(frozen=True, kw_only=True)
class TaintSettings(WriteSettings):
    """Taint a machine: `refuse` keeps instances away that do not tolerate it, `avoid` costs score."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward machines taint sim-00001 spare:refuse",
        "windward machines taint sim-00001 spare-                 # take the taint away",
    )

    words: tuple[str, ...] = setting(
        (), "a machine or glob, unless --selector; then KEY[=VALUE]:refuse, KEY[=VALUE]:avoid or KEY-",
        positional=True, metavar="NAME KEY:EFFECT",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SetSettings(WriteSettings):
    """Set what operators may say of a machine, as JSON; null removes a field. See schemas/operator.v1.schema.json."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        """windward machines set sim-00001 '{"reserve": {"memory": "8G"}}'""",
        """windward machines set '*' '{"reserve": {"memory": null}}'       # every machine's default""",
    )

    words: tuple[str, ...] = setting(
        (), "a machine or glob, unless --selector; then a JSON object", positional=True, metavar="NAME JSON"
    )


@dataclass(frozen=True, kw_only=True)
class RenameSettings(ClientSettings, LedgerSettings):
    """Give a machine another name: its instances and what operators said go along, the windows follow with its samples.

    Then tell its agent: WINDWARD_MACHINE=NEW in /etc/default/windward-agent, and restart it. Until then the old name is
    cordoned. Run again, the command does what is left. Refused while another host is live under the new name.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward machines rename sim-00005 db1",)

    words: tuple[str, ...] = setting((), "the name so far, and the new one", positional=True, metavar="OLD NEW")


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
