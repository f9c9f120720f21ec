"""The resources and statistics of load that a filter or a score can be configured with."""

from typing import TYPE_CHECKING, Literal

from schemas.resources import RESOURCES
from scorer.ranking.kernel.layout import STATISTICS

if TYPE_CHECKING:
    ResourceName = str
else:
    ResourceName = Literal[RESOURCES]
    """One of the resources: a profile that names another is refused."""
Statistic = Literal["mean", "p50", "p90", "p95", "p99", "max"]
MISSING = {"refuse": 0, "zero": 0, "pass": 1, "estimates": 2, "mean": 3}
"""What counts where a statistic is missing, by its number in the C functions.

``estimates`` does as Koordinator: a percentile over a window less than half covered counts as missing, and the
estimates of all instances placed count instead. With ``mean`` the mean counts. Without any measurement nothing does.
"""


def number_of(statistic: Statistic) -> int:
    """Return the number by which C functions know a statistic; -1 for the mean."""
    return -1 if statistic == "mean" else STATISTICS.index(statistic)
