"""The predicted peaks: the usage that prod, and the system, will rarely exceed on each machine.

Two Redis values in the encoding of `schemas.tables.window_table`, without windows, a row a machine. One scorer writes
both after each observation: the peaks, which all scorers read, and the histograms, from which the next scorer
continues. Axes: I prod and the system; F the resources cpu and memory; B buckets; M machines.

| value      | column  | dtype, shape    | meaning                                                              |
|------------|---------|-----------------|----------------------------------------------------------------------|
| peaks      | at      | f8 [M]          | when usage was last observed, epoch s                                |
|            | since   | f8 [M]          | when it was first observed                                           |
|            | peak    | f4 [I, F, M]    | share of capacity: quantile 0.95 of cpu, 0.98 of memory; NaN unknown |
| histograms | at, since | f8 [M]        | the same                                                             |
|            | weights | u2 [I, F, B, M] | weights of the buckets, the largest of a histogram being 10,000      |
|            | largest | f4 [I, F, M]    | the weight of the largest bucket                                     |

800 bytes a machine, besides its name.
"""

from __future__ import annotations

PREDICTED = ("prod", "system")
RESOURCES = 2
"""The first of `schemas.resources`: cpu and memory."""
QUANTILES = (0.95, 0.98)
HALF_LIVES_S = (12 * 3600.0, 24 * 3600.0)
WEIGHT_MAX = 10_000
COLD_S = 86_400.0
"""A machine has a prediction after its usage was observed for so long."""
EXPIRES_S = 1800.0
"""A prediction is ignored when its usage was not observed for so long."""
