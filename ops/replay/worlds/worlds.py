"""Worlds: a workload of any size made from a trace of load, the same for the same seed.

- **Fleet**: machines of 16, 32, 64 and 96 cores in equal parts, 4 GiB a core.
- **Instances**: ``per_machine`` live ones a machine. Each is a source of the trace, from a day of it drawn at random
  on, at the real time of day; a source may serve several instances. Sizes are the trace's where it has them, else drawn
  together with the life from the file of lives.
- **Lives**: openb's times ``lives`` (10, or 40 for long ones), at least ``BURST_MINUTES``, at most 0.15 days times
  ``lives`` (1.5 days, 6 days).
- **Arrivals** come in bursts every ``BURST_MINUTES``, their sizes Poisson about a gamma of shape 2. In the first hour
  as many instances come as are live at any time, with the rest of their lives. These lives are drawn by length, as
  at a random moment. So the number of live instances is steady from then on.
- **Load**: usage is scaled as if each instance were placed when it first asks. After the first hour the CPU demand of
  all has a mean of ``load`` of the cores, or a highest minute of ``PEAK``, whichever is less load. Memory, where it is
  asked for, likewise has a mean of ``memory_load``, the network of ``nic_load``. Requests are scaled to ``requests`` of
  the fleet. One instance asks for, and uses, at most half of the smallest machine.
- **Requests** are the sizes, which say little of use; or *informed*, as a recommender sets them: the 95th percentile of
  the own usage, with a lognormal error of `INFORMED_ERROR`; or *misled*: four of five sources request three times
  that, the others half; after the middle of the world it is the reverse.
- **Network**, where it is asked for: sources whose rates the trace has, machines of one line rate whatever their cores.
  A source asks for the 95th percentile of its own rate.
- **Unlike machines** have `UNLIKE_CORES`, in equal parts.
- **Common peaks**: instances belong to `BUSINESSES`, each with few sources, all on the same day of them, so that they
  peak together. All of one burst belong to one business: a wave of replicas.
- **Batch**, where it is wanted, comes beside prod: each instance is a copy of one of the world's own, drawn at random:
  its size, life and source of usage, beginning with another day of that source if it has one. So a core that batch asks
  for is used as much as one of prod. They come in bursts of the same kind, from the first minute on. If all were placed
  at once, those live at a time would ask for a given share of the fleet; an instance that does not fit waits. Of bursts
  at least `HOURLY_MINUTES` apart no instance runs beyond the next one: a job of each hour. The
  instances of prod, their times and their usage are those of the world without batch.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ops.replay.traces.formats import Lives
from ops.replay.traces.trace import Trace, with_rates
from ops.replay.workload import DAY_MINUTES, Usage, Workload, WorkloadError
from ops.replay.worlds.minutes import minute_readings
from schemas.resources import CPU, MEMORY, NIC, RESOURCES
from schemas.rpc.request import DECIMALS
from scorer.ledger.record.instance import SHARD
from scorer.snapshot.arrays import Floats, Integers

MACHINE_CORES = (16.0, 32.0, 64.0, 96.0)
UNLIKE_CORES = (8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0)
INFORMED_ERROR, INFORMED_PERCENT = 0.3, 95
MISLED_MORE, MISLED_LESS, MISLED_PART = 3.0, 0.5, 0.8
BUSINESSES, BUSINESS_SOURCES = 6, 4
MEMORY_BYTES_PER_CORE = 4 * 2.0**30
LINE_BYTES_S = 1.25e9
"""10 Gbit/s. Rates are scaled, so it is only a unit."""
BURST_MINUTES = 4
BURST_SHAPE = 2.0
HOURLY_MINUTES = 60
FIRST_CROWD_MINUTES = 60
PEAK = 0.85
MEMORY_LOAD = 0.5
NIC_LOAD = 0.5
LIFE_DAYS_MAX = 0.15
FILL_ONE_DAY_MINUTES = 300
"""History of a world of one day; a longer one has its whole first day as history."""
_ROUNDS, NEAR = 12, 2e-3
"""Scaling is repeated so often at most, until it changes no more than this."""


Asks = Literal["sizes", "informed", "misled"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large and how full a world is."""

    machines: int = 200
    days: int = 3
    lives: float = 10.0
    load: float = 0.65
    requests: float = 0.8
    per_machine: int = 15
    memory: bool = False
    """Whether memory is requested and measured, if the trace has it."""
    memory_load: float = MEMORY_LOAD
    nic: bool = False
    """Whether the network is requested and measured; a trace without any rate is an error."""
    nic_load: float = NIC_LOAD
    asks: Asks = "sizes"
    unlike: bool = False
    peaks: bool = False
    """Whether instances of one business peak together and come in waves."""


