"""The sums by class of all machines: the amounts allocated to each class, and their limits."""

from dataclasses import dataclass

import numpy as np

from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import Request
from scorer.classes.uses import ASKED, MEASURED
from scorer.ranking.filters.fits import Fits
from scorer.ranking.inputs import RankingInputs, machines_of, quiet
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.arrays import Bools, Floats


@dataclass(frozen=True)
class ClassSums:
    """C classes in the order of `PRIORITY_CLASSES`, R resources, M machines."""

    promised: Floats
    """[C, R, M] The requests of each class's instances."""
    counted: Floats
    """[C, R, M] What is compared with ``most``: the class's sum; for free with batch's."""
    most: Floats
    """[C, R, M] The most that may be allocated; NaN where unknown, and for a resource that is not sold by class."""
    used: Floats
    """[C, R, M] What the instances of each class use, as measured; NaN where no report is current."""
    old: Bools
    """[M] Where data is too old to reclaim anything."""
    sold: tuple[int, ...]
    """The rows of the resource axis that are sold by class."""


def by_class_filter(profile: Profile) -> Fits | None:
    """Return the profile's filter that counts by class; None where all classes are one sum."""
    return next((each for each in profile.all_of(Fits) if each.classes is not None), None)


@quiet
def class_sums(inputs: RankingInputs) -> ClassSums | None:
    """Return the sums by the profile's rules; None where it counts all classes together."""
    fits = by_class_filter(inputs.profile)
    if fits is None or fits.classes is None:
        return None
    sold, placed = fits.classes.rows, next(each for each in inputs.profile.filters if each.filter is fits)
    machines = machines_of(inputs, placed.load_model)
    promised = machines.of_classes[ASKED]
    counted = np.tile(promised.sum(axis=0), (len(PRIORITY_CLASSES), 1, 1))
    most = np.full_like(promised, np.nan)
    for code, name in enumerate(PRIORITY_CLASSES):
        by_class = fits.by_class(machines.of(Request(priority_class=name)))  # type: ignore[arg-type]
        assert by_class is not None
        of = [PRIORITY_CLASSES.index(each) for each in by_class.counted]
        counted[code][sold] = promised[of][:, sold].sum(axis=0)
        most[code][sold] = by_class.most[sold]
        old = by_class.old
    used = np.where(machines.has_report, machines.of_classes[MEASURED], np.nan)
    return ClassSums(promised, counted, most, used, old, tuple(sold))
