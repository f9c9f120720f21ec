"""Filters and scores: their interface, and the list of all of them.

A plugin is a frozen dataclass: its fields are its settings, with defaults, checked in ``__post_init__``. It is called
with the request and all machines at once and never changes either. The built-in ones are in the tuples `FILTERS` of
`scorer.ranking.filters` and `SCORES` of `scorer.ranking.scores`. A package of your own adds more through the entry
point groups ``windward.filters`` and ``windward.scores``. A complete one:

    # pyproject.toml of your package
    # [project.entry-points."windward.scores"]
    # least_crowded = "your_package:LeastCrowded"

    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    @dataclass(frozen=True)
    class LeastCrowded:
        '''Prefer machines with few instances: 100 for none, 0 for ``full`` and more.'''

        name: ClassVar[str] = "least_crowded"
        full: int = 50

        def __post_init__(self):
            if self.full < 1:
                raise ValueError(f"full: expected 1 or more, got {self.full}")

        def __call__(self, request, machines):
            return np.clip(100.0 * (1.0 - machines.count / self.full), 0.0, 100.0)

Optional members, each with a default (see `Filter` and `Score`): ``wanted`` (False: skipped, costs nothing), ``detail``
(the numbers behind one machine's verdict), ``reasons`` (refusals by reason). `scorer.ranking.machines` lists
the columns that `Machines` has; nothing is kept between two decisions.

``momentary = True`` says that a filter refuses for a state that passes (a cordon, a high load): new instances are kept
away, those that are there stay. Without it ``windward plan`` moves every instance that the filter refuses where it is.

A filter on a sum or a count over a machine's instances gives its limit, too. Several scorers may reserve at once; the
script that reserves compares the limit with the ledger's own sum. A limit of 50 instances:

    @dataclass(frozen=True)
    class FewInstances:
        '''Refuse machines with ``most`` instances.'''

        name: ClassVar[str] = "few_instances"
        reason: ClassVar[str] = "too many instances"
        most: int = 50

        def __call__(self, request, machines):
            return machines.count < self.most

        def limit(self, request, machines):
            yield Limit(total("instances"), self.most, self.reason)

``total`` is the sum of a resource, of ``maxmemory`` or of ``instances``, over all or some priority classes; ``on_port``
and ``in_role`` count instances with a port, or with a role in a cluster.
"""

from schemas.rpc.request import Request
from scorer.ledger.record.limits import Limit, in_role, on_port, total
from scorer.ranking.machines import Machines
from scorer.ranking.profiles.plugins import Filter, PluginError, Score, filters, scores
from scorer.snapshot.arrays import Bools, Floats

__all__ = [
    "Bools", "Filter", "Floats", "Limit", "Machines", "PluginError", "Request", "Score", "filters",
    "in_role", "on_port", "scores", "total",
]  # fmt: skip
