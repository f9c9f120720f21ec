"""Data locality: prefers machines that have the images and data sets that the requested instance uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.plugin import Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class DataLocality(Plugin):
    """Prefer machines that hold the data that the request's ``data_labels`` name: 100 times the share that is there.

    A machine holds ``NAME`` when it has a label of that key with any value but ``false``; with ``NAME=VALUE`` it must
    have that value.
    """

    name = "data_locality"
    looks_at = ("data_labels",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.data_labels)

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        """Return the share of the data that the machine holds, times 100."""
        held = np.zeros(len(machines))
        for text in request.data_labels:
            key, equals, value = text.partition("=")
            column = machines.label(key)
            good = [each == value if equals else each != "false" for each in column.values] or [False]
            held += (column.codes >= 0) & np.array(good)[column.codes]
        return (100.0 * held / len(request.data_labels),)
