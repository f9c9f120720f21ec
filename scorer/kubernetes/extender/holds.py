"""Shell: which reservations are the evictor's, read from Redis beside the ledger.

    holds.read()          # by the fleet's thread, at most each `EVERY_S`
    holds.are(instance)   # by any

Where they cannot be read none is believed: the replacement of an evicted pod is then placed as any other.
"""

from __future__ import annotations

import time

import redis

from schemas.names import Names
from scorer.ledger.record.instance import Instance
from scorer.wire import AWAY, Wire

EVERY_S = 0.1
"""Much less than `scorer.kubernetes.evictor.evictor.LEAD_S`."""
_AGAIN_S = 2.0


class Holds:
    """Of one prefix."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire, self._key = wire, names.holds
        self._generations: dict[bytes, bytes] = {}
        self._next_s = 0.0

    def read(self) -> None:
        """Read them, if it is time."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        try:
            flat = self._wire.one("HGETALL", self._key)
            self._generations = dict(zip(flat[::2], flat[1::2], strict=True))
        except (*AWAY, redis.ResponseError):
            self._generations, self._next_s = {}, now_s + _AGAIN_S
            self._wire.close()

    def are(self, instance: Instance) -> bool:
        """Return whether an instance is one of them, in this generation."""
        return self._generations.get(instance.id.encode()) == str(instance.generation).encode()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()
