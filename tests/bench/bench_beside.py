"""What runs beside a scorer, against another checkout: the exporter's page, the extender's verbs, an agent's reading.

    python -m tests.bench.bench_beside /tmp/other [--pairs 8] [--machines 2000] [--only agent bind]

Processor time in interleaved pairs, us: a page, a question of the extender (each with what it reads meanwhile), a
second of an agent in this process. The last column is the ratio to the other checkout (`tests.bench.pairs`).
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schemas.names import Names
from streams.agent import __main__ as agent
from tests.bench.bench_agent import groups_of
from tests.bench.fleet_writer import machine_name
from tests.bench.pairs import Figures, in_pairs, of_tree, told, two_sides
from tests.bench.servers import Rig, own_rig, processor_us
from tests.streams.agent.instances.tree import Tree

_extending = of_tree("tests.support.extender_process", "tests.integration.extender_process")
_exporting = of_tree("tests.integration.observe.test_exporter", "tests.integration.test_exporter")
_kube = of_tree("tests.support.kube_api", "tests.integration.kube_api")
_eventually: Any = of_tree("tests.integration.scorer.test_rpc", "tests.integration.test_rpc").eventually

PODS = 110
READINGS = 200
PAGES = 10
QUESTIONS = 60
WHAT = ("agent", "exporter", "prioritize", "bind")


class Beside:
    """Measures one of `WHAT`."""

    def __init__(self, rig: Rig, machines: int, parts: ExitStack) -> None:
        self._rig, self._turn = rig, 0
        self._machines = [machine_name(row) for row in range(machines)]
        self._api = parts.enter_context(_kube.kube_api())
        self._exporter, self._page = parts.enter_context(_exporting.exporter(rig.url))
        flags = ["--mode", "bind", "--api-url", self._api.url, "--refresh", "1"]
        self._extender, self._verbs, pages = parts.enter_context(_extending.extender(rig.url, Names(), *flags))
        _eventually(lambda: _exporting.get(f"{pages}/ready")[0] == 200)
        self._reading = agent_reading(Path(parts.enter_context(TemporaryDirectory())) / "machine")

    def __call__(self, what: str) -> Figures:
        """Return its processor time, us a time."""
        self._turn += 1
        if what == "agent":
            began_s = time.process_time()
            for _ in range(READINGS):
                self._reading()
            return {"processor": 1e6 * (time.process_time() - began_s) / READINGS}
        measured: Mapping[str, tuple[int, int, Callable[[int], object]]] = {
            "exporter": (self._exporter.pid, PAGES, lambda _: _exporting.get(f"http://127.0.0.1:{self._page}/metrics")),
            "prioritize": (self._extender.pid, QUESTIONS, self._prioritize),
            "bind": (self._extender.pid, QUESTIONS, self._bind),
        }
        pid, times, act = measured[what]
        uids = [f"{self._turn}-{number}" for number in range(times)]
        if what == "bind":
            for uid in uids:
                self._api.put(uid, "", cpu="10m", phase="Pending")
        self._rig.refresh()
        if what != "exporter":
            _eventually(lambda: self._prioritize(-1))
        before = processor_us(pid)
        for number in range(times):
            act(number)
        used = processor_us(pid) - before
        if what == "bind":
            self._rig.release(uids)
        return {"processor": used / times}

    def _prioritize(self, number: int) -> bool:
        body = _extending.pod(f"asked-{self._turn}-{number}", cpu=f"{500 + number}m")
        status, scores = _extending.ask(self._verbs, "prioritize", {"Pod": body, "NodeNames": self._machines})
        assert status == 200
        return bool(scores)

    def _bind(self, number: int) -> None:
        uid = f"{self._turn}-{number}"
        node = self._machines[number % len(self._machines)]
        body = {"PodName": f"pod-{uid}", "PodNamespace": "shop", "PodUID": uid, "Node": node}
        status, said = _extending.ask(self._verbs, "bind", body)
        assert (status, said.get("Error", "")) == (200, "")


def agent_reading(root: Path) -> Callable[[], None]:
    """Return a second of an agent with the pods of a full node, as it reads and tells them; its clock leaps."""
    tree = Tree(root)
    for number, group in enumerate(groups_of(PODS)):
        tree.group(group, cpu_s=number, io="8:0 rbytes=1 wbytes=1\n")
    given = ["--machine", "m", "--nic-speed", "10G", "--cgroup-root", str(tree.groups), "--instance-only", "pods"]
    settings = agent.load_settings(agent.AgentSettings, "agent", [*given, "--kafka", "127.0.0.1:1"], {})
    sampler = agent.build_sampler(settings, agent.read_identity({}))
    meter = agent.Meter(settings.found, agent.MachineTotals().read, sampler.counts.instance_troubles)
    reporter = agent.Reporter(meter, settings.instances_interval_s, sampler.counts)
    at_s = [time.time()]
    sampler.read(at_s[0], at_s[0])
    reporter.start(at_s[0])

    def second() -> None:
        at_s[0] += 1.0
        for sample in sampler.read(at_s[0], at_s[0]):
            agent.encode(reporter.attach(sample, at_s[0]))

    return second


@contextmanager
def beside(machines: int) -> Iterator[Beside]:
    """Yield the measurer, on processes of its own."""
    with ExitStack() as parts:
        rig = parts.enter_context(own_rig(machines))
        yield Beside(rig, machines, parts)


def main() -> int:
    """Measure in pairs and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a source tree of the other commit")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--machines", type=int, default=2_000)
    parser.add_argument("--only", nargs="+", choices=WHAT, default=list(WHAT))
    given = parser.parse_args()
    with two_sides(given.other, "tests.bench.bench_beside:beside", machines=given.machines) as sides:
        found = in_pairs(*sides, [{"what": what} for what in given.only], given.pairs)
    for what, pairs in zip(given.only, found, strict=True):
        print(f"{what}: {told(pairs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
