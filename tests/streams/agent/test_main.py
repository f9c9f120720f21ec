"""systemd's notify protocol."""

import socket
from pathlib import Path

from streams.agent.__main__ import SystemdNotifier


def test_states_reach_the_socket(tmp_path: Path):
    """One datagram a state, as it is."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(5)
        notifier = SystemdNotifier({"NOTIFY_SOCKET": path})
        for state in ("READY=1", "STOPPING=1"):
            notifier.notify(state)
            assert systemd.recv(100) == state.encode()


def test_an_abstract_socket_is_reached_too():
    """A leading @ stands for the zero byte."""
    name = "windward-test-notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name)
        systemd.settimeout(5)
        SystemdNotifier({"NOTIFY_SOCKET": "@" + name}).notify("WATCHDOG=1")
        assert systemd.recv(100) == b"WATCHDOG=1"


def test_without_systemd_nothing_happens(tmp_path: Path):
    """No socket, or one that is gone, is no reason to stop."""
    SystemdNotifier({}).notify("READY=1")
    SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).notify("READY=1")
