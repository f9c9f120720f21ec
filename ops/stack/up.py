"""``windward up``: the whole stack on this machine until Ctrl-C."""

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rich.console import Console

from ops.stack.servers.process import LocalError
from ops.stack.stack import Stack, StackSettings
from schemas.process.connections import KafkaSettings, RedisSettings
from schemas.process.settings import load_settings, setting
from schemas.process.signals import Stop
from schemas.process.tables import Column, screen, table
from scorer.client import Client, HealthResult, RankResult, WindwardError

WATCH_S = 0.2
ANSWER_S = 10.0


@dataclass(frozen=True, kw_only=True)
class UpSettings(StackSettings):
    """Run the whole stack on this machine until Ctrl-C.

    A broker and a Valkey are started unless the flags --kafka and --redis-url name some: WINDWARD_REDIS_URL and
    WINDWARD_KAFKA, the servers that this shell's commands use, are not read. A process that ends is started again.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward up --machines 200                           # beside a simulated fleet",
        "windward up --kafka broker:9092 --redis-url redis://server:6379/0",
    )

    json: bool = setting(False, "print the addresses as JSON, on one line, when everything is ready")


SETTINGS = UpSettings


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP: the first one ends the start, or the wait after it; later ones are ignored.

    So the end of the processes is not interrupted.
    """

    def __init__(self) -> None:
        self._seen = Stop()
        self._starting = True
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._handle)

    def _handle(self, *_: object) -> None:
        first = not self._seen.is_set()
        self._seen.set()
        if first and self._starting:
            raise KeyboardInterrupt

    def started(self) -> None:
        """From now on an interrupt only ends `wait`."""
        self._starting = False

    def wait(self, timeout_s: float) -> bool:
        """Wait; return whether an interrupt came."""
        return self._seen.wait(timeout_s)


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the stack; 0 after Ctrl-C or SIGTERM, 1 when it could not be started, 130 when that was interrupted."""
    settings = load_settings(UpSettings, "up", argv, environ)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(line: str) -> None:
        notes.print(line, markup=False)

    interrupts = Interrupts()
    try:
        with Stack(settings, environ, say) as stack:
            unfit = await_data(stack, stack.settings, say)
            interrupts.started()
            announce(stack, settings, unfit)
            while not interrupts.wait(WATCH_S):
                stack.supervisor.watch(time.monotonic())
            say("stopping")
    except LocalError as error:
        print(f"windward up: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        say("stopped before everything was ready")
        return 130
    return 0


def await_data(stack: Stack, settings: StackSettings, say: Callable[[str], None]) -> str:
    """Wait until each machine has data; return why none of them takes an instance, "" when one does."""
    machines = settings.machines + settings.agent
    if not (machines and settings.streams and settings.scorers):
        return ""
    arguments = settings.redis_arguments() | {"url": stack.redis_url}
    with Client(prefix=settings.prefix, timeout_s=ANSWER_S, **arguments) as client:
        return await_fleet(machines, partial(look, client), say, lambda: stack.supervisor.watch(time.monotonic()))


def announce(stack: Stack, settings: UpSettings, unfit: str) -> None:
    """Print every process's address, and a command to try next."""
    if settings.json:
        rows = [{"name": name, "address": address, "log": log} for name, address, log in stack.rows()]
        found = {"kafka": stack.kafka, "redis_url": stack.redis_url, "processes": rows, "unfit": unfit}
        print(json.dumps(found), flush=True)  # noqa: T201
        return
    columns = [Column(title, left=True) for title in ("what", "address", "log")]
    print(table(columns, [list(row) for row in stack.rows()], screen()))  # noqa: T201
    asked = {"REDIS_URL": stack.redis_url, "KAFKA": stack.kafka, "PREFIX": settings.prefix}
    usual = {"REDIS_URL": RedisSettings.redis_url, "KAFKA": KafkaSettings.kafka, "PREFIX": RedisSettings.prefix}
    if other := [f"WINDWARD_{name}={value}" for name, value in asked.items() if value != usual[name]]:
        print("first: export " + " ".join(other))  # noqa: T201
    state = f"no machine takes an instance now: {unfit}\nlater" if unfit else "ready"
    print(f"{state}: windward place --cpu 2 --memory 10G   (Ctrl-C stops everything)", flush=True)  # noqa: T201


PATIENCE_S = 60.0
"""How long the start may go without progress."""
_POLL_S = 0.25
_SAY_S = 5.0
_UNFIT_S = 5.0
"""How long a full fleet may take no instance before that is reported."""
_OLD = ("stale", "without data")


@dataclass(frozen=True)
class FleetState:
    recent: int = 0
    """Machines known by a recent sample."""
    newest_at: float = 0.0
    """Time of the newest sample, epoch s."""
    unfit: str = "no scorer has answered"
    """Why no machine takes a small instance; "" when one does."""


def state_of(health: HealthResult, rank: RankResult, now_s: float) -> FleetState:
    """Return the state of the fleet from the answers of `health` and `rank`.

    >>> health = HealthResult(ready=True, scorer="a", version="1", uptime_s=1, machines=3, machines_with_data=3,
    ...     newest_sample_age_s=2.0, windows_s=[], instances=0, ledger_change=0, profiles=[], profile="")
    >>> state_of(health, RankResult(machine="m1", feasible=3), 100.0)
    FleetState(recent=3, newest_at=98.0, unfit='')
    """
    unfit = health.degraded or health.ledger_refusal or health.ledger_unaccepted
    old = sum(one.machines for one in rank.refusals if one.reason in _OLD)
    age_s = health.newest_sample_age_s
    return FleetState(
        recent=0 if health.degraded else health.machines - old,
        newest_at=0.0 if age_s is None else now_s - age_s,
        unfit=unfit or ("" if rank.machine else rank.summary or "no machine fits"),
    )


def look(client: Client) -> FleetState:
    try:
        return state_of(client.health(), client.rank(cpu=0.01, memory="1M", top=1), time.time())
    except WindwardError as error:
        return FleetState(unfit=error.message)


def await_fleet(
    machines: int, look: Callable[[], FleetState], say: Callable[[str], None], meanwhile: Callable[[], None]
) -> str:
    """Wait until so many machines have recent samples; return why none of them takes an instance, "" when one does.

    ``meanwhile`` is called between two looks. Raises LocalError without progress for `PATIENCE_S`.
    """
    best = FleetState()
    nearer_at = said_at = time.monotonic()
    while True:
        state, now_s = look(), time.monotonic()
        if state.recent > best.recent or (not state.recent and state.newest_at > best.newest_at):
            best, nearer_at = state, now_s
        if state.recent >= machines and (not state.unfit or now_s - nearer_at > _UNFIT_S):
            return state.unfit
        if now_s - nearer_at > PATIENCE_S:
            found = f"{state.recent} of {machines} machines have recent data, unchanged for {PATIENCE_S:g} s"
            raise LocalError(f"the fleet is not ready: {found}" + (f"; {state.unfit}" if state.unfit else ""))
        if now_s - said_at > _SAY_S:
            said_at = now_s
            say(f"waiting for data: {state.recent:,} of {machines:,} machines")
        meanwhile()
        time.sleep(_POLL_S)
