"""What more machines cost: measures fleets of several sizes and writes the tables and pictures of ``docs/growth.md``.

    make growth
    python -m tests.bench.bench_growth [--machines 1000 5000 20000 50000 100000] [--turns 5] [--probes 200]

Of each size, in a process of its own: the mixed load on one scorer (`tests.bench.bench_mixed`), what a sample, a flush,
a decision and an instance of a batch cost the process that does it, memory, and the age of a sample in an answer
(`tests.bench.bench_age`; with ``--fresh-max 0`` of no fleet). Beside them floors, in the same run: a bare echo over two
lists, a bare pass of numpy over the columns, a Faust worker that does nothing (`tests.bench.stream_worker`). Medians of
the turns. The part of the page between its two marks is written anew; the rest of it is written by hand.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
import redis

from ops.docs.shapes import COLOURS, svg
from ops.stack.servers.local import LocalBroker, LocalValkey
from tests.bench.bench_age import measure as measure_ages
from tests.bench.bench_batches import batch
from tests.bench.bench_mixed import MixedLoad, decisions_alone, echo_on
from tests.bench.fleet_tables import bare_pass
from tests.bench.fleet_writer import WindowWriter
from tests.bench.pairs import HERE
from tests.bench.servers import own_rig
from tests.bench.stream_worker import publish, run_worker

PAGE = HERE / "docs" / "growth.md"
BEGIN, END = "<!-- measured: written by make growth -->\n", "<!-- end of what was measured -->\n"
SIZES = (1_000, 5_000, 20_000, 50_000, 100_000)
SECONDS = 4.0
SAMPLES = 500
DECISIONS = 100
BATCH = 500
INTERVAL_S = 10
NULL_MESSAGES, NULL_MACHINES = 100_000, 1_000


class Column(NamedTuple):
    heading: str
    figure: str
    form: str = ",.0f"
    scale: float = 1.0


class Picture(NamedTuple):
    name: str
    caption: str
    lines: tuple[Column, ...]


MIXED = (
    Column("placements/s", "placements/s"),
    Column("p50, ms", "p50", ",.1f", 1e-3),
    Column("p99, ms", "p99", ",.1f", 1e-3),
    Column("echo p50, ms", "echo p50", ",.1f", 1e-3),
    Column("echo p99, ms", "echo p99", ",.1f", 1e-3),
    Column("scorer, µs a placement", "scorer"),
    Column("server, µs a placement", "server"),
    Column("samples/s", "samples a second"),
)
SCORER = (
    Column("decision, µs", "decision"),
    Column("bare pass, µs", "bare pass"),
    Column("reading a flush, ms", "flush", ",.1f", 1e-3),
    Column("identical, µs", "identical"),
    Column("of 64 sizes, µs", "64 sizes"),
    Column("all different, µs", "all different"),
    Column("memory, MB", "scorer memory", ",.0f", 1e-6),
)
WORKER = (
    Column("folding, µs a sample", "fold", ",.1f"),
    Column("writing, µs a sample", "write", ",.1f"),
    Column("a machine in the worker, kB", "worker bytes", ",.1f", 1e-3),
    Column("a machine in Redis, kB", "redis bytes", ",.1f", 1e-3),
    Column("age p50, ms", "age p50"),
    Column("age p99, ms", "age p99"),
    Column("longest, ms", "age longest"),
)


def measure(machines, turns, probes):
    found = {}
    with own_rig(machines) as rig, echo_on(rig.url):
        load = MixedLoad(rig)
        found |= medians([load("mixed", SECONDS) for _ in range(turns + 1)][1:])
    before = psutil.Process().memory_info().rss
    worker = WindowWriter(machines, time.time(), whole=True)
    found["worker bytes"] = (psutil.Process().memory_info().rss - before) / machines
    del worker
    with decisions_alone(machines, whole=True) as alone:
        with redis.Redis.from_url(alone.url, socket_timeout=60) as client:
            found["redis bytes"] = sum(client.memory_usage(key, samples=0) for key in client.scan_iter()) / machines
        found |= medians([alone("mixed", DECISIONS) for _ in range(turns + 1)][1:])
        found |= medians([alone.fold(SAMPLES) for _ in range(turns + 1)][1:])
        for kind in ("identical", "64 sizes", "all different"):
            asked = [batch(kind, f"{kind}-{turn}", BATCH) for turn in range(turns)]
            found[kind] = 1e6 * median(alone.place_s(each) for each in asked) / BATCH
        bare, times = bare_pass(alone.snapshot), []
        for _ in range(50):
            started = time.process_time()
            bare()
            times.append(time.process_time() - started)
        found["bare pass"] = 1e6 * median(times)
    if probes:
        ages = measure_ages(machines, INTERVAL_S, probes)
        found |= {"age p50": ages["p50 ms"], "age p99": ages["p99 ms"], "age longest": ages["max ms"]}
    return {name: float(value) for name, value in found.items()}


def medians(turns):
    return {name: median(one[name] for one in turns) for name in turns[0]}


def in_own_process(machines, turns, probes):
    """Return the same, measured in a process of its own: memory that another size took is not counted."""
    command = [sys.executable, "-m", "tests.bench.bench_growth", "--turns", str(turns), "--probes", str(probes)]
    done = subprocess.run([*command, "--one", str(machines)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def workers():
    """Return messages a second and processor time a message of the worker, and of one that does nothing."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBroker() as broker,
        LocalValkey(directory=Path(folder)) as valkey,
    ):
        publish(broker.address, "bench", NULL_MACHINES, NULL_MESSAGES)
        for kind in ("null", "fold"):
            told = run_worker(kind, broker.address, valkey.url, "bench", NULL_MESSAGES)
            found[kind] = {
                "messages/s": told["messages"] / told["seconds"],
                "processor": 1e6 * told["cpu_seconds"] / told["messages"],
            }
    return found


