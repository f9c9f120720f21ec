"""What the environment gives: a variable has one meaning, and none says what one call is about."""

from __future__ import annotations

import dataclasses
import typing
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from ops.commands import COMMANDS
from ops.known import classes
from schemas.process.flags import bare, has_variable, owner
from schemas.process.settings import gather

PROCESSES = ("up", "agent", "bridge", "stream", "scorer", "exporter", "record", "rebalancer")
"""The commands that run until they are stopped; each of the others is one call."""

SHARED = (
    "CommonSettings",
    "RedisSettings",
    "KafkaSettings",
    "LedgerSettings",
    "ClientSettings",
    "PublishSettings",
    "BalanceSettings",
)
"""The classes that calls and processes share: connections, the ledger, logs, output, samples, policy of moves."""

MEANINGS = {
    "backlog_records": "records kept while the broker is away",
    "instances_interval_s": "time between two reports of instances",
    "json": "print JSON",
    "kafka": "the brokers",
    "metrics_host": "address of the pages of a process",
    "metrics_port": "port of the pages of a process",
    "name": "name of this process among its kind",
    "nic_speed": "link speed where it is not known",
    "partitions": "partitions of a samples topic that has to be made",
    "profile": "profile by which a process decides where none is named",
    "profiles": "files with profiles",
    "record_dir": "folder of the recording",
    "redis_url": "the server of the windows",
    "time_zone": "zone whose days the daily peaks are of",
    "wide": "show every column",
    "windows_s": "the windows",
}
"""The one meaning of each variable that two classes declare."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of a command, and the class that declares it."""

    command: str
    name: str
    declared: str
    kind: str
    variable: bool


def settings() -> Iterator[Setting]:
    """Yield every setting of every command."""
    for command in COMMANDS:
        for cls in classes(command):
            hints = typing.get_type_hints(cls, include_extras=True)
            for field in dataclasses.fields(cls):
                declaring = owner(cls, field.name)
                declared = f"{declaring.__module__}.{declaring.__name__}"
                yield Setting(
                    command, field.name, declared, kind(hints[field.name]), has_variable(cls, field.name, field)
                )


def kind(hint: Any) -> str:
    """Return what a variable's text is read as; a list is read as its items are."""
    plain = bare(hint)
    if typing.get_origin(plain) is tuple:
        return kind(typing.get_args(plain)[0])
    if typing.get_origin(plain) is dict:
        return "pairs"
    return {bool: "switch", int: "number", float: "number"}.get(plain, "text")


ALL = list(settings())


def test_a_variable_is_read_as_one_kind() -> None:
    """Never a list for one command and a switch for another."""
    kinds: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in ALL:
        if one.variable:
            kinds[one.name][one.kind].add(one.command)
    assert {name: dict(found) for name, found in kinds.items() if len(found) > 1} == {}


def test_a_variable_has_one_meaning() -> None:
    """Two classes that declare one name have its meaning above; a new pair is renamed, or written down."""
    declared: dict[str, set[str]] = defaultdict(set)
    for one in ALL:
        if one.variable:
            declared[one.name].add(one.declared)
    assert {name: where for name, where in declared.items() if len(where) > 1 and name not in MEANINGS} == {}
    assert [name for name in MEANINGS if len(declared[name]) < 2] == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in PROCESSES])
def test_what_one_call_is_about_has_no_variable(command: str) -> None:
    """Which machine, which rows, how much, whether to apply: only what processes and calls share has one."""
    own = [one for one in ALL if one.command == command and one.declared.rpartition(".")[2] not in SHARED]
    assert [one.name for one in own if one.variable and one.name not in MEANINGS] == []


@pytest.mark.parametrize("cls", [*classes("place"), classes("instances")[0]], ids=["place", "instances"])
def test_the_environment_of_the_daemons_says_nothing_of_a_query(cls: type) -> None:
    """Such as /etc/default/windward-agent, read by the shell from which somebody places."""
    environ = {f"WINDWARD_{one.name.upper()}": "1" for one in ALL if one.command in PROCESSES and one.variable}
    assert {"WINDWARD_MACHINE", "WINDWARD_LABELS", "WINDWARD_CLASSES", "WINDWARD_PREFIX"} <= environ.keys()
    given = gather(cls, "place", [], environ)
    assert [name for name in given if owner(cls, name).__name__ not in SHARED] == []
    assert given["prefix"] == ("1", "variable WINDWARD_PREFIX")
