"""``windward demo``: the whole stack running on this machine, for about a minute; everything is removed afterwards.

It shows the real load of this machine beside a simulated fleet, the windows filling, then placements. It reads its data
as any program would: window tables from Redis, answers from the scorer. In the end a machine is overloaded, and a plan
of moves reduces its load. The output is readable without a terminal, too.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import redis
from msgspec import Meta
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from ops.stack.servers.process import LocalError, wait_until
from ops.stack.stack import Stack, StackSettings
from ops.stack.up import Interrupts
from ops.top.view import Moment, cells, columns, reported, rows_of, utilization
from schemas.names import Names
from schemas.process.connections import CommonSettings
from schemas.process.settings import load_settings, setting
from schemas.process.tables import Column, Screen, table
from schemas.resources import CPU
from schemas.values.numbers import number
from scorer.client import Client, WindwardError
from scorer.commands.placing.ranked import ranking
from scorer.commands.planning.rebalance import plan_answer, show
from scorer.commands.shared.show import ratio
from scorer.live.windows_reader import read_windows
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import Wire

SIMULATED = "sim-"
SPREAD = [
    Column("placed by"), Column("machines", 1), Column("most on one"), Column("fullest CPU"),
    Column("CPU std, fleet", 2),
]  # fmt: skip


def machines_table(fleet: Snapshot, screen: Screen) -> str:
    """Return this machine and the simulated ones of the highest, middle and lowest CPU load, as `windward top`."""
    simulated, own = split(fleet)
    order = simulated[np.argsort(utilization(fleet)[0, CPU, simulated])] if fleet.windows_s else simulated
    shown = order[[-1, -2, len(order) // 2, 1, 0]] if len(order) >= 5 else order
    moment = Moment(time.time(), fleet.windows_s, rows_of(fleet, time.time()))
    rows = [cells(moment.rows[row], reported(moment)) for row in (*own, *shown)]
    for row in rows[: len(own)]:
        row[0] += " (real)"
    return table(columns(moment), rows, screen)


def split(fleet: Snapshot) -> tuple[Integers, Integers]:
    """Return the rows of the simulated machines and of the real one."""
    simulated = np.array([name.startswith(SIMULATED) for name in fleet.names], dtype=np.bool_)
    return np.flatnonzero(simulated), np.flatnonzero(~simulated)


def covered(fleet: Snapshot, machines: int) -> list[float]:
    """Return for each window the covered share of ``machines`` simulated machines, by their CPU."""
    simulated, _ = split(fleet)
    windows = fleet.column("coverage")[:, CPU, simulated]
    return [float(np.nansum(np.minimum(window, 1.0)) / max(machines, 1)) for window in windows]


@dataclass(frozen=True)
class Spread:
    """How a burst of equal instances is spread over the fleet."""

    machines: int
    """Different machines it went to."""
    most: int
    """The largest number of them on one machine."""
    highest: float
    """The highest CPU utilization on any machine that got one, when they all run."""
    std: float
    """Standard deviation of CPU utilization over the fleet, when they all run."""


def spread(used: Floats, capacity: Floats, cpu: float, rows: Sequence[int]) -> Spread:
    """Return the spread of instances of ``cpu`` cores each on machines ``rows``, one row an instance; [M] columns.

    >>> spread(np.array([1.0, 1.0]), np.array([4.0, 4.0]), 1.0, [0, 0])
    Spread(machines=1, most=2, highest=0.75, std=0.25)
    """
    counts = np.bincount(np.asarray(rows, dtype=np.int64), minlength=len(used))
    after = (used + counts * cpu) / capacity
    chosen = counts > 0
    return Spread(
        machines=int(chosen.sum()),
        most=int(counts.max(initial=0)),
        highest=float(after[chosen].max(initial=0.0)),
        std=float(np.std(after)),
    )


HEAVY = 6
"""Number of the instances that overload a machine."""
HOT = 1.02
"""The part of its cores that they use together with its other load."""
PLAN_DEADLINE_S = 30.0
MACHINES = [Column("machine"), Column("cpu before"), Column("after"), Column("instances before"), Column("after")]
NAMES_ALONE = "kubernetes"
"""A profile that compares requests alone, by which a deployer overloads a machine that is busy already."""


def cool(client: Client, fleet: Snapshot, screen: Screen, say: Callable[[str], None]) -> None:
    """Overload one machine, make a plan of moves, carry it out; raises LocalError when the load is not lower then."""
    machine, cores = hottest_to_be(fleet)
    for nth in range(HEAVY):
        placed = client.place(id=f"heavy-{nth}", machine=machine, cpu=cores, memory="1G", profile=NAMES_ALONE)
        if not placed.machine:
            raise LocalError(f"{machine} takes no instance: {placed.summary}")
        client.confirm(f"heavy-{nth}")
    say(f"{HEAVY} instances of {cores:g} cores were sent to {machine}, which was busy already.")
    plan = plan_answer(client.rebalance(settings={"rest_s": 0}, timeout_s=PLAN_DEADLINE_S))  # they are new
    say(show(plan, screen))
    names = sorted({machine} | {one["target"] for one in plan["moves"]}, key=lambda name: name != machine)
    before = _loads(client, names)
    for one in plan["moves"]:
        client.update(one["id"], machine=one["target"])
    after = _loads(client, names)
    rows = [
        [name, ratio(before[name][0]), ratio(after[name][0]), str(before[name][1]), str(after[name][1])]
        for name in names
    ]
    say(f"\ncarried out, each by: windward update ID --machine NAME ({len(plan['moves'])} of them)")
    say(table(MACHINES, rows, screen))
    if not after[machine][0] < before[machine][0]:
        raise LocalError(f"the load of {machine} is not lower than before: {after[machine][0]:.0%}")


def _loads(client: Client, names: list[str]) -> dict[str, tuple[float, int]]:
    """Return the CPU load of machines as a decision sees it, as a share, and how many instances they have."""
    rows = client.machines(names=names).machines
    return {row.machine: (row.resources["cpu"]["utilization"] or 0.0, row.instances) for row in rows}


def hottest_to_be(fleet: Snapshot) -> tuple[str, float]:
    """Return a busy machine, and the cores of each of `HEAVY` instances that would overload it."""
    simulated, _ = split(fleet)
    used, capacity = fleet.column("mean")[-1, CPU, simulated], fleet.column("capacity")[CPU, simulated]
    share = used / capacity
    middle = (capacity >= 16) & (share > 0.3) & (share < 0.75)
    chosen = int(np.argmax(np.where(middle, share, -1.0)))
    cores = round(float(HOT * capacity[chosen] - used[chosen]) / HEAVY, 1)
    return fleet.names[simulated[chosen]], cores


FILL_DEADLINE_S = 100.0
SCORER_DEADLINE_S = 15.0
PRESENT_S = 20.0
"""The fleet is current when every machine's newest sample is younger than this: two intervals."""

LOOK_S = 0.25
PLAIN_LOOK_S = 2.0
PLAIN_WIDTH = 110
REQUEST: dict[str, Any] = {"cpu": 2, "memory": "8G"}


@dataclass(frozen=True, kw_only=True)
class DemoSettings(CommonSettings):
    """Show the whole stack running on this machine, then stop."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward demo",
        "windward demo --machines 60 --burst 20",
    )
    ONE_CALL: ClassVar[bool] = True

    machines: Annotated[int, Meta(ge=10, le=10_000)] = setting(200, "simulated machines")
    burst: Annotated[int, Meta(ge=1, le=1_000)] = setting(50, "instances placed at the end")
    wide: bool = setting(False, "show every column, however narrow the terminal is")


SETTINGS = DemoSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the demo; 0 when all of it worked, 1 when something did not, 130 on Ctrl-C."""
    settings = load_settings(DemoSettings, "demo", argv, environ)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    started = time.monotonic()
    interrupts = Interrupts()
    try:
        with tempfile.TemporaryDirectory(prefix="windward-demo-", ignore_cleanup_errors=True) as folder:
            stack = Stack(
                StackSettings(
                    prefix=settings.prefix,
                    kafka_port=0,
                    redis_port=0,
                    metrics_port=0,
                    exporter=False,
                    machines=settings.machines,
                    backfill_s=3600,
                    state_dir=Path(folder),
                ),
                environ,
                say=lambda line: console.print(f"  {line}", style="dim", markup=False),
            )
            console.rule("one stack, as processes of this machine")
            with stack:
                Demo(settings, stack, console).run()
                interrupts.started()
                pids = [process.pid for process in stack.supervisor.processes]
            left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    except (LocalError, WindwardError, redis.RedisError) as error:
        print(f"windward demo: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        print("windward demo: stopped", file=sys.stderr)  # noqa: T201
        return 130
    if left:
        print(f"windward demo: processes {left} are still there", file=sys.stderr)  # noqa: T201
        return 1
    console.print(f"all {len(pids)} processes are gone; it took {time.monotonic() - started:.0f} s")
    console.print("the same stack, staying: windward up --machines 200", markup=False)
    return 0


class Demo:
    def __init__(self, settings: DemoSettings, stack: Stack, console: Console) -> None:
        self._settings = settings
        self._stack = stack
        self._console = console
        self._redis, self._wire = redis.Redis.from_url(stack.redis_url), Wire({"url": stack.redis_url})
        self._client = Client(stack.redis_url, prefix=settings.prefix, timeout_s=10)

    def run(self) -> None:
        with self._redis, self._client, closing(self._wire):
            self.windows_fill()
            self.best_machines()
            self.refusals()
            self.burst()
            self.hot_machine()

    @property
    def _screen(self) -> Screen:
        terminal = self._console.is_terminal
        return Screen(self._console.width if terminal and not self._settings.wide else None, terminal)

    def _scene(self, title: str) -> None:
        self._console.print()
        self._console.rule(title)

    def _print(self, lines: str) -> None:
        self._console.print(Text.from_ansi(lines), soft_wrap=True)

    # ---- windows

    def windows_fill(self) -> None:
        """Show the windows while the fleet's past and this machine's samples arrive."""
        self._scene(f"this machine beside {self._settings.machines} simulated ones: windows fill")
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                fleet = self._watch(LOOK_S, lambda fleet: live.update(self._picture(fleet), refresh=True))
        else:
            fleet = self._watch(PLAIN_LOOK_S, lambda fleet: self._console.print(self._line(fleet)))
            self._print(machines_table(fleet, self._screen))
        wait_until(
            lambda: all(one.filter != "fresh" for one in self._client.rank(top=1).refusals),
            SCORER_DEADLINE_S,
            "the scorer sees fresh data of every machine",
        )

    def _watch(self, look_s: float, show: Callable[[Snapshot], None]) -> Snapshot:
        """Show the fleet every ``look_s`` until every window is filled and this machine has reported."""
        until = time.monotonic() + FILL_DEADLINE_S
        while True:
            fleet = self._fleet()
            show(fleet)
            if self._is_full(fleet):
                return fleet
            if time.monotonic() > until:
                raise LocalError(f"the windows are not full after {FILL_DEADLINE_S:g} s: {self._line(fleet)}")
            for process in self._stack.supervisor.dead:
                raise LocalError(f"{process.name} ended with {process.exit_code}: {process.output_end()}")
            time.sleep(look_s)

    def _is_full(self, fleet: Snapshot) -> bool:
        """Return whether every window is covered, the fleet is current, and this machine has reported."""
        simulated, own = split(fleet)
        least = min(covered(fleet, self._settings.machines), default=0.0)
        return bool(len(own) and least > 0.99 and fleet.column("at")[simulated].min() > time.time() - PRESENT_S)

    def _fleet(self) -> Snapshot:
        names = Names(self._settings.prefix)
        partitions: Any = self._redis.get(names.partitions) or 0
        reader = read_windows(self._wire, names, int(partitions))
        for problem in reader.problems.values():
            raise LocalError(problem)
        return build_snapshot(reader.windows, {}, {})

    def _shares(self, fleet: Snapshot) -> list[tuple[str, float]]:
        shares = covered(fleet, self._settings.machines)
        return [(f"{window_s // 60} min", share) for window_s, share in zip(fleet.windows_s, shares, strict=True)]

    def _line(self, fleet: Snapshot) -> str:
        shares = "   ".join(f"{name} {share:4.0%}" for name, share in self._shares(fleet))
        return f"{len(fleet.names):4d} machines seen   windows covered: {shares or 'not yet'}"

    def _picture(self, fleet: Snapshot) -> Group:
        bars: list[Text | Columns] = []
        for name, share in self._shares(fleet) or [("waiting", 0.0)]:
            bar = ProgressBar(100, 100 * share, width=50)
            bars.append(Columns([Text(f"{name:>7} window"), bar, Text(f"{share:4.0%}")], padding=(0, 2)))
        shown = Text.from_ansi(machines_table(fleet, self._screen))
        return Group(f"{len(fleet.names)} machines seen", *bars, shown)

    # ---- placements

    def best_machines(self) -> None:
        """Rank the fleet for one request."""
        self._scene("where should 2 cores and 8 GB go?  windward rank --cpu 2 --memory 8G")
        self._print(ranking(self._client.rank(**REQUEST, top=8), self._screen))

    def refusals(self) -> None:
        """Rank a request that fits few machines, and one that fits none."""
        for cpu, memory in ((24, "64G"), (500, "1T")):
            answer = self._client.rank(cpu=cpu, memory=memory, top=1)
            found = answer.machine or "no machine fits"
            self._print(f"{f'{cpu} cores and {memory}:':22} {found:17} {answer.summary}")

    def burst(self) -> None:
        """Place many instances, one query each, and compare with simpler ways to choose."""
        count = self._settings.burst
        self._scene(f"a burst of {count} placements, one query each: windward place --cpu 2 --memory 8G")
        rows, said = burst(self._client, self._fleet(), REQUEST, count)
        self._print(table(SPREAD, rows, self._screen))
        self._console.print(said, markup=False)

    # ---- moves

    def hot_machine(self) -> None:
        """Overload a machine and reduce its load by a plan of moves."""
        self._scene("a hot machine, cooled by a plan: windward rebalance")
        cool(self._client, self._fleet(), self._screen, self._print)


def burst(client: Client, fleet: Snapshot, request: Mapping[str, Any], count: int) -> tuple[list[list[str]], str]:
    """Place ``count`` instances; return the rows of a table (`ops.demo.command.SPREAD`), and a line about it.

    Raises LocalError unless all of them found a machine.
    """
    cores = float(request["cpu"])
    row_of = {name: row for row, name in enumerate(fleet.names)}
    started = time.monotonic()
    answers = [client.place(**request, id=f"demo-{n}", ttl_s=120) for n in range(count)]
    took_s = time.monotonic() - started
    placed = [one.machine for answer in answers for one in answer.placed]
    if len(placed) < count:
        raise LocalError(f"only {len(placed)} of {count} were placed: {answers[-1].summary}")
    used, capacity = fleet.column("mean")[-1, CPU], fleet.column("capacity")[CPU]
    fits = np.flatnonzero(used + cores <= capacity)
    rows = [["before", "", "", "", number(spread(used, capacity, cores, []).std, 3)]]
    for name, chosen in (
        ("Windward", [row_of[machine] for machine in placed]),
        ("chance", np.random.default_rng(1).choice(fits, count).tolist()),
        ("lowest measured CPU", [int(np.argmin(used / capacity))] * count),  # it does not change within a burst
    ):
        found = spread(used, capacity, cores, chosen)
        rows.append([name, str(found.machines), str(found.most), ratio(found.highest), number(found.std, 3)])
    took = f"{took_s * 1000:.0f} ms, {count / took_s:.0f}/s through one client"
    return rows, f"{len(placed)} of {count} reserved in {took}; {answers[-1].summary}"
