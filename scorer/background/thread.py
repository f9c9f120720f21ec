"""A thread of work in the background, with connections of its own."""

import logging
import threading

import redis

from scorer.cluster_wire import WindowsWire
from scorer.ledger.record.transition import UnknownFormat
from scorer.wire import AWAY

log = logging.getLogger("windward.scorer")


class BackgroundThread(threading.Thread):
    """A thread that does turns of its work, the first after ``first_s``, until soon after `stopping` is set."""

    first_s, every_s = 0.0, 1.0

    def __init__(self, name: str, *wires: WindowsWire) -> None:
        """``name``: also a part of the name of its log lines."""
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self._wires = wires

    def turn(self) -> None:
        """Do the work once."""
        raise NotImplementedError

    def interrupted(self) -> None:
        """Forget what a server that is away, or of a newer format, may have changed by the next turn."""

    def run(self) -> None:
        wait_s = self.first_s
        while not self.stopping.wait(wait_s):
            wait_s = self.every_s
            try:
                self.turn()
            except (*AWAY, UnknownFormat):  # the follower of the decisions reports these
                self.interrupted()
            except redis.ResponseError as error:
                log.warning(f"scorer.{self.name}.refused", extra={"values": {"error": str(error)}})

    def stop(self) -> None:
        """End the thread, if it was started, and close its connections."""
        self.stopping.set()
        if self.is_alive():
            self.join(timeout=10)
        for wire in self._wires:
            wire.close()
