"""The real node_exporter, scraped by ``windward bridge`` and by a real Prometheus, beside our agent on one machine."""

import multiprocessing
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest

from ops.stack.servers.process import LocalProcess
from tests.conftest import free_port
from tests.support.publishing import make_topics, process, receive, samples

EXPORTER, PROMETHEUS = (shutil.which(name) or "" for name in ("prometheus-node-exporter", "prometheus"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (EXPORTER and PROMETHEUS),
        reason="NOT RUN: no node_exporter or Prometheus on the PATH (Debian: prometheus-node-exporter, prometheus)",
    ),
]

STRETCH_S = 60.0
NEAR = 0.02
HELD_BYTES = 2 << 30
NIC, ITS_PEER = f"ww{os.getpid()}", f"ww{os.getpid()}p"
INDEX = 100_000 + os.getpid()
"""A link of its own, since a machine's real one may have no speed, and what passes it is not the test's.

Named by the process: a run that is killed leaves its link behind, and two runs may share a machine."""
ADDRESS, SOMEBODY = "198.51.100.1", "198.51.100.2"
SENT_BYTES, SENT_AT_ONCE, SENT_EVERY_S = 1_400, 20, 0.01
FIRST = (shutil.which("nice") or "/usr/bin/nice", "-n", "-10")
"""Where it may be, what measures and what sends goes before other tests: a reading that is late, or a pause of the
sender at an end of the stretch, is no error of a mean, but looks like one of some per cent."""
NO_LINK = os.geteuid() != 0 or shutil.which("ip") is None


def busy():
    held = bytearray(os.urandom(4096)) * (HELD_BYTES // 4096)
    while held:
        pass


def sender(nic):
    """Send 2.8 MB a second through a link to somebody who does not listen, evenly."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to_somebody:
        to_somebody.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, nic.encode())
        due_s = time.monotonic()
        while True:
            for _ in range(SENT_AT_ONCE):
                to_somebody.sendto(bytes(SENT_BYTES), (SOMEBODY, 9))
            due_s += SENT_EVERY_S
            time.sleep(max(due_s - time.monotonic(), 0.0))


@contextmanager
def load():
    """Have something to measure that is larger than what else runs here."""
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=busy, daemon=True)]
    if not NO_LINK:
        running.append(context.Process(target=sender, args=(NIC,), daemon=True))
    for each in running:
        each.start()
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.join()


@contextmanager
def link():
    """Have a link with an address, where this process may make one."""
    if NO_LINK:
        yield
        return

    def ip(*words):
        subprocess.run(["ip", *words], check=True, timeout=10)

    # The peer has a namespace of its own and the same number there: a page says that the link lies on no other one.
    same = ("index", str(INDEX))
    ip("netns", "add", ITS_PEER)
    try:
        ip("link", "add", "name", NIC, *same, "type", "veth", "peer", "name", ITS_PEER, *same, "netns", ITS_PEER)
        ip("-n", ITS_PEER, "link", "set", ITS_PEER, "up")
        ip("link", "set", NIC, "up")
        ip("address", "add", f"{ADDRESS}/24", "dev", NIC)
        ip("neighbour", "add", SOMEBODY, "lladdr", "02:00:00:00:00:02", "dev", NIC)
        yield
    finally:
        ip("netns", "delete", ITS_PEER)


def mean_of(found, resource, begin_s, end_s):
    """Return the mean over a stretch: each sample counts by the part of its interval that lies in it."""
    weight = total = 0.0
    for one in found:
        part = max(min(one.at, end_s) - max(one.at - one.interval_s, begin_s), 0.0)
        moments = getattr(one, resource)
        if moments is not None and moments.n:
            weight, total = weight + part, total + part * moments.mean
    assert weight > 0.9 * (end_s - begin_s), (resource, weight)
    return total / weight


def test_means_are_those_of_our_agent(broker, names, tmp_path):
    """Over a minute, of the pages themselves and of what Prometheus keeps: CPU, memory and network within 2 %.

    Both are scraped every two seconds, as often as may be: the machine is not the test's alone.
    """
    make_topics(broker, names)
    ports = free_port(), free_port()
    exporter = LocalProcess(
        "exporter", [*FIRST, EXPORTER, f"--web.listen-address=127.0.0.1:{ports[0]}"], log=tmp_path / "exporter.log"
    )
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(
        "global: {scrape_interval: 2s}\nscrape_configs:\n"
        f"  - {{job_name: node, static_configs: [{{targets: ['127.0.0.1:{ports[0]}'], labels: {{host: kept}}}}]}}\n"
    )
    prometheus = LocalProcess(
        "prometheus",
        [
            *FIRST, PROMETHEUS, f"--config.file={configuration}", f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{ports[1]}",
        ],
        log=tmp_path / "prometheus.log",
    )  # fmt: skip
    (tmp_path / "pages").mkdir()
    (tmp_path / "kept").mkdir()
    nic = ("--nic-include", NIC, "--nic-speed", "1G"), ("--excluded", f"(?!{NIC}$).*", "--nic-speed", "1G")
    agent = process("agent", broker, names, tmp_path, "--machine", "ours", *nic[0])
    pages = process(
        "bridge", broker, names, tmp_path / "pages", "--target", f"pages=127.0.0.1:{ports[0]}", "--every", "2s", *nic[1]
    )
    kept = process(
        "bridge", broker, names, tmp_path / "kept", "--prometheus", f"http://127.0.0.1:{ports[1]}",
        "--series", 'job="node"', "--machine-key", "host", "--every", "2s", *nic[1],
    )  # fmt: skip
    for one in (pages, kept):
        one.command.insert(one.command.index("bridge") + 1, "node-exporter")
    for one in (agent, pages, kept):
        one.command[:0] = FIRST
    with link(), load(), exporter, prometheus, agent, pages, kept:

        def of(received, machine):
            return [one for one in samples(received) if one.machine == machine]

        def begin(received):
            firsts = [of(received, machine)[0] for machine in ("ours", "pages", "kept")]
            return max(one.at - one.interval_s for one in firsts)

        def enough(received):
            if not all(of(received, machine) for machine in ("ours", "pages", "kept")):
                return False
            end_s = begin(received) + STRETCH_S
            return all(of(received, machine)[-1].at >= end_s for machine in ("ours", "pages", "kept"))

        received = receive(broker, names, enough, deadline_s=STRETCH_S + 90)
        begin_s = begin(received)
        for machine in ("pages", "kept"):
            for resource in ("cpu", "memory") if NO_LINK else ("cpu", "memory", "nic"):
                theirs, ours = (
                    mean_of(of(received, one), resource, begin_s, begin_s + STRETCH_S) for one in (machine, "ours")
                )
                assert theirs == pytest.approx(ours, rel=NEAR), (machine, resource)
            assert max(one.cpu.n for one in of(received, machine) if one.cpu) >= 4
        assert time.time() - of(received, "kept")[-1].at < 60


@pytest.mark.skipif(NO_LINK, reason="NOT RUN: to compare the network takes root and `ip` (Debian: iproute2)")
def test_the_network_is_compared():
    """In the test above."""
