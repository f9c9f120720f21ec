"""systemd's notify protocol: reports the state of this process, as one datagram on a Unix socket."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping

log = logging.getLogger("windward.agent")


class SystemdNotifier:
    """Sends states to the socket that systemd named; without one it does nothing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def notify(self, state: str) -> None:
        """Send one state such as ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1``; a failure is only logged."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.sendto(state.encode(), self._address)
        except OSError as error:
            log.debug("agent.notify.failed", extra={"values": {"error": str(error)}})
