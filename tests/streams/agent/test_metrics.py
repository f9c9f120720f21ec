"""The agent's Prometheus page, and systemd's notify protocol."""

import socket

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streams.agent.__main__ import notify
from streams.agent.metrics import CountsCollector, ready
from streams.agent.sampling.counts import Counts


def test_the_page_tells_every_count():
    """Base units, ``_total`` on counters, one label of few values."""
    counts = Counts(samples=3, delivered=2, dropped=1, waiting=4, last_delivery_s=17.5)
    counts.readings["cpu"] += 30
    counts.collector_failures["nic"] += 1
    counts.instances, counts.instance_reports = 50, 6
    counts.instance_troubles["reset"] += 2
    registry = CollectorRegistry()
    registry.register(CountsCollector(counts, "1.2"))
    assert "clock_ahead" not in generate_latest(registry).decode()
    counts.clock_ahead_s = 60.5
    page = generate_latest(registry).decode()
    for line in (
        'windward_agent_build_info{version="1.2"} 1.0',
        "windward_agent_samples_total 3.0",
        'windward_agent_readings_total{resource="cpu"} 30.0',
        'windward_agent_collector_failures_total{resource="nic"} 1.0',
        'windward_agent_records_total{result="delivered"} 2.0',
        'windward_agent_records_total{result="dropped"} 1.0',
        "windward_agent_backlog_records 4.0",
        "windward_agent_instances 50.0",
        "windward_agent_instance_reports_total 6.0",
        'windward_agent_instance_troubles_total{kind="reset"} 2.0',
        'windward_agent_instance_troubles_total{kind="vanished"} 0.0',
        "windward_agent_last_delivery_timestamp_seconds 17.5",
        "windward_agent_clock_ahead_seconds 60.5",
    ):
        assert line in page.splitlines()


def test_an_agent_is_ready_while_records_are_delivered():
    counts = Counts(waiting=2)
    assert ready(counts, 30.0) == (False, {"last_delivery_age_s": None, "backlog_records": 2})
    counts.last_delivery_s = 1000.0
    assert ready(counts, 30.0, lambda: 1030.0) == (True, {"last_delivery_age_s": 30.0, "backlog_records": 2})
    assert not ready(counts, 30.0, lambda: 1031.0)[0]
    counts.lacks["nic"] = "no cable"
    assert ready(counts, 30.0, lambda: 1030.0)[0]
    counts.lacks["cpu"] = "it fell"
    assert ready(counts, 30.0, lambda: 1030.0) == (
        False,
        {"last_delivery_age_s": 30.0, "backlog_records": 2, "lacks": {"nic": "no cable", "cpu": "it fell"}},
    )
    counts.lacks.clear()
    counts.clock_ahead_s = 60.5
    assert ready(counts, 30.0, lambda: 1030.0)[1]["clock_ahead_s"] == 60.5


@pytest.mark.parametrize("name", ["{}/notify", "@windward-test-notify"])
def test_states_reach_the_socket(tmp_path, name):
    """By a path or an abstract name; no socket, or one that is gone, is no reason to stop."""
    name = name.format(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(name.replace("@", "\0"))
        systemd.settimeout(5)
        for state in ("READY=1", "STOPPING=1"):
            notify({"NOTIFY_SOCKET": name}, state)
            assert systemd.recv(100) == state.encode()
    notify({}, "READY=1")
    notify({"NOTIFY_SOCKET": str(tmp_path / "gone")}, "READY=1")