def table(sizes, columns):
    lines = [
        "| machines | " + " | ".join(column.heading for column in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for machines, figures in sizes.items():
        cells = [
            format(figures[column.figure] * column.scale, column.form) if column.figure in figures else "-"
            for column in columns
        ]
        lines.append(f"| {machines:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


PICTURES = (
    Picture(
        "growth_placing",
        "Waiting for a placement of the mixed load, beside a bare echo under it",
        (
            Column("place p50, ms", "p50", scale=1e-3),
            Column("place p99, ms", "p99", scale=1e-3),
            Column("echo p50, ms, floor", "echo p50", scale=1e-3),
            Column("echo p99, ms, floor", "echo p99", scale=1e-3),
        ),
    ),
    Picture(
        "growth_decision",
        "Processor time of the scorer",
        (
            Column("a decision, µs", "decision"),
            Column("an instance of a batch of identical ones, µs", "identical"),
            Column("reading a flush, µs", "flush"),
            Column("bare pass of numpy, µs, floor", "bare pass"),
        ),
    ),
    Picture(
        "growth_worker",
        "Processor time of the worker",
        (
            Column("folding a sample, µs", "fold"),
            Column("writing it, µs", "write"),
            Column("a worker that does nothing, µs, floor", "null"),
        ),
    ),
    Picture(
        "growth_age",
        "Age of a sample when an answer shows it",
        (Column("p50, ms", "age p50"), Column("p99, ms", "age p99"), Column("longest, ms", "age longest")),
    ),
)


def draw(axes, picture, sizes):
    """Draw each figure over the sizes, both axes logarithmic; floors are dashed."""
    for colour, line in zip(COLOURS, picture.lines, strict=False):
        known = {size: figures[line.figure] * line.scale for size, figures in sizes.items() if line.figure in figures}
        style = "--" if line.heading.endswith("floor") else "-"
        axes.plot([*known], [*known.values()], style, marker="o", markersize=3, color=colour, label=line.heading)
    axes.set(xscale="log", yscale="log", xlabel="machines")
    axes.grid(visible=True)
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def measured(sizes, of_workers, load, folder):
    """Return the text between the marks, and write its pictures; ``load``: the system's load when it began."""
    null, fold = of_workers["null"], of_workers["fold"]
    beside = {size: figures | {"null": null["processor"]} for size, figures in sizes.items()}
    shown = {}
    for picture in PICTURES:
        (folder / f"{picture.name}.svg").write_text(svg(partial(draw, picture=picture, sizes=beside)))
        shown[picture.name] = f"![{picture.caption}]({picture.name}.svg)\n"
    cores = len(os.sched_getaffinity(0))
    busy = (
        f"\n**Other work had a load of {load:.1f} on these cores when it began: times are too long.**\n"
        if load > 1
        else ""
    )
    return f"""
Measured on {cores} cores, which clients, server, scorer, writer of windows and broker share; medians. The mixed load is
of 64 sizes. Three in four requests have some of cluster and role, port, labels, selector and class, drawn from 5,000
clusters. Eight clients ask one scorer; of ten instances one is confirmed, resized, moved and released. A tenth of the
machines send a sample each second. A bare echo over two lists of the same server is asked meanwhile.
{busy}
{table(sizes, MIXED)}
{shown["growth_placing"]}
The scorer alone, without its loop and the clients: a decision of that load, beside one bare pass of numpy over the
columns that scores read; reading a flush; an instance of a batch of {BATCH}. Its memory is that after the mixed load.

{table(sizes, SCORER)}
{shown["growth_decision"]}
The worker, for {SAMPLES} samples that come at once; memory, with a full hour; the age of a sample when an answer shows
it, while each machine sends one in {INTERVAL_S} s through a broker:

{table(sizes, WORKER)}
{shown["growth_worker"]}
{shown["growth_age"]}
One worker takes in {fold["messages/s"]:,.0f} messages a second of a backlog, and a Faust worker that does nothing with
them {null["messages/s"]:,.0f}: {fold["processor"]:.0f} and {null["processor"]:.0f} µs of processor time a message.

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=SIZES)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--probes", type=int, default=200)
    parser.add_argument("--fresh-max", type=int, default=20_000, help="largest fleet whose samples go through a broker")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.turns, given.probes)))
        return 0
    load, sizes = os.getloadavg()[0], {}
    for machines in given.machines:
        probes = given.probes if machines <= given.fresh_max else 0
        sizes[machines] = in_own_process(machines, given.turns, probes)
        print(machines, sizes[machines], flush=True)
    text = measured(sizes, workers(), load, PAGE.parent)
    page, count = re.subn(f"(?s){BEGIN}.*{END}", lambda _: BEGIN + text + END, PAGE.read_text())
    assert count == 1, f"{PAGE} has no marks"
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