def build_world(trace: Trace, lives: Lives, shape: Shape, seed: int) -> Workload:
    """Return the world; raises WorkloadError."""
    if not trace.sources:
        raise WorkloadError(f"{trace.family}: this part of the trace has no machines")
    if not shape.memory and trace.memory is not None:
        trace = replace(trace, memory=None)
    rates = np.zeros(0)
    if shape.nic:
        trace, rates = with_rates(trace)
    generator = np.random.default_rng([seed, 2026])
    cores = generator.permutation(np.resize(UNLIKE_CORES if shape.unlike else MACHINE_CORES, shape.machines))
    capacity = np.full((len(RESOURCES), shape.machines), np.nan)
    capacity[CPU] = cores
    if trace.memory is not None:
        capacity[MEMORY] = cores * MEMORY_BYTES_PER_CORE
    if shape.nic:
        capacity[NIC] = LINE_BYTES_S
    arrivals = _arrivals(lives, shape, generator)
    drawn, start, life = arrivals
    source = generator.integers(len(trace.sources), size=len(start))
    business = np.zeros(0, np.int64)
    if shape.peaks:
        business = _businesses(start, generator)
        source = generator.integers(len(trace.sources), size=(BUSINESSES, BUSINESS_SOURCES))[
            business, generator.integers(BUSINESS_SOURCES, size=len(start))
        ]
    size = np.zeros((len(RESOURCES), len(start)))
    size[CPU] = lives.cores[drawn] if trace.cores is None else trace.cores[source]
    if trace.memory is not None:
        size[MEMORY] = lives.memory_bytes[drawn] if trace.memory_bytes is None else trace.memory_bytes[source]
        size[MEMORY] = np.maximum(size[MEMORY], 2.0**26)
    if shape.nic:
        size[NIC] = rates[source]
    usage = _usage(trace, source, size, capacity, generator)
    if shape.peaks:
        usage = replace(usage, shift=business * DAY_MINUTES % usage.length)
    wanted = size if shape.asks == "sizes" else _wanted(usage, source, arrivals, shape, generator)
    asked = _asked(wanted, capacity, shape, arrivals)
    return Workload(
        name=trace.family,
        machines=[f"m-{row:04d}" for row in range(shape.machines)],
        capacity=capacity,
        instances=[f"{trace.family}-{number:06d}" for number in range(len(start))],
        asked=asked,
        start=start,
        life=life,
        usage=_scaled(usage, capacity, shape, arrivals, trace.family),
        minutes=shape.days * DAY_MINUTES,
        fill_minutes=DAY_MINUTES if shape.days > 1 else FILL_ONE_DAY_MINUTES,
        seed=seed,
        kinds=[trace.kinds[at] for at in source] if trace.kinds else (),
    )


def _businesses(start: Integers, generator: np.random.Generator) -> Integers:
    """Return [K]: the business of each instance; all instances that ask in the same minute have the same."""
    bursts, burst = np.unique(start, return_inverse=True)
    found: Integers = generator.integers(BUSINESSES, size=len(bursts))[burst]
    crowd = start < FIRST_CROWD_MINUTES
    return np.where(crowd, generator.integers(BUSINESSES, size=len(start)), found)


def _wanted(
    usage: Usage, source: Integers, arrivals: "_Arrivals", shape: Shape, generator: np.random.Generator
) -> Floats:
    """Return [R, K]: the requests that a recommender would choose for each instance, not scaled yet."""
    starts, place = np.unique(usage.base, return_index=True)
    wanted = np.zeros_like(usage.scale)
    for resource in np.flatnonzero(usage.scale.any(axis=1)):
        own = [
            float(np.percentile(usage.values[resource, base : base + int(usage.length[at])], INFORMED_PERCENT))
            for base, at in zip(starts.tolist(), place.tolist(), strict=True)
        ]
        of = np.array(own)[np.searchsorted(starts, usage.base)]
        wanted[resource] = usage.scale[resource] * of * generator.lognormal(0.0, INFORMED_ERROR, len(source))
        wanted[resource] = np.maximum(wanted[resource], 1e-3 * wanted[resource].max(initial=0.0))
    if shape.asks == "misled":
        more = generator.random(int(source.max()) + 1)[source] < MISLED_PART
        turned = arrivals.start >= shape.days * DAY_MINUTES // 2
        wanted *= np.where(more != turned, MISLED_MORE, MISLED_LESS)
    return wanted


