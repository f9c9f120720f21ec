"""The instance table: the usage of each (machine, instance) of one partition, as a stream worker measured it.

One Redis value in the encoding of `schemas.tables.window_table`, without windows. A row is a pair; its name is the
machine's id, a tab and the instance's id. The row without an instance's id is the machine's *system*: usage by no
instance. ``offset`` and ``topic_id`` of the header are the position in the log up to which reports were applied.
Axes: R resources as in the window table; F the resources that have a variance and a peak (cpu and memory); K pairs.

| column    | dtype, shape | meaning                                                                              |
|-----------|--------------|--------------------------------------------------------------------------------------|
| at        | f8 [K]       | end of the last report applied                                                       |
| since     | u4 [K]       | end of the first report, whole epoch seconds                                         |
| count     | u2 [K]       | reports applied, 65,535 at most                                                      |
| partial   | u1 [K]       | 1: it was in the first report of its machine, so its earlier usage is unknown        |
| recent    | f4 [R, K]    | exponential mean of about the last 30 minutes; NaN: never measured                   |
| daily     | f4 [R, K]    | the same of about 24 hours                                                           |
| variance  | f4 [F, K]    | variance of the reports' means around ``daily``, with its weights                    |
| day_peak  | f4 [F, K]    | highest mean of a report since the local day of ``at`` began                         |

63 bytes a pair for four resources, besides the name. An exponential mean of n reports weighs the newest by
``max(1 / n, 1 - exp(-dt / tau))``, dt being the time since the report before: at first it is the plain mean.
"""

from schemas.resources import RESOURCES

SEPARATOR = "\t"
FIRST = 2
"""How many resources, from the first, have a variance and a peak."""
RECENT_S = 1800.0
DAILY_S = 86_400.0

R = len(RESOURCES)
COLUMNS: dict[str, tuple[str, tuple[int, ...], float]] = {
    "at": ("f8", (), 0.0),
    "since": ("u4", (), 0),
    "count": ("u2", (), 0),
    "partial": ("u1", (), 0),
    "recent": ("f4", (R,), float("nan")),
    "daily": ("f4", (R,), float("nan")),
    "variance": ("f4", (FIRST,), float("nan")),
    "day_peak": ("f4", (FIRST,), float("nan")),
}
"""By name: dtype, axes before the pairs', value where nothing is known."""


def pair_name(machine: str, instance_id: str) -> str:
    """Return the name of a row; without an instance's id it is the row of the machine's system."""
    return f"{machine}{SEPARATOR}{instance_id}"
