"""What a page of the exporter costs, with nothing around it: from the state to the bytes, and to gzip.

    python -m tests.bench.bench_exporter [--rounds 5] [--prometheus]

One process, one core, random fleets. Each round makes the page of a new snapshot, as after a flush of the stream app;
prints one JSON object, exit code 1 when a bound is missed. With ``--prometheus`` a real Prometheus (on the PATH)
scrapes the page of each fleet, too: samples, scrape duration, resident memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import psutil

from ops.exporter import fleet
from ops.exporter.exposition import page
from ops.exporter.machines import MachineFamilies
from ops.exporter.pages import GZIP_LEVEL
from ops.exporter.selection import Selection
from ops.exporter.settings import Statistic
from ops.exporter.state import State
from ops.stack.servers.process import LocalProcess, free_port
from ops.stack.servers.prometheus import LocalPrometheus
from ops.stack.servers.valkey import LocalValkey
from ops.stack.stack import listens
from schemas.names import Names
from schemas.rpc.request import read_request
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, WindowTable, decode_table, encode_table
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.tables import Tables
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.usages import Usages, UsageTable
from scorer.wire import Wire
from tests.bench.bench_decision import NOW_S, fleet_table
from tests.grafana.prometheus import Prometheus
from tests.window_tables import publish

ALL = Statistic.__args__
DEFAULT = Selection().statistics
CASES = (
    # machines, windows, statistics, seconds at most, instances whose usage is reported, single ones shown
    (500, (), DEFAULT, None, 0, 0),
    (5_000, (), DEFAULT, 0.25, 0, 0),
    (5_000, (), DEFAULT, 0.25, 100_000, 0),
    (5_000, (), DEFAULT, None, 100_000, 1_000),
    (5_000, (), ALL, 0.6, 0, 0),
    (50_000, (300,), DEFAULT, 1.5, 0, 0),
)


def reports(names: list[str], instances: int) -> tuple[Usages, LedgerView]:
    """Return the usage of instances spread over machines, and the ledger that has them."""
    pairs = [pair_name(names[number % len(names)], f"instance-{number}") for number in range(instances)]
    pairs += [pair_name(name, "") for name in names]
    columns = {name: np.full((*axes, len(pairs)), 1, kind) for name, (kind, axes, _) in COLUMNS.items()}
    columns["at"][:] = NOW_S - 5
    table = encode_table(Header(machines=len(pairs), windows_s=(), columns=[]), columns, "\n".join(pairs).encode())
    usages = Usages([UsageTable(decode_table(table))])
    _ = usages.columns
    record = instance_of(read_request({"id": "instance-0", "cpu": 1}), names[0], NOW_S - 9_000)
    live = (
        copy_with(record, id=f"instance-{number}", machine=names[number % len(names)]) for number in range(instances)
    )
    return usages, LedgerView(live)


def measure(
    machines: int, windows_s: tuple[int, ...], statistics: tuple[str, ...], rounds: int, instances: int, shown: int
) -> dict[str, Any]:
    """Return median times in s, and the page's size."""
    selection = Selection(
        windows_s=windows_s,
        statistics=statistics,
        per_machine="always",
        probe=read_request({"cpu": 1, "memory": "1G"}),
        top_instances=shown,
    )
    machine_families, profile = MachineFamilies(selection), load_profiles().choose()
    usages, ledger = reports(fleet_table(machines, 0).machines, instances) if instances else (None, LedgerView())
    kept = Tables()
    snapshot, facts, operator = None, {}, {}
    made, fleet_alone, squeezed = [], [], []
    body = b""
    for seed in range(rounds):
        table = fleet_table(machines, seed)
        snapshot = build_snapshot([table], facts, operator, previous=snapshot).with_use(usages=usages)
        begin = time.perf_counter()
        state = State(snapshot, ledger, profile, NOW_S, tables=kept)
        families = list(fleet.families(state, selection))
        middle = time.perf_counter()
        body = page([*families, *machine_families.families(state)])
        end = time.perf_counter()
        packed = zlib.compress(body, GZIP_LEVEL, wbits=31)
        squeezed.append(time.perf_counter() - end)
        made.append(end - begin)
        fleet_alone.append(middle - begin)
    return {
        "machines": machines, "windows_s": windows_s or "all", "statistics": len(statistics),
        "instances": instances, "instances_shown": shown,
        "series": body.count(b"\n") - 2 * body.count(b"# TYPE"), "bytes": len(body), "gzip_bytes": len(packed),
        "made_s": round(median(made), 4), "best_s": round(min(made), 4), "fleet_s": round(median(fleet_alone), 4),
        "gzip_s": round(median(squeezed), 4),
    }  # fmt: skip