class _Arrivals(NamedTuple):
    """[K] The instances in the order in which they ask."""

    row: Integers
    """The row of the life, in the file of lives."""
    start: Integers
    """The minute of its first request."""
    life: Integers

    def ends(self, minutes: int) -> Integers:
        """Return the minute in which each instance ends if it is placed at its first request, at most ``minutes``."""
        found: Integers = np.minimum(self.start + self.life, minutes)
        return found


def _arrivals(lives: Lives, shape: Shape, generator: np.random.Generator) -> _Arrivals:
    minutes = np.clip(lives.life_s * shape.lives / 60, BURST_MINUTES, LIFE_DAYS_MAX * shape.lives * DAY_MINUTES)
    live = shape.machines * shape.per_machine
    crowd = generator.choice(len(minutes), live, p=minutes / minutes.sum())
    crowd_life = minutes[crowd] * generator.random(live)
    bursts = np.arange(0, FIRST_CROWD_MINUTES, BURST_MINUTES)
    crowd_start = np.sort(generator.choice(bursts, live))
    later = np.arange(BURST_MINUTES, shape.days * DAY_MINUTES, BURST_MINUTES)
    mean = live / minutes.mean() * BURST_MINUTES
    start = in_bursts(later, mean, generator)
    drawn = generator.integers(len(minutes), size=len(start))
    rows = np.concatenate([crowd, drawn])
    starts = np.concatenate([crowd_start, start])
    length = np.concatenate([crowd_life + (FIRST_CROWD_MINUTES - crowd_start), minutes[drawn]])
    order = np.argsort(starts, kind="stable")
    return _Arrivals(rows[order], starts[order], np.maximum(np.rint(length[order]), 1).astype(np.int64))


def in_bursts(at: Integers, mean: float, generator: np.random.Generator) -> Integers:
    """Return the minutes in which instances ask: bursts at these times, with so many instances each on average."""
    sizes = generator.poisson(mean * generator.gamma(BURST_SHAPE, 1 / BURST_SHAPE, len(at)))
    found: Integers = np.repeat(at, sizes)
    return found


def _asked(size: Floats, capacity: Floats, shape: Shape, arrivals: _Arrivals) -> Floats:
    """Return [R, K]: sizes scaled so that the requests that are live at one time are this share of the fleet."""
    total_minutes = shape.days * DAY_MINUTES
    asked = np.zeros_like(size)
    stay = np.maximum(arrivals.ends(total_minutes) - np.maximum(arrivals.start, FIRST_CROWD_MINUTES), 0)
    for resource in np.flatnonzero(size.any(axis=1)):
        whole = capacity[resource].sum()
        most = capacity[resource].min() / 2
        factor = 1.0
        for _ in range(_ROUNDS):
            clipped = np.minimum(size[resource] * factor, most)
            mean = (clipped * stay).sum() / (total_minutes - FIRST_CROWD_MINUTES)
            factor *= shape.requests * whole / mean
        asked[resource] = np.round(np.minimum(size[resource] * factor, most), min(DECIMALS[RESOURCES[resource]], 3))
    return asked


def _usage(trace: Trace, source: Integers, size: Floats, capacity: Floats, generator: np.random.Generator) -> Usage:
    """Return the usage of the instances, not scaled yet: each source's days as minutes, one after the other."""
    rows = np.concatenate([np.asarray(days, np.int64) for days in trace.sources])
    values = np.full((len(RESOURCES), len(rows) * DAY_MINUTES), np.nan, np.float32)
    for resource, cells in ((CPU, trace.cpu), (MEMORY, trace.memory), (NIC, trace.nic if size[NIC].any() else None)):
        if cells is not None:
            most = np.inf if resource == NIC else 1.0
            values[resource] = minute_readings(cells[rows], trace.cell_s, generator, most).reshape(-1)
    days = np.array([len(each) for each in trace.sources], np.int64)
    first = np.concatenate([[0], np.cumsum(days)[:-1]])
    highest = np.nanmin(np.where(np.isfinite(capacity), capacity, np.inf), axis=1) / 2
    return Usage(
        values=values,
        base=first[source] * DAY_MINUTES,
        length=days[source] * DAY_MINUTES,
        shift=(generator.integers(1 << 30, size=len(source)) % days[source]) * DAY_MINUTES,
        scale=size.copy(),
        most=np.broadcast_to(highest[:, None], size.shape).copy(),
    )


