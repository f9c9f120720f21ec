"""Who this machine is: one id, the same after every restart."""

from __future__ import annotations

import socket
from pathlib import Path

MACHINE_ID_FILE = Path("/etc/machine-id")


def machine_id(configured: str | None, full_name: str, machine_id_text: str) -> str:
    """Return the configured name, else the fully qualified host name, else the machine id, else the bare host name.

    A name without a dot, or one of ``localhost``, is not fully qualified: two machines may share it, so it comes last.

    >>> machine_id(None, "db1.example.com", "3d12"), machine_id(None, "db1", "3d12"), machine_id(None, "db1", "")
    ('db1.example.com', '3d12', 'db1')

    Raises ValueError when there is none.
    """
    local = full_name.partition(".")[0] in ("", "localhost")
    qualified = full_name if "." in full_name and not local else ""
    bare = "" if local else full_name
    found = configured or qualified or machine_id_text.strip() or bare
    if not found:
        raise ValueError("machine: this machine has neither a host name nor a machine id; give it one")
    return found


def read_machine_id(configured: str | None) -> str:
    """Return this machine's id."""
    if configured:
        return configured
    try:
        text = MACHINE_ID_FILE.read_text()
    except OSError:
        text = ""
    return machine_id(None, socket.getfqdn(), text)
