"""Shell: the list of proposed moves, of which only some are taken: another program may move the others."""

from __future__ import annotations

from schemas.messages.proposal import READ_MAX
from schemas.names import Names
from scorer.wire import Wire


class Proposals:
    """Those of one prefix. Raises what the wire raises, and ``redis.ResponseError``."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire = wire
        self._waiting, self._taken, self._fence = names.moves_waiting, names.moves_taken, names.moves_fence
        self._holds = names.holds

    def waiting(self) -> tuple[list[bytes], int]:
        """Return the messages that wait, the next one first, and the fence: moves of an older number are overtaken."""
        messages, fence = self._asked(("LRANGE", self._waiting, -READ_MAX, -1), ("GET", self._fence))
        return messages[::-1], int(fence or 0)

    def take(self, message: bytes) -> bool:
        """Take a message as a mover does; return whether it still waited."""
        _, place = self._asked(("WATCH", self._waiting), ("LPOS", self._waiting, message))
        if place is None:
            self._asked(("UNWATCH",))
            return False
        moved = (("LREM", self._waiting, -1, message), ("LPUSH", self._taken, message))
        *_, done = self._asked(("MULTI",), *moved, ("EXEC",))
        return done is not None

    def acknowledge(self, message: bytes) -> None:
        """Note that a message is done, or declined: the rebalancer sees in the ledger which."""
        self._asked(("LREM", self._taken, 1, message))

    def hold(self, instance_id: str, generation: int, lasts_s: float) -> None:
        """Have extenders believe a reservation; it is forgotten after the last of all."""
        self._asked(("HSET", self._holds, instance_id, generation), ("EXPIRE", self._holds, round(lasts_s) + 60))

    def let_go(self, instance_id: str) -> None:
        """Have them believe it no more."""
        self._asked(("HDEL", self._holds, instance_id))

    def _asked(self, *commands: tuple[str | bytes | int, ...]) -> list:  # type: ignore[type-arg]
        answers = self._wire.ask(commands)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers
