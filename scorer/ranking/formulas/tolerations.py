"""Which taints a request tolerates."""

from collections.abc import Sequence

import numpy as np

from schemas.messages.operator import Taint
from schemas.rpc.request import Toleration
from scorer.snapshot.arrays import Floats
from scorer.snapshot.rules import MachineRules


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Return whether any toleration matches this taint."""
    return any(
        each.key in ("", taint.key) and each.value in (None, taint.value) and each.effect in (None, taint.effect)
        for each in tolerations
    )


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration], effect: str) -> list[Taint]:
    """Return the taints of one effect that no toleration matches."""
    return [taint for taint in taints if taint.effect == effect and not tolerated(taint, tolerations)]


def left_of(rules: MachineRules, tolerations: Sequence[Toleration], effect: str) -> Floats:
    """Return [M]: the number of each machine's taints of one effect that no toleration matches."""
    counts = np.array([len(untolerated(taints, tolerations, effect)) for taints in rules.taint_sets], np.float64)
    found: Floats = counts[rules.taint_codes]
    return found
