"""Peaks: Trimaran's Peaks, the placement that costs the least additional power."""

from dataclasses import dataclass

from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import LEAST_BEST, LEAST_BEST_WHOLE, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Peaks(Plugin):
    """Prefer machines whose power rises least.

    The increase is ``K1 * (exp(K2 * after) - exp(K2 * before))`` of CPU utilization in percent. The power model of a
    machine is an operator's fact (``power``). The increases are spread over the feasible machines so that the least
    scores 100. A machine without model or data, or filled beyond 100 %, scores 0. In the peer an unknown machine counts
    as no increase at all, and so wins. ``peer = true`` does that, rounds as the peer does, and adds the request in
    place of the expected usage.

    Reference: Trimaran, pkg/trimaran/peaks/peaks.go.
    """

    name = "peaks"
    struct = struct(peer="i8")

    peer: bool = False

    @property
    def inner(self) -> int:
        return LEAST_BEST_WHOLE if self.peer else LEAST_BEST

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"power_increase": finite(said[0])}
