"""What the agent costs: CPU and memory of a real agent process that publishes to a real broker.

    python -m tests.bench.bench_agent [--seconds 300] [--away] [--instances 50 | --pods 110 [--real]]

Prints one JSON object; exit code 1 when the agent takes more than 1 % of a core (0.3 % with ``--pods``) or 64 MiB.
``--away``: without broker. ``--instances``: with so many control groups to be read. ``--pods``: with so many pods of
two containers each, and told as in ``ops/kubernetes/agent.yaml``. The groups are files, so what a kernel does to make
up theirs is not in the figure. With ``--real`` they are groups of this kernel, which need root and version 2; it is
printed which controllers these have.
"""

import json
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from ops.stack.servers.local import LocalBroker
from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port
from streams.agent.instances.cgroup import find_root
from streams.worker.topics import TopicSettings, ensure_topics
from tests.bench.pairs import read_options
from tests.streams.agent.instances.tree import Tree

CORE_SHARE_MAX = 0.01
CORE_SHARE_OF_PODS_MAX = 0.003
RSS_BYTES_MAX = 64 * 2**20
WARM_UP_S = 5.0


def groups_of(pods):
    """Return the control groups of pods of two containers, as a kubelet makes them with the driver systemd."""
    found = []
    for number in range(pods):
        kind = "kubepods-burstable" if number % 2 else "kubepods-besteffort"
        name = str(uuid.uuid4()).replace("-", "_")
        pod = f"kubepods.slice/{kind}.slice/{kind}-pod{name}.slice"
        found += [pod, *(f"{pod}/cri-containerd-{uuid.uuid4().hex * 2}.scope" for _ in range(2))]
    return found


@contextmanager
def real_groups(pods):
    """Make the groups of pods in this kernel, below a group of their own."""
    top = find_root(Path("/"))
    if top is None:
        raise SystemExit("--real: no control groups of version 2 are mounted here")
    root = top / f"measured-{uuid.uuid4().hex[:12]}"
    made = [root]
    try:
        root.mkdir()
        for group in groups_of(pods):
            missing = [each for each in (root / group, *(root / group).parents) if not each.exists()]
            for each in reversed(missing):
                each.mkdir()
                made.append(each)
        yield root
    finally:
        for each in reversed(made):
            each.rmdir()


def measure(seconds, *, away, instances=0, pods=0, real=False):
    """Return the share of a core and the memory of an agent over so many seconds, its start not counted."""
    with ExitStack() as stack:
        tree = Tree(Path(stack.enter_context(TemporaryDirectory())) / "machine")
        for number in range(instances):
            tree.group(f"system.slice/redis-{number}.service", cpu_s=number, io="8:0 rbytes=1 wbytes=1\n")
        for number, group in enumerate([] if real else groups_of(pods)):
            tree.group(group, cpu_s=number, io="8:0 rbytes=1 wbytes=1\n")
        root = stack.enter_context(real_groups(pods)) if real else tree.groups
        if away:
            address = f"{LOOPBACK}:{free_port()}"
        else:
            address = stack.enter_context(LocalBroker()).address
            ensure_topics(TopicSettings(kafka=address))
        command = [sys.executable, "-m", "ops.cli.main", "agent", "--kafka", address, "--nic-speed", "10G"]
        command += ["--cgroup-root", str(root), *(["--instance-only", "pods"] if pods else [])]
        agent = psutil.Process(stack.enter_context(LocalProcess("agent", command)).pid)
        time.sleep(WARM_UP_S)
        started_s, before = time.monotonic(), agent.cpu_times()
        rss_bytes = 0
        while time.monotonic() - started_s < seconds:
            time.sleep(1)
            rss_bytes = max(rss_bytes, agent.memory_info().rss)
        after, elapsed_s = agent.cpu_times(), time.monotonic() - started_s
        return {
            "seconds": round(elapsed_s, 1),
            "core_share": round((after.user + after.system - before.user - before.system) / elapsed_s, 5),
            "rss_bytes_max": rss_bytes,
            "start_cpu_s": round(before.user + before.system, 3),
            "threads": agent.num_threads(),
            "instances": instances,
            "pods": pods,
            "controllers": (root / "cgroup.controllers").read_text().split(),
        }


def main():
    given = read_options(__doc__, seconds=300.0, away=False, instances=0, pods=0, real=False)
    found = measure(given.seconds, away=given.away, instances=given.instances, pods=given.pods, real=given.real)
    print(json.dumps(found))
    most = CORE_SHARE_OF_PODS_MAX if given.pods else CORE_SHARE_MAX
    return 0 if found["core_share"] <= most and found["rss_bytes_max"] <= RSS_BYTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
