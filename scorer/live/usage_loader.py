"""Shell: reads the tables of usage by instance from Redis, less often than the window tables."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import redis

from schemas.names import Names
from schemas.tables.window_table import TableError, decode_table
from scorer.snapshot.usages import Usages, UsageTable
from scorer.wire import Wire

log = logging.getLogger("windward.scorer")

LOOK_S = 5.0
"""Time between two reads: the stream app writes the tables every 15 s."""

HEAD_BYTES = 2048


class UsageLoader:
    """Keeps what was read last; a refresh without changes costs one short read a partition."""

    def __init__(self, wire: Wire, names: Names, look_s: float = LOOK_S) -> None:
        self._wire = wire
        self._names = names
        self._look_s = look_s
        self._looked_at = -math.inf
        self._heads: dict[int, bytes] = {}
        self._tables: dict[int, UsageTable] = {}
        self.usages = Usages()

    def refresh(self, partitions: int) -> bool:
        """Read what changed, at most once in ``look_s``; return whether `usages` changed.

        A table that cannot be decoded is logged, and its last good version is kept. A table that the Redis user may not
        read counts as absent.
        """
        if time.monotonic() - self._looked_at < self._look_s:
            return False
        self._looked_at = time.monotonic()
        keys = [self._names.instance_usage(partition) for partition in range(partitions)]
        heads = self._ask([("GETRANGE", key, 0, HEAD_BYTES - 1) for key in keys])
        stale = [partition for partition, head in enumerate(heads) if head != self._heads.get(partition, b"")]
        gone = [partition for partition in self._heads if partition >= partitions]
        for partition in gone:
            self._drop(partition)
        for partition, raw in zip(stale, self._ask([("GET", keys[partition]) for partition in stale]), strict=True):
            if not raw:
                self._drop(partition)
                continue
            self._heads[partition] = raw[:HEAD_BYTES]
            try:
                self._tables[partition] = UsageTable(decode_table(raw), self._tables.get(partition))
            except TableError as error:
                log.warning("scorer.usage.refused", extra={"values": {"partition": partition, "error": str(error)}})
        if not stale and not gone:
            return False
        self.usages = Usages([self._tables[partition] for partition in sorted(self._tables)], self.usages)
        self.usages.columns.prepare()  # here, on the refresher's thread, so that no decision waits for it
        return True

    def _ask(self, commands: list[Any]) -> list[bytes]:
        answers = self._wire.ask(commands) if commands else []
        return [b"" if one is None or isinstance(one, redis.ResponseError) else one for one in answers]

    def _drop(self, partition: int) -> None:
        self._heads.pop(partition, None)
        self._tables.pop(partition, None)
