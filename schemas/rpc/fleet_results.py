"""The results of ``machines`` and ``health``: the fleet as a scorer sees it, and the scorer's own state."""

from __future__ import annotations

from typing import Any

import msgspec


class MachineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``machines``."""

    machine: str
    has_data: bool
    age_s: float | None
    window_s: float | None
    coverage: float | None
    warming: bool
    cordon: bool
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    instances: int
    maxmemory: float | None
    resources: dict[str, dict[str, float | None]]
    classes: dict[str, dict[str, dict[str, float | None]]] = {}
    """By class and resource, where the profile counts by class: `promised`, `most`, `used`; and `counted`, the sum that
    is compared with `most`: free's has batch's in it."""


class MachinesResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``machines``."""

    total: int
    machines: list[MachineRow]
    more: bool


class HealthResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``health``."""

    ready: bool
    degraded: str = ""
    """What is wrong with the data, in words; "" when nothing is."""
    scorer: str
    version: str
    uptime_s: float
    machines: int
    machines_with_data: int
    newest_sample_age_s: float | None
    windows_s: list[int]
    instances: int
    ledger_change: int
    ledger_format: int = 0
    ledger_refusal: str = ""
    ledger_check: dict[str, int] | None = None
    """What the last check of the ledger found, `at` when (epoch s); null where none is known."""
    ledger_unaccepted: str = ""
    """Why nothing is placed on a ledger that was emptied; "" when instances are placed."""
    profiles: list[str]
    profile: str
