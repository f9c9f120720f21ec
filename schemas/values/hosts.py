"""The id of a host in messages: a digest of its machine-id. The machine-id itself stays on the host (machine-id(5))."""

import hashlib
import hmac
from functools import lru_cache

HOST_ID_LENGTH = 32
_KEY = b"windward host v1"


def host_id(machine_id_text: str) -> str:
    r"""Return the id of the host whose ``/etc/machine-id`` holds this text; "" where it holds none.

    >>> host_id("3d1219c7c4c5404aaa1f6d2a48adfda4\n"), host_id("uninitialized\n"), host_id("")
    ('8bfbab46c1906f9b96e503ee8a9a8ecb', '', '')
    """
    text = machine_id_text.strip()
    if text in ("", "uninitialized"):
        return ""
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()[:HOST_ID_LENGTH]


def is_of(machine: str, host: str) -> bool:
    """Return whether a machine's name is the machine-id of the host with this id."""
    return bool(host) and host_id(machine) == host


@lru_cache(100_000)
def host_key(host: str) -> int:
    """Return a host's id as 64 bits; 0 for "" alone.

    >>> host_key(""), host_key("a") != host_key("b")
    (0, True)
    """
    return int.from_bytes(hashlib.blake2b(host.encode(), digest_size=8).digest(), "little") or 1 if host else 0
