"""Shell: the lists of proposed moves in Redis, written under the fence of the lease."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import redis

from schemas.names import Names
from scorer.wire import Wire

log = logging.getLogger("windward.planner")

_SCRIPT = Path(__file__).with_name("write_moves.lua").read_text()
READ_MAX = 10_000
"""The most messages of each list that a round reads."""


class Overtaken(Exception):
    """A newer planner has written since: this one's number is too old."""


class MovesQueue:
    """The lists of one prefix."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire = wire
        self._keys = (names.moves_waiting, names.moves_taken, names.moves_fence)

    def read(self) -> tuple[list[bytes], list[bytes]]:
        """Return the messages that wait, the next one first, and those that were taken."""
        answers = self._wire.ask([("LRANGE", key, -READ_MAX, -1) for key in self._keys[:2]])
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers[0][::-1], answers[1]

    def write(
        self,
        number: int,
        withdrawn: Sequence[bytes],
        returned: Sequence[tuple[bytes, bytes]],
        proposed: Sequence[bytes],
    ) -> int:
        """Write the result of a round; return how many proposals were returned to the queue.

        ``returned`` has pairs: the message that was taken, and the one that waits in its place. A fence that is no
        number is told in the log and replaced: an error would fail each round for ever. Raises Overtaken, and what the
        wire raises.
        """
        arguments: list[bytes | int] = [number, len(withdrawn), *withdrawn, len(returned)]
        arguments += [part for pair in returned for part in pair]
        arguments += [len(proposed), *proposed]
        kind, count, *damaged = self._wire.one("EVAL", _SCRIPT, len(self._keys), *self._keys, *arguments)
        if kind == b"overtaken":
            raise Overtaken(f"a planner with the number {count} has written since {number}")
        if any(damaged):
            values = {"found": repr(damaged[0]), "replaced_by": number}
            log.warning("planner.fence.replaced", extra={"values": values})
        return int(count)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()