def _scaled(usage: Usage, capacity: Floats, shape: Shape, arrivals: _Arrivals, name: str) -> Usage:
    """Return the usage scaled to the wanted load by repeated proportion; no instance uses more than ``most``."""
    scale, minutes = usage.scale.copy(), shape.days * DAY_MINUTES
    for resource, load in ((CPU, shape.load), (MEMORY, shape.memory_load), (NIC, shape.nic_load)):
        whole = capacity[resource].sum()
        if not np.isfinite(whole):
            continue
        for _ in range(_ROUNDS):
            total = _total(replace(usage, scale=scale), resource, arrivals, minutes)[FIRST_CROWD_MINUTES:]
            if not total.any():
                raise WorkloadError(f"{name}: no instance uses any {RESOURCES[resource]}")
            growth = min(load * whole / total.mean(), PEAK * whole / total.max())
            scale[resource] *= growth
            if abs(growth - 1) < NEAR:
                break
    return replace(usage, scale=scale)


def _total(usage: Usage, resource: int, arrivals: _Arrivals, minutes: int) -> Floats:
    """Return [minutes]: the demand of all instances."""
    total = np.zeros(minutes)
    for instance, (first, last) in enumerate(
        zip(arrivals.start.tolist(), arrivals.ends(minutes).tolist(), strict=True)
    ):
        total[first:last] += usage.of(instance, resource, first, last)
    return total


def with_roles(world: Workload, share: float) -> Workload:
    """Return the world as clusters of three masters and three replicas, which use this share of what the masters use.

    Each instance is a master, with a replica beside it; both ask for half, and together use what the instance used.
    """
    of, usage = np.repeat(np.arange(len(world.instances)), 2), world.usage
    replica = np.arange(of.size) % 2 == 1
    names = ("master", "replica")
    asked = world.asked[:, of]
    asked[CPU] = np.round(asked[CPU] / 2, 3)
    return replace(
        world,
        instances=[f"{world.instances[k]}-{names[r]}" for k, r in zip(of.tolist(), replica.tolist(), strict=True)],
        asked=asked,
        start=world.start[of],
        life=world.life[of],
        usage=replace(
            usage, base=usage.base[of], length=usage.length[of], shift=usage.shift[of], most=usage.most[:, of],
            scale=usage.scale[:, of] * np.where(replica, share, 1.0) / (1.0 + share),
        ),
        kinds=[world.kinds[k] for k in of.tolist()] if world.kinds else (),
        labels=[{SHARD: str(k)} for k in of.tolist()],
        roles=[(f"c{k // 3}", names[r]) for k, r in zip(of.tolist(), replica.tolist(), strict=True)],
    )  # fmt: skip


def with_batch(world: Workload, share: float, every: int = BURST_MINUTES) -> Workload:
    """Return the world with added batch instances, in bursts, which request this share of the fleet's cores."""
    generator = np.random.default_rng([world.seed, 1948])
    lives = np.minimum(world.life, every) if every >= HOURLY_MINUTES else world.life
    mean = share * np.nansum(world.capacity[CPU]) / (world.asked[CPU] * lives).mean() * every
    start = in_bursts(np.arange(0, world.minutes, every), mean, generator)
    drawn = generator.integers(len(world.instances), size=len(start))
    at = np.concatenate([world.start, start])
    order = np.argsort(at, kind="stable")
    of = np.concatenate([np.arange(len(world.instances)), drawn])[order]
    new = order >= len(world.instances)
    life = np.where(new, lives[of], world.life[of])
    usage, length = world.usage, world.usage.length[of]
    another = generator.integers(1 << 30, size=len(of)) % np.maximum(length // DAY_MINUTES, 1) * DAY_MINUTES
    names = [*world.instances, *(f"batch-{number:06d}" for number in range(len(start)))]
    return replace(
        world,
        instances=[names[at] for at in order],
        asked=world.asked[:, of],
        start=at[order],
        life=life,
        usage=replace(
            usage,
            base=usage.base[of],
            length=length,
            shift=np.where(new, usage.shift[of] + another, usage.shift[of]) % length,
            scale=usage.scale[:, of],
            most=usage.most[:, of],
        ),
        kinds=[world.kinds[at] for at in of] if world.kinds else (),
        classes=np.where(new, "batch", "prod").tolist(),
    )
