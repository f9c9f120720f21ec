"""The state kept between rounds: a machine gives instances away only after several overloaded rounds in a row.

The daemon keeps it in memory. A caller of `rebalance` gets it as a text in the answer, and sends it with the next
round, which any process can then answer. Rejected: a state in Redis, by which one user's round would change the next
user's result; and one query for all rounds, which would be lost with its process, minutes after it was claimed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from schemas.values.read_json import reader
from scorer.planning.thresholds.anomaly import FORGOTTEN_S, Condition, Detector, Detectors, SideDetectors
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.arrays import Bools


class UnderWay(NamedTuple):
    """What earlier rounds and others have begun."""

    pending: Mapping[str, str] = {}
    """Instance id to target: moves that count as made."""
    handing: Mapping[str, str] = {}
    """Instance id to the other's: exchanges of roles that count as made."""
    stay: Collection[str] = ()
    """Ids of instances that do not move."""


NOTHING = UnderWay()


def condition_of(settings: Rebalancing, every_s: float) -> Condition:
    """Return when a machine counts as abnormal, with rounds ``every_s`` apart.

    The count begins anew after five minutes without overload, or after two rounds if these take longer.
    """
    return Condition(settings.rounds_over, settings.rounds_under, settings.over_s, max(FORGOTTEN_S, 2.5 * every_s))


@dataclass
class Rounds:
    """The state of one balancer, for both rules."""

    condition: Condition
    overload: Detectors = field(default_factory=Detectors)
    thresholds: SideDetectors = field(default_factory=SideDetectors)

    def sources(self, names: tuple[str, ...], over: Bools, now_s: float) -> Bools:
        """Record which machines [M] are overloaded; return [M] those that were so in enough rounds."""
        hot = [names[m] for m in np.flatnonzero(over).tolist()]
        found = {*self.overload.abnormal(hot, self.condition, now_s)}
        self.overload.mark_normal(self.overload.by_machine.keys() - {*hot}, now_s)
        return np.array([name in found for name in names], np.bool_)

    def _parts(self) -> tuple[Detectors, Detectors, Detectors]:
        return self.overload, self.thresholds.machines, self.thresholds.prod

    def text(self) -> str:
        """Return the state as a text for `rounds_of`: about 60 characters for each machine that was overloaded."""
        return _encode([{name: _kept(one) for name, one in part.by_machine.items()} for part in self._parts()]).decode()


class _Kept(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The state of one machine, as the text of `Rounds.text` has it."""

    anomalous: bool
    abnormal: int
    normal: int
    until: float
    over_at: float


_encode = msgspec.json.encode
_decode = reader(tuple[dict[str, _Kept], dict[str, _Kept], dict[str, _Kept]])


def _kept(one: Detector) -> _Kept:
    return _Kept(one.anomalous, one.abnormal, one.normal, one.until, one.over_at)


def rounds_of(settings: Rebalancing, every_s: float, text: str = "") -> Rounds:
    """Return the state for a round: that of the previous round's text (`Rounds.text`), or a new one.

    Raises ValueError naming ``rounds`` for any other text.

    >>> rounds = rounds_of(Rebalancing(rounds_over=2), 60.0)
    >>> rounds.sources(("a", "b"), np.array([True, False]), 1_000.0).tolist(), rounds.text()
    ([False, False], '[{"a":[false,1,0,0.0,1000.0]},{},{}]')
    >>> rounds_of(Rebalancing(rounds_over=2), 60.0, rounds.text()) == rounds
    True
    """
    found = Rounds(condition_of(settings, every_s))
    try:
        kept = _decode(text) if text else ({}, {}, {})
    except msgspec.DecodeError as error:
        raise ValueError(f"rounds: not the state of a round before: {error}") from None
    for part, states in zip(found._parts(), kept, strict=True):
        part.by_machine = {
            name: Detector(found.condition, *msgspec.structs.astuple(one)) for name, one in states.items()
        }
    return found
