"""Ports of this machine: which have a listener, which of these are ready, which are free."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

from ops.stack.servers.process import LOOPBACK, LocalError, free_port


def says_ready(port: int) -> bool:
    """Return whether the page ``/ready`` at a port of loopback has status 200; a server without that page is ready."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 404
    except OSError:
        return False


def accepts(address: str) -> bool:
    """Return whether a server at HOST:PORT accepts connections."""
    host, _, port = address.strip().rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Return whether a server listens on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex((LOOPBACK, port)) == 0


def own_port(port: int, what: str) -> int:
    """Return the port to start a server on; raises LocalError when another server listens there."""
    if not port:
        return free_port()
    if listens(port):
        use = {"redis": "use it by --redis-url, or ", "kafka": "use it by --kafka, or "}.get(what, "")
        raise LocalError(
            f"{what}_port: something listens on {LOOPBACK}:{port} already; {use}give --{what}-port (0: any free one)"
        )
    return port


def free_port_from(first: int, taken: set[int]) -> int:
    """Return the first port from ``first`` on where nothing listens and that is not ``taken``; 0: any free one."""
    if not first:
        return free_port()
    return next(port for port in range(first, 65_536) if port not in taken and not listens(port))
