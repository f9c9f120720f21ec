"""Maxmemory: the memory that the instances of a machine may grow to stays below a share of its memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemas.resources import MEMORY
from scorer.ledger.record.limits import Limit, total
from scorer.ranking.kernel.layout import struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Maxmemory(Plugin):
    """Refuse machines where the sum of maxmemory with the instance's is more than ``share`` of allocatable memory."""

    name = "maxmemory"
    reason = "sum of maxmemory too large"
    looks_at = ("maxmemory",)
    struct = struct(share="f8")

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 10:
            raise ValueError(f"share: expected more than 0 and at most 10, got {self.share}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        return float(request.maxmemory) > 0

    def compares(self) -> Sequence[tuple[str, str]]:
        return [("memory", f"maxmemory promised at most {self.share:g} of allocatable")]

    def limit(self, request: Request, machines: Machines) -> Iterator[Limit]:
        yield Limit(total("maxmemory"), machines.allocatable[MEMORY] * self.share, "maxmemory over its share")

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"maxmemory": float(said[0]), "limit": float(said[1])}
