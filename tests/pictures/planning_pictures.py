"""The pictures of the pages on drains, plans and capacity, computed by the product. Shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ops.docs.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE
from ops.docs.shapes import CAPACITY, machine
from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import read_fleet
from scorer.placement.choosing.trial import Trial
from scorer.planning.capacity.room import room
from scorer.planning.drain.consolidate import consolidate
from scorer.planning.drain.drain import Drained, drain
from scorer.planning.wanted.wanted import compare
from scorer.ranking.profiles.catalogue import load_profiles
from tests.pictures.drawing import SOLID, Pictures, block, named

CORES = CAPACITY["cpu"]
MACHINES = {"a": 0.55, "b": 0.35, "c": 0.25, "d": 0.45, "e": 0.15}
"""The load of each machine before, as a share of its 32 cores."""
LEAVING = {"web-1": 6.0, "web-2": 4.0, "db-1": 3.0, "cache-1": 2.0}
"""The cores of each instance of the machine that is drained."""
SPREAD = {
    "a": {"a1": 9.0, "a2": 6.0}, "b": {"b1": 3.0, "b2": 2.0}, "c": {"c1": 8.0, "c2": 5.0, "c3": 4.0},
    "d": {"d1": 4.0}, "e": {"e1": 10.0, "e2": 3.0},
}  # fmt: skip
"""The cores of each instance of the fleet that is consolidated."""
ROOM = {"a": (8.0, 0.2), "b": (16.0, 0.35), "c": (8.0, 0.82), "d": (22.0, 0.5), "e": (27.0, 0.55)}
"""Of each machine: the cores that it has promised, and what it is measured to use, as a share."""
COPY = {"cpu": 4, "memory": "12G"}
HERE: dict[str, dict[str, float]] = {"m1": {"web": 8.0, "db": 10.0, "old": 4.0}, "m2": {"api": 6.0}, "m3": {"job": 9.0}}
WANTED: list[dict[str, Any]] = [
    {"id": "web", "cpu": 5}, {"id": "db", "cpu": 14, "machine": "m2"}, {"id": "api", "cpu": 6},
    {"id": "job", "cpu": 9, "selector": "!spare"}, {"id": "new", "cpu": 7},
]  # fmt: skip
"""What runs, and the file of a plan."""
SIGNS = {"release": "-", "change": "~", "update": "*", "move": ">", "place": "+"}


def drained(axes: Any) -> None:
    """Cores in use before a drain of one machine, and the instances that come to each of the others."""
    machines = [machine(name, cpu=load) for name, load in MACHINES.items()]
    instances = [{"id": name, "machine": "a", "cpu": cpu, "memory": "4G"} for name, cpu in LEAVING.items()]
    fleet = read_fleet({"machines": machines, "instances": instances})
    found = drain(["a"], fleet.inputs(load_profiles().choose()))
    _moves(axes, found, {name: CORES * load for name, load in MACHINES.items()}, LEAVING)


def consolidated(axes: Any) -> None:
    """The two machines of five that are the cheapest to empty, and where their instances go."""
    cores = {one: cpu for there in SPREAD.values() for one, cpu in there.items()}
    use = {name: 1.0 + sum(there.values()) for name, there in SPREAD.items()}
    fleet = read_fleet({
        "machines": [machine(name, cpu=used / CORES, memory=used / 64) for name, used in use.items()],
        "instances": [
            {"id": one, "machine": name, "cpu": cpu, "memory": 2e9 * cpu,
             "usage": {"cpu": cpu, "memory": 2e9 * cpu}}
            for name, there in SPREAD.items() for one, cpu in there.items()
        ],
    })  # fmt: skip
    found = consolidate(2, fleet.inputs(load_profiles().choose()))
    _moves(axes, found.drained, use, cores, limit=0.8)
    for one in found.machines:
        axes.text(list(use).index(one.machine), use[one.machine] + 1, "emptied", ha="center", color=ORANGE, fontsize=8)


def _moves(axes: Any, found: Drained, use: Mapping[str, float], cores: Mapping[str, float], limit: float = 0.9) -> None:
    """Draw the cores in use of each machine, what leaves it and what comes to it; ``limit``: the share of targets."""
    left = {name: sum(cores[one.instance.id] for one in found.moves if one.instance.machine == name) for name in use}
    names, top = list(use), {name: used - left[name] for name, used in use.items()}
    axes.bar(names, list(top.values()), color=BLUE, alpha=SOLID, label="stays")
    leaves = dict(top)
    for number, one in enumerate(found.moves, 1):
        name, source, target = one.instance.id, one.instance.machine, str(one.target)
        labels = ("left", "came") if number == 1 else (None, None)
        block(axes, source, leaves[source], cores[name], name, None, label=labels[0])
        block(axes, target, top[target], cores[name], f"{number}. {name}", GREEN, label=labels[1])
        leaves[source] += cores[name]
        top[target] += cores[name]
    axes.axhline(limit * CORES, color=ORANGE, linestyle=":", linewidth=1)
    axes.text(len(names) - 0.55, limit * CORES + 0.4, f"{100 * limit:.0f} %", ha="right", fontsize=7)
    named(axes, "", "cores in use", 36, legend="upper center", columns=3)


def capacity(axes: Any) -> None:
    """Draw what five machines have allocated and use, how many more copies each takes, what refuses the next."""
    profile, request = load_profiles().choose(), read_request(COPY)
    total = 0
    for place, (name, (promised, used)) in enumerate(ROOM.items()):
        there = {"id": "there", "machine": name, "cpu": promised, "memory": "20G"}
        fleet = read_fleet({"machines": [machine(name, cpu=used)], "instances": [there]})
        found = room(request, Trial(fleet.inputs(profile)))
        first = place == 0
        axes.bar(place, promised, color=BLUE, alpha=SOLID, label="promised" if first else None)
        for number in range(found.total):
            label = "one more of 4 cores and 12 GB" if not total and not number else None
            axes.bar(place, 4, bottom=promised + 4 * number, color=GREEN, alpha=SOLID, edgecolor="white", label=label)
        axes.hlines(used * CORES, place - 0.4, place + 0.4, color=ORANGE, label="used in the mean" if first else None)
        axes.text(
            place, CORES + 1, f"{found.total}, then\n{found.limits[0].reason}", ha="center", va="bottom", fontsize=7
        )
        total += found.total
    axes.axhline(CORES, color=GREY, linestyle=":", linewidth=1)
    axes.set_xticks(range(len(ROOM)), list(ROOM))
    about = f"{total} more fit on five machines of 32 cores"
    named(axes, about, "cores", 46, legend="upper center", columns=3)


def planned(axes: Any) -> None:
    """Three machines before and after a plan: what is released, resized, moved, placed and left as it is."""
    fleet = read_fleet({
        "machines": [machine(name, cpu=0.8 * sum(there.values()) / CORES) for name, there in HERE.items()],
        "instances": [
            {"id": one, "machine": name, "cpu": cpu} for name, there in HERE.items() for one, cpu in there.items()
        ],
    })  # fmt: skip
    requests = [read_request(one) for one in WANTED]
    found = compare(requests, fleet.inputs(load_profiles().choose()), prune=True)
    steps, cores = {one.id: one for one in found.steps}, {one.id: float(one.cpu or 0) for one in requests}
    colours = {"release": GREY, "change": PURPLE, "update": BLUE, "move": GREEN, "place": GREEN}
    names = list(HERE)
    after: dict[str, float] = dict.fromkeys(names, 0.0)

    def put(name: str, one: str, cpu: float, action: str, colour: str | None) -> None:
        sign = f"{SIGNS[action]} " if action else ""
        block(axes, names.index(name) + 0.21, after[name], cpu, f"{sign}{one} {cpu:g}", colour, width=0.38)
        after[name] += cpu

    for place, (name, there) in enumerate(HERE.items()):
        below = 0.0
        for one, cpu in there.items():
            block(axes, place - 0.21, below, cpu, f"{one} {cpu:g}", BLUE, width=0.38)
            below += cpu
            action = steps[one].action if one in steps else ""
            stays = action in ("", "change", "update")
            put(name, one, cores[one] if stays else cpu, action, colours.get(action, BLUE) if stays else None)
    for step in found.steps:
        if step.action in ("move", "place"):
            put(str(step.target), step.id, cores[step.id], step.action, GREEN)
    axes.axhline(CORES, color=GREY, linestyle=":", linewidth=1)
    axes.set_xticks([place + shift for place in range(len(names)) for shift in (-0.21, 0.21)],
                    [f"{name}\n{when}" for name in names for when in ("now", "after")])  # fmt: skip
    named(axes, "", "cores promised", 35)
    axes.set_xlabel("- released    ~ changed    * updated    > moved    + placed", fontsize=8)


PICTURES: Pictures = {
    "drain": (drained, 7.0, 2.8),
    "consolidate": (consolidated, 7.0, 2.8),
    "capacity": (capacity, 7.0, 3.0),
    "plan": (planned, 7.0, 3.0),
}
"""Each picture with its width and height."""