def scraped(machines: int, windows_s: tuple[int, ...], seconds: float = 60) -> dict[str, Any]:
    """Return what a real Prometheus says of a real exporter before a real server, whose windows change meanwhile."""
    table = encode_again(fleet_table(machines), time.time())
    port, flags = free_port(), ["--per-machine", "always", "--timeout-s", "60"]
    if windows_s:
        flags += ["--windows", ",".join(map(str, windows_s))]
    with tempfile.TemporaryDirectory() as name, LocalValkey(directory=Path(name) / "valkey") as valkey:
        command = [
            sys.executable,
            "-P",
            "-m",
            "ops.cli.main",
            "exporter",
            "--redis-url",
            valkey.url,
            "--metrics-port",
            str(port),
        ]
        wire = Wire({"url": valkey.url})
        publish(wire, Names(), [table])
        server = LocalPrometheus({"exporter": port}, port=free_port(), interval_s=15, directory=Path(name))
        with LocalProcess("exporter", [*command, *flags], ready=lambda: listens(port)) as exporter, server:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                publish(wire, Names(), [encode_again(fleet_table(machines, int(end - time.monotonic())), time.time())])
                time.sleep(5)
            prometheus = Prometheus(server.url)

            def said(query: str) -> float:
                found = prometheus.at(query, time.time())
                return round(found[0][1][0][1], 4) if found else -1

            return {
                "machines": machines,
                "windows_s": windows_s or "all",
                "up": said("up"),
                "samples_scraped": said("scrape_samples_scraped"),
                "scrape_s": said("quantile_over_time(0.5, scrape_duration_seconds[2m])"),
                "scrape_s_max": said("max_over_time(scrape_duration_seconds[2m])"),
                "read_s": said('windward_exporter_page_duration_seconds{step="read"}'),
                "made_s": said('windward_exporter_page_duration_seconds{step="make"}'),
                "topk_s": timed(lambda: said("topk(3, windward_machine_risk_ratio)")),
                "prometheus_rss_mb": psutil.Process(server.pid).memory_info().rss >> 20,
                "exporter_rss_mb": psutil.Process(exporter.pid).memory_info().rss >> 20,
            }


def timed(action: Callable[[], object]) -> float:
    """Return what it takes."""
    begin = time.perf_counter()
    action()
    return round(time.perf_counter() - begin, 3)


def encode_again(table: WindowTable, at: float) -> bytes:
    """Return the table as a value whose samples are fresh."""
    columns = dict(table.columns) | {name: np.full(table.header.machines, at) for name in ("at", "end")}
    return encode_table(msgspec.structs.replace(table.header, written_at=at), columns, table.names)


def main(argv: list[str]) -> int:
    """Measure every case; 1 when one takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prometheus", action="store_true")
    options = parser.parse_args(argv)
    results, missed = [], False
    for machines, windows_s, statistics, bound_s, instances, shown in CASES:
        result = measure(machines, windows_s, statistics, options.rounds, instances, shown) | {"bound_s": bound_s}
        missed |= bound_s is not None and result["made_s"] > bound_s
        results.append(result)
        print(json.dumps(result), file=sys.stderr, flush=True)
    scrapes = [scraped(5_000, ()), scraped(50_000, (300,), 90)] if options.prometheus else []
    print(json.dumps({"cases": results, "scrapes": scrapes, "missed": missed}))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
