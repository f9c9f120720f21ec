"""A thread of work in the background, with connections of its own."""

import threading

from scorer.cluster_wire import WindowsWire


class BackgroundThread(threading.Thread):
    """A thread whose ``run`` ends soon after `stopping` is set."""

    def __init__(self, name: str, *wires: WindowsWire) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self._wires = wires

    def stop(self) -> None:
        """End the thread, if it was started, and close its connections."""
        self.stopping.set()
        if self.is_alive():
            self.join(timeout=10)
        for wire in self._wires:
            wire.close()
