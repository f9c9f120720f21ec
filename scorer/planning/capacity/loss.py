"""The ledger after the loss of machines, with their instances placed anew on the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView
from scorer.planning.anew import place_anew
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Loss:
    """The placement of the instances of lost machines."""

    overlay: Overlay
    """The ledger with those that found a machine there, and without the others."""
    placed: int
    homeless: tuple[str, ...]
    """Ids of those that found no machine."""


def lose(
    machines: Iterable[str], left: str, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float
) -> Loss:
    """Return the ledger after the loss of these machines; ``left`` is a selector of the remaining machines.

    The largest instances are placed first, by cpu and then by memory; alike ones together.
    """
    overlay = Overlay(ledger)
    instances = [one for machine in machines for one in ledger.on_machine(machine)]
    found = place_anew(instances, snapshot, overlay, profile, now_s, Kept(), gone=True, left=left)
    homeless = tuple(one.instance.id for one in found if one.target is None)
    return Loss(overlay, len(found) - len(homeless), homeless)
