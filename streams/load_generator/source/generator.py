"""A simulated fleet: machines of several sizes with a daily rhythm, slow drift, bursts, noise, and memory that follows.

Every value is a function of (seed, machine, time) and of nothing else. So a fleet that is restarted, or has one more
machine, has the same values. In utilization, 0 to 1:

    slow(t)   = base + rhythm · cos(2π (t - peak) / day) + drift over half an hour and over five minutes
    cpu(t)    = slow + burst + noise of each second
    memory(t) = base + half of what slow is away from its base + drift over hours + a little of the burst
    nic(t)    = a share of the CPU's, with its own noise of each second, + its part of the burst
    disk(t)   = another share of the CPU's, with its own noise of each second, + its part of the burst

Some machines are idle, some are close to starved, most are between. A burst lasts 2 to 40 s, so that the mean of an
interval hides it and its maximum does not.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import CPU, MEMORY, NIC, RESOURCES
from streams.load_generator.source.source import Float, Machines, by_resource

Unsigned = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(value: Unsigned) -> Unsigned:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class Noise:
    """The noise of some machines. ``rows`` [M] numbers them; results have the machine as last axis.

    Each value is a hash of (seed, stream, machine, time): SplitMix64's finalizer (Steele, Lea and Flood 2014).
    """

    def __init__(self, seed: int, rows: NDArray[np.int64]) -> None:
        start = _mix(np.asarray([seed % 2**64], np.uint64) + _GOLDEN)
        self._keys = _mix(start + (rows.astype(np.uint64) + np.uint64(1)) * _GOLDEN)

    def _hash(self, stream: int, count: NDArray[Any]) -> Unsigned:
        """Return the hash of one stream at whole numbers ``count``, broadcast against [M]."""
        stream_key = np.uint64((stream * 0xD1342543DE82EF95) % 2**64)
        return _mix(_mix(self._keys + stream_key) + count.astype(np.int64).astype(np.uint64) * _GOLDEN)

    def uniform(self, stream: int, count: NDArray[Any] | int = 0) -> Float:
        return (self._hash(stream, np.asarray(count)) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self, stream: int, count: NDArray[Any]) -> Float:
        """Return roughly normal values (a sum of four uniform ones) of mean 0 and standard deviation 1, within ±3.5."""
        bits = self._hash(stream, count)
        low = np.uint64(0xFFFF)
        total = (
            (bits & low) + ((bits >> np.uint64(16)) & low) + ((bits >> np.uint64(32)) & low) + (bits >> np.uint64(48))
        )
        centred: Float = total.astype(np.float64) / 65_536 - 2 + 2 / 65_536
        return centred * math.sqrt(3)

    def smooth(self, stream: int, times_s: Float, period_s: float) -> Float:
        """Return noise with mean 0 and standard deviation about 1 that changes over ``period_s``."""
        position = times_s / period_s
        before = np.floor(position)
        share = position - before
        share *= share * (3 - 2 * share)
        left, right = self.normal(stream, before), self.normal(stream, before + 1)
        mixed: Float = (left * (1 - share) + right * share) / np.sqrt((1 - share) ** 2 + share**2)
        return mixed


DISK = RESOURCES.index("disk")
DAY_S = 86_400.0
BURST_EVERY_S = 300.0
"""At most one burst starts in each stretch of this length."""

CORES = np.array([8.0, 16.0, 32.0, 48.0, 64.0, 96.0])
MEMORY_PER_CORE = np.array([2.0, 4.0, 8.0]) * 2**30
LINKS = np.array([1e9, 10e9, 25e9]) / 8
ZONES = 3
RACK_MACHINES = 40

# One stream of noise for each thing drawn.
(_CORES, _MEMORY, _LINK, _KIND, _BASE, _RHYTHM, _PEAK, _RESTLESS, _MEMORY_BASE, _NIC_SHARE) = range(10)
(_HALF_HOUR, _FIVE_MINUTES, _SECOND, _HOURS, _NIC_SECOND, _BURST, _BURST_START, _BURST_LENGTH, _BURST_HEIGHT) = range(
    10, 19
)
_DISK_SHARE, _DISK_SECOND = 19, 20


@dataclass(frozen=True)
class Habits:
    """The parameters of each machine, each [M]."""

    base: Float
    rhythm: Float
    peak_s: Float
    restless: Float
    """0 to 1: how noisy, and how likely a burst is."""
    memory_base: Float
    nic_share: Float
    disk_share: Float


class Generator:
    """A simulated fleet of ``count`` machines, named ``sim-`` and a number."""

    def __init__(self, count: int, seed: int) -> None:
        self._seed = seed
        noise = Noise(seed, np.arange(count))
        cores = _pick(CORES, noise.uniform(_CORES))
        memory = cores * _pick(MEMORY_PER_CORE, noise.uniform(_MEMORY))
        self.machines = Machines(
            names=[f"sim-{number:05d}" for number in range(1, count + 1)],
            labels=[
                {"zone": f"zone-{number % ZONES + 1}", "rack": f"rack-{number // RACK_MACHINES + 1:03d}"}
                for number in range(count)
            ],
            capacity=by_resource(
                {CPU: cores, MEMORY: memory, NIC: _pick(LINKS, noise.uniform(_LINK)), DISK: np.ones(count)}
            ),
        )
        self._habits = _habits(noise)

    def usage(self, rows: NDArray[np.int64], times_s: Float) -> Float:
        """Return usage in the resources' units, [R, K, m]."""
        noise = Noise(self._seed, rows)
        habits = Habits(*(getattr(self._habits, name)[rows] for name in Habits.__dataclass_fields__))
        middle_s = times_s[times_s.shape[0] // 2]
        slow = _slow(noise, habits, middle_s)
        burst = _burst(noise, habits, times_s)
        second = np.floor(times_s)
        jitter = (0.01 + 0.06 * habits.restless * np.sqrt(slow)) * noise.normal(_SECOND, second)
        cpu = slow + burst + jitter
        memory = (
            habits.memory_base
            + 0.5 * (slow - habits.base)
            + 0.03 * noise.smooth(_HOURS, middle_s, 7_200.0)
            + 0.02 * burst
            + 0.001 * noise.normal(_HOURS, second)
        )
        nic = habits.nic_share * (slow * (1 + 0.25 * noise.normal(_NIC_SECOND, second)) + 0.8 * burst)
        disk = habits.disk_share * (slow * (1 + 0.4 * noise.normal(_DISK_SECOND, second)) + 0.5 * burst)
        utilization = by_resource({CPU: cpu, MEMORY: memory, NIC: nic, DISK: disk})
        np.clip(utilization, 0.001, 1.0, out=utilization)
        utilization *= self.machines.capacity[:, None, rows]
        return utilization


def _pick(choices: Float, share: Float) -> Float:
    """Return the choice into whose share each number in [0, 1) falls."""
    return choices[(share * len(choices)).astype(np.int64)]


def _habits(noise: Noise) -> Habits:
    """Draw the habits: a quarter of the machines idle, a tenth close to starved."""
    kind, within = noise.uniform(_KIND), noise.uniform(_BASE)
    base = np.select(
        [kind < 0.25, kind > 0.9],
        [0.02 + 0.08 * within, 0.60 + 0.20 * within],
        0.12 + 0.38 * within,
    )
    return Habits(
        base=base,
        rhythm=base * (0.15 + 0.45 * noise.uniform(_RHYTHM)),
        # Most peak in the early afternoon, one in ten at night.
        peak_s=(14 + 4 * (noise.uniform(_PEAK) - 0.5) + 12 * (noise.uniform(_PEAK, 1) > 0.9)) * 3_600.0,
        restless=noise.uniform(_RESTLESS) ** 2,
        memory_base=0.15 + 0.55 * noise.uniform(_MEMORY_BASE),
        nic_share=0.05 + 0.6 * noise.uniform(_NIC_SHARE) ** 2,
        # Most use little of their disks; a few are close to the disk's capacity at their busiest.
        disk_share=0.02 + 1.2 * noise.uniform(_DISK_SHARE) ** 4,
    )


def _slow(noise: Noise, habits: Habits, time_s: Float) -> Float:
    """Return the part of the CPU's utilization that is constant within an interval, [m]."""
    rhythm = habits.rhythm * np.cos(2 * np.pi * (time_s - habits.peak_s) / DAY_S)
    drift = 0.6 * noise.smooth(_HALF_HOUR, time_s, 1_800.0) + 0.4 * noise.smooth(_FIVE_MINUTES, time_s, 300.0)
    return np.clip(habits.base + rhythm + 0.25 * habits.base * drift, 0.005, 0.97)


def _burst(noise: Noise, habits: Habits, times_s: Float) -> Float:
    """Return the contribution of bursts to the CPU's utilization, [K, m]: from this stretch or the last."""
    total = np.zeros_like(times_s)
    latest = np.floor(times_s / BURST_EVERY_S)
    for stretch in (latest, latest - 1):
        happens = noise.uniform(_BURST, stretch) < 0.02 + 0.4 * habits.restless
        starts_s = (stretch + noise.uniform(_BURST_START, stretch)) * BURST_EVERY_S
        lasts_s = 2 + 38 * noise.uniform(_BURST_LENGTH, stretch) ** 3
        height = 0.15 + 0.6 * noise.uniform(_BURST_HEIGHT, stretch)
        total += np.where(happens & (times_s >= starts_s) & (times_s < starts_s + lasts_s), height, 0.0)
    return total
