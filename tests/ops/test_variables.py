"""What the environment gives: a variable of a process says nothing of one call."""

import dataclasses

import pytest

from ops.cli.commands import COMMANDS
from ops.cli.known import classes
from schemas.process.flags import OF_PROCESSES, has_variable, owner
from schemas.process.settings import gather

PROCESSES = (
    "up", "agent", "bridge", "stream", "scorer", "exporter", "record", "planner", "load-watcher", "pods", "extender",
    "evictor",
)  # fmt: skip
"""The commands that run until they are stopped; each of the others is one call."""

SHARED = (
    "CommonSettings", "RedisSettings", "WindowsSettings", "KafkaSettings", "LedgerServerSettings", "LedgerSettings",
    "ClientSettings", "PublishSettings", "BalanceSettings",
)  # fmt: skip
"""The classes that calls and processes share: connections, the ledger, logs, output, samples, policy of moves."""

ALIKE = {
    "backlog_records", "gain_min", "instances_interval_s", "json", "nic_speed", "profile", "profiles",
    "record_dir", "redis_url", "same", "time_zone", "windows_s",
}  # fmt: skip
"""What a process and one call call by one name, and mean the same."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of a command, and the class that declares it."""

    command: str
    name: str
    declared: str
    variable: bool
    positional: bool


def settings():
    for command in COMMANDS:
        for cls in classes(command):
            for field in dataclasses.fields(cls):
                positional = bool(field.metadata.get("positional"))
                variable = has_variable(cls, field.name, field)
                yield Setting(command, field.name, owner(cls, field.name).__name__, variable, positional)


ALL = list(settings())


def test_what_a_process_and_one_call_mean_otherwise_is_no_variable_of_the_call():
    """Which machine, which rows, how many: a new pair of one name is written down, here or in `OF_PROCESSES`."""
    processes = {one.name for one in ALL if one.command in PROCESSES and one.variable}
    own = [one for one in ALL if one.command not in PROCESSES and one.declared not in SHARED]
    assert {one.name for one in own if not one.positional} & processes == OF_PROCESSES | ALIKE
    assert {one.name for one in own if one.variable} & processes == ALIKE


@pytest.mark.parametrize("cls", [*classes("place"), classes("instances")[0]], ids=["place", "instances"])
def test_the_environment_of_the_daemons_says_nothing_of_a_query(cls):
    """Such as /etc/default/windward-agent, read by the shell from which somebody places."""
    environ = {f"WINDWARD_{one.name.upper()}": "1" for one in ALL if one.command in PROCESSES and one.variable}
    assert {"WINDWARD_MACHINE", "WINDWARD_LABELS", "WINDWARD_CLASSES", "WINDWARD_PREFIX"} <= environ.keys()
    given = gather(cls, "place", [], environ)
    assert [name for name in given if owner(cls, name).__name__ not in SHARED and name not in ALIKE] == []
    assert given["prefix"] == ("1", "variable WINDWARD_PREFIX")
