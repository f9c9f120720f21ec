"""The ledger after the loss of machines, with their instances placed anew on the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scorer.placement.choosing.trial import Trial
from scorer.planning.anew import place_anew


@dataclass(frozen=True)
class Loss:
    """The placement of the instances of lost machines."""

    placed: int
    homeless: tuple[str, ...]
    """Ids of those that found no machine."""


def lose(machines: Iterable[str], left: str, trial: Trial) -> Loss:
    """Place the instances of lost machines on the others, which the trial then has there, and no others of them.

    ``left``: a selector of the remaining machines. The largest instances are placed first, by cpu and then by memory;
    alike ones together.
    """
    instances = [one for machine in machines for one in trial.inputs.ledger.on_machine(machine)]
    found = place_anew(instances, trial, gone=True, left=left)
    homeless = tuple(one.instance.id for one in found if one.target is None)
    return Loss(len(found) - len(homeless), homeless)
