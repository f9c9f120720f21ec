"""The agent's settings of instances."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schemas.names import SLOT_S
from schemas.process.settings import setting
from streams.agent.instances.finders import Command, Environment, Finder, PidFile, Port
from streams.agent.instances.meter import Found


@dataclass(frozen=True, kw_only=True)
class InstanceSettings:
    """How instances on this machine are found; by default only by its control groups."""

    GROUP: ClassVar[str] = "Instances"

    instances: bool = setting(True, "report the usage of each instance")
    instances_interval_s: Annotated[float, Meta(ge=SLOT_S, le=3600)] = setting(
        60.0, "time between two reports of instances"
    )
    instance_cgroup: tuple[str, ...] = setting(
        (),
        "regular expression of a control group's path below the root; its group 1 is the id; may be repeated",
        metavar="EXPRESSION",
    )
    instance_pid_file: tuple[str, ...] = setting(
        (), "ID=PATH of a pid file, or a path in which * stands for the id; may be repeated", metavar="[ID=]PATH"
    )
    instance_command: tuple[str, ...] = setting(
        (),
        "regular expression of a process's command line; its group 1 is the instance's id; may be repeated",
        metavar="EXPRESSION",
    )
    instance_environ: str | None = setting(
        None, "variable of a process's environment that holds the id; needs CAP_SYS_PTRACE"
    )
    instance_port: str | None = setting(
        None, "id of the process that listens on a TCP port, such as redis-{port}; needs CAP_SYS_PTRACE", metavar="ID"
    )
    instance_only: Literal["pods"] | None = setting(
        None, "which control groups are instances without a setting of their own: pods alone (default: services, too)"
    )
    cgroup_root: str | None = setting(
        None, "where control groups (version 2) are mounted (default: below /sys/fs/cgroup)"
    )

    def __post_init__(self) -> None:
        _ = self.found

    @property
    def found(self) -> Found:
        """How instances are found; raises ValueError naming the setting that cannot be used."""
        finders: list[Finder] = [*map(_pid_file, self.instance_pid_file)]
        finders += [Command(expression("instance_command", text, grouped=True)) for text in self.instance_command]
        if self.instance_environ is not None:
            if not re.fullmatch(r"\w+", self.instance_environ):
                raise ValueError(f"instance_environ: {self.instance_environ!r} is no name of a variable")
            finders.append(Environment(self.instance_environ))
        if self.instance_port is not None:
            if "{port}" not in self.instance_port:
                raise ValueError(f"instance_port: no {{port}} in {self.instance_port!r}, such as redis-{{port}}")
            finders.append(Port(self.instance_port))
        return Found(
            cgroup_root=None if self.cgroup_root is None else Path(self.cgroup_root),
            patterns=tuple(expression("instance_cgroup", text) for text in self.instance_cgroup),
            pods_only=self.instance_only == "pods",
            finders=tuple(finders),
        )


def expression(name: str, text: str, *, grouped: bool = False) -> re.Pattern[str]:
    """Return a regular expression; ``grouped``: its group 1 is an id. Raises ValueError naming the setting."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise ValueError(f"{name}: not a regular expression: {error}") from None
    if grouped and not found.groups:
        raise ValueError(f"{name}: no group for the id in {text!r}, such as redis-server .*:([0-9]+)")
    return found


def _pid_file(text: str) -> PidFile:
    instance_id, _, path = text.rpartition("=")
    if not path.startswith("/") or (not instance_id and "*" not in path) or path.count("*") > 1:
        raise ValueError(f"instance_pid_file: expected ID=/path or a path with one *, got {text!r}")
    return PidFile(path, instance_id)
