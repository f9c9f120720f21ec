"""How many bytes a day a recording takes, and what a minute costs: without servers.

    python -m tests.bench.bench_record [--machines 1000] [--instances 15] [--minutes 60]

Each machine sends six samples a minute and reports its instances once; usage wanders as real usage does, by a few
percent from minute to minute. Prints one JSON object. The bytes of the file are those of an hour, times 24.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from ops.record.entry import Entry, Facts, pack
from ops.record.folder import Folder, steps
from ops.record.gathering import Gathering, Names
from schemas.messages.sample import InstanceMeans, InstanceReport, Moments, Sample, encode
from schemas.resources import RESOURCES
from streams.fold.admission import Admission
from tests.bench.pairs import read_options

BEGIN_S = 480_000 * 3600.0


def messages(machines, instances, minute, draw, level):
    level *= draw.uniform(0.97, 1.03, level.shape)
    np.clip(level, 0.05, 4.0, out=level)
    found = []
    for machine in range(machines):
        used = level[machine]
        entries = {
            f"service-{machine * instances + number:06d}": InstanceMeans(
                cpu=float(used[number, 0]), memory=float(used[number, 1] * 2e9), disk=float(used[number, 2] / 50)
            )
            for number in range(instances)
        }
        total = used.sum(axis=0)
        for sample in range(6):
            at = BEGIN_S + 60 * minute + 10 * sample + machine % 10
            cpu = Moments(n=10, mean=float(total[0]), m2=0.5, max=float(total[0] * 1.2), capacity=64.0)
            memory = Moments(n=10, mean=float(total[1] * 2e9), m2=1e15, max=float(total[1] * 2e9), capacity=5e11)
            nic = Moments(n=10, mean=float(total[2] * 1e7), m2=1e9, max=float(total[2] * 2e7), capacity=1e10)
            report = InstanceReport(at=at, interval_s=60.0, entries=entries) if sample == 3 else None
            found.append(
                encode(
                    Sample(
                        v=1, machine=f"machine-{machine:05d}.example.net", boot=1, seq=6 * minute + sample, at=at,
                        interval_s=10.0, cpu=cpu, memory=memory, nic=nic, instance_report=report,
                    )
                )
            )  # fmt: skip
    return found


def main():
    arguments = read_options(__doc__, machines=1_000, instances=15, minutes=60)
    draw = np.random.default_rng(1)
    level = draw.lognormal(-1.0, 1.0, (arguments.machines, arguments.instances, 3))
    gathering, hosts, pairs = Gathering(Admission()), Names(), Names()
    wire, used_s = 0, 0.0
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path), 2**40)
        folder.take()
        for minute in range(arguments.minutes):
            raw = messages(arguments.machines, arguments.instances, minute, draw, level)
            wire += sum(map(len, raw))
            keys = [f"machine-{number // 6:05d}.example.net".encode() for number in range(len(raw))]
            now_s = BEGIN_S + 60 * minute + 59
            began_s = time.process_time()
            gathering.take(raw, [now_s] * len(raw), keys)
            load, usage = gathering.figures(hosts, pairs, now_s)
            first = folder.begins(now_s)
            folder.write(
                Entry(
                    at=now_s, resources=list(RESOURCES) if first else [], full=first, pairs=pairs.take(),
                    machines=hosts.take(), usage=pack(usage), load=pack(load),
                    facts={name.decode(): Facts({"cpu": 64.0}) for name in dict.fromkeys(keys)} if first else {},
                )
            )  # fmt: skip
            used_s += time.process_time() - began_s
        folder.release()
        size = folder.size()
        began_s = time.process_time()
        figures = sum(len(step.usage) + len(step.load) for step in steps(Path(path), 0, 1e11))
        read_s = time.process_time() - began_s
    per_day = size / arguments.minutes * 1_440
    print(
        json.dumps(
            {
                "machines": arguments.machines,
                "instances": arguments.machines * arguments.instances,
                "bytes_a_day": round(per_day),
                "bytes_a_figure": round(size / max(figures, 1), 2),
                "of_the_wire": round(size / wire, 4),
                "cpu_s_a_minute": round(used_s / arguments.minutes, 3),
                "reading_a_day_cpu_s": round(read_s / arguments.minutes * 1_440, 1),
                "refused": gathering.take_refused(),
            },
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
