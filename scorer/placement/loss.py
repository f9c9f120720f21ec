"""What if machines were lost: their instances placed anew on the others. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from scorer.ledger.instance import Instance, copy_with
from scorer.ledger.overlay import Overlay
from scorer.ledger.view import LedgerView
from scorer.placement.as_request import IN_BOTH, as_request
from scorer.placement.copies import place_identical
from scorer.ranking.kept import Kept
from scorer.ranking.profile import Profile
from scorer.ranking.rank import rank
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Loss:
    """What became of the instances of the machines that were lost."""

    overlay: Overlay
    """The ledger without them, and with those that found a place."""
    placed: int
    homeless: tuple[str, ...]
    """Ids of those that found none."""


def lose(
    machines: Iterable[str], left: str, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float
) -> Loss:
    """Return the ledger after these machines are gone; ``left`` is a selector of the machines that are left.

    The largest instances are placed first, by cpu and then by memory; alike ones together.
    """
    overlay, kept = Overlay(ledger), Kept()
    alike: dict[Hashable, list[Instance]] = {}
    for instance in [one for machine in machines for one in ledger.on_machine(machine)]:
        overlay.take_out(instance.id)
        rules = _encode(instance.rules) if instance.rules else b""
        alike.setdefault((_what_is_asked(instance), rules, *instance.labels.items()), []).append(instance)
    placed, homeless = 0, list[str]()
    for group in sorted(alike.values(), key=_size, reverse=True):
        request = as_request(group[0])
        both = ",".join(one for one in (request.selector, left) if one)
        request = msgspec.structs.replace(request, id="", selector=both)
        together = None
        if len(group) > 1:
            together = place_identical(rank(request, snapshot, overlay, profile, now_s, kept), len(group))
        for number, instance in enumerate(group):
            if together is None:
                target = rank(request, snapshot, overlay, profile, now_s, kept).chosen
            else:
                target = together[number]
            if target is None:
                homeless.append(instance.id)
                continue
            overlay.propose(copy_with(instance, machine=target, state="reserved", reserved_at=now_s, started_at=0.0))
            placed += 1
    return Loss(overlay, placed, tuple(homeless))


def _size(group: list[Instance]) -> tuple[float, ...]:
    return tuple(amount or 0.0 for amount in group[0].amounts[:2])


_what_is_asked = attrgetter(*sorted(set(IN_BOTH) - {"id", "labels"}), "amounts", "limits", "expected")
_encode = msgspec.json.Encoder(order="deterministic").encode
