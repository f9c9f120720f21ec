"""Shell: the running fleet, as processes and commands beside the scorer read it: windows and ledger together.

A scorer follows the ledger in the round trips of its queries, and refreshes the windows in a thread. So it puts the
parts together for itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis

from schemas.names import Names
from schemas.process.settings import SettingsError
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import LedgerView
from scorer.live.loader import Loader
from scorer.ranking.fleet_state import FleetState
from scorer.settings import LedgerSettings
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import AWAY, Wire


class LiveFleet:
    """Reads what changed since it was read last; the whole ledger when a connection was lost meanwhile."""

    def __init__(self, windows: Wire, ledger: Ledger, names: Names) -> None:
        self.windows, self.ledger = windows, ledger
        self._loader, self._follower = Loader(windows, names), Follower(ledger)
        self._snapshot = build_snapshot((), {}, {})

    @classmethod
    def open(cls, settings: LedgerSettings) -> LiveFleet:
        """Return the fleet of the settings, over connections of its own; they open when they are first used."""
        ledger = Ledger(Wire(settings.ledger_arguments()), settings.names, **settings.ledger_bounds())
        return cls(Wire(settings.redis_arguments()), ledger, settings.names)

    def read(self, now_s: float | None = None) -> FleetState:
        """Return the fleet now; raises one of `scorer.wire.AWAY`, or UnknownFormat."""
        ledger = self.read_ledger()
        return FleetState(self.read_windows(), ledger, time.time() if now_s is None else now_s)

    def read_ledger(self) -> LedgerView:
        """Return the ledger; raises as `read` does."""
        with self._or_anew():
            if self._follower.loaded:
                self._follower.poll()
                self._follower.require()
            else:
                self._follower.load()
        return self._follower.view

    def read_windows(self) -> Snapshot:
        """Return the windows, with a row for each machine of the ledger as it was read last; raises as `read` does."""
        with self._or_anew():
            self._snapshot = self._loader.refresh(self._follower.view.machine_names) or self._snapshot
        return self._snapshot

    @contextmanager
    def _or_anew(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections; the next use opens others, and reads the ledger anew: it may be another one."""
        self._follower.forget()
        self.windows.close()
        self.ledger.wire.close()


def refuse_modes(settings: LedgerSettings) -> None:
    """Refuse a sentinel itself and a node of a Cluster, as the server of the windows and of the ledger."""
    refuse_mode("redis_url", settings.redis_arguments())
    refuse_mode("ledger_url", settings.ledger_arguments())


def refuse_mode(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a sentinel itself and a node of a Cluster; one that is away, or does not report its mode, is accepted.

    Raises SettingsError naming the setting.
    """
    if (mode := _mode(arguments)) in ("cluster", "sentinel"):
        remedy = {
            "sentinel": ": give redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE",
            "cluster": ", which is not supported: name one server, or one behind sentinels",
        }[mode]
        raise SettingsError(f"{name}: {arguments['url']} runs as a {mode}{remedy}")


def _mode(arguments: Mapping[str, Any]) -> str:
    wire = Wire(dict(arguments))
    try:
        lines = wire.one("INFO", "server").decode().splitlines()
    except (*AWAY, redis.ResponseError):
        return ""
    finally:
        wire.close()
    return next((line.partition(":")[2] for line in lines if line.startswith(("redis_mode:", "server_mode:"))), "")
