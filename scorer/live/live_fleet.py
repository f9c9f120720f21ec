"""Shell: the running fleet, as processes and commands beside the scorer read it: windows and ledger together.

A scorer follows the ledger in the round trips of its queries, and refreshes the windows in a thread. So it puts the
parts together for itself.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis

from schemas.names import Names
from schemas.process.settings import SettingsError
from scorer.cluster_wire import ClusterWire, WindowsWire, windows_wire
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import LedgerView
from scorer.live.loader import Loader
from scorer.ranking.inputs import FleetState
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.ranking.profiles.profile import ProfileError
from scorer.settings import LedgerSettings
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import AWAY, Wire


class LiveFleet:
    """Reads the changes since the last read; the whole ledger when a connection was lost meanwhile."""

    def __init__(self, wire: Wire, ledger: Ledger, names: Names, windows: WindowsWire | None = None) -> None:
        """``windows``: the wire to the windows' server, if it is a separate one."""
        self.wire, self.ledger, self.windows = wire, ledger, wire if windows is None else windows
        self._loader, self._follower = Loader(wire, names, windows), Follower(ledger)
        self._snapshot = build_snapshot((), {}, {})

    @classmethod
    def open(cls, settings: LedgerSettings) -> "LiveFleet":
        """Return the fleet of the settings, over connections of its own; they open when they are first used."""
        ledger = Ledger(Wire(settings.ledger_arguments()), settings.names, **settings.ledger_bounds())
        return cls(Wire(settings.redis_arguments()), ledger, settings.names, windows_wire(settings))

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
        """Return the windows, with a row for each machine of the ledger at its last read; raises as `read` does."""
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
        """Close the connections. The next use opens new ones, and reads the whole ledger, since it may be another."""
        self._follower.forget()
        self._loader.close()
        self.ledger.wire.close()


def refuse_modes(settings: LedgerSettings) -> None:
    """Refuse a sentinel itself, or one node of a Cluster, in the URL of any server."""
    refuse_mode("redis_url", settings.redis_arguments())
    refuse_mode("windows_url", settings.windows_arguments())
    refuse_mode("ledger_url", settings.ledger_arguments())


def refuse_mode(name: str, arguments: dict[str, Any]) -> None:
    """Refuse a sentinel itself or one node of a Cluster; one that is away, or does not report its mode, is accepted.

    Raises SettingsError naming the setting.
    """
    if "+cluster://" in arguments["url"]:
        if "cluster support disabled" in (said := _said(arguments)):
            raise SettingsError(f"{name}: {arguments['url']} is no cluster: {said}")
        return
    if (mode := _mode(arguments)) in ("cluster", "sentinel"):
        remedy = {
            "sentinel": ": give redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE",
            "cluster": f": {'give' if name == 'windows_url' else 'it can have the windows alone, by windows_url'} "
            "redis+cluster://HOST:PORT,HOST:PORT",
        }[mode]
        raise SettingsError(f"{name}: {arguments['url']} runs as a {mode}{remedy}")


def _said(arguments: dict[str, Any]) -> str:
    """Return why a Cluster cannot be used; "" when it can."""
    wire = ClusterWire(arguments)
    try:
        return "" if wire.urls else "no node has a slot"
    except AWAY as error:
        return str(error)
    finally:
        wire.close()


def _mode(arguments: Mapping[str, Any]) -> str:
    wire = Wire(dict(arguments))
    try:
        lines = wire.one("INFO", "server").decode().splitlines()
    except (*AWAY, redis.ResponseError):
        return ""
    finally:
        wire.close()
    return next((line.partition(":")[2] for line in lines if line.startswith(("redis_mode:", "server_mode:"))), "")


def profiles_of(settings: Any) -> Profiles:
    """Return the profiles that ``profiles`` and ``profile`` of a process's settings name; raises SettingsError."""
    try:
        return load_profiles(settings.profiles, settings.profile)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
