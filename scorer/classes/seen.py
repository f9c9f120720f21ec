"""What the rules by class read of machines: the part of `scorer.ranking.machines.machines.Machines` that they use.

The rules are below the ranking, since a filter uses them. So they are given the machines that a decision sees, and
import nothing of it.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from schemas.rpc.request import Request


class MachinesSeen(Protocol):
    """Some machines, or all, with their columns by name, for one request."""

    request: Request

    def __len__(self) -> int: ...

    def __getattr__(self, name: str) -> NDArray[Any]: ...
