"""The filter `masters`: how many masters of a cluster share a machine."""

from __future__ import annotations

from scorer.ranking.filters.masters import Masters
from tests.rows import each_row
from tests.scorer.fleets import machine, passes


@each_row(
    ("there", "total", "passed"),
    [(0, 1, True), (0, 2, True), (1, 3, False), (1, 4, False), (1, 5, True), (2, 6, False), (2, 7, True)],
)
def test_masters_of_one_cluster(there: int, total: int, passed: bool) -> None:
    """A machine stays below half of a cluster's masters; the first is always allowed."""
    taken = [{"id": f"i{n}", "machine": "m", "cluster": "c", "role": "master"} for n in range(there)]
    taken += [{"id": "replica", "machine": "m", "cluster": "c", "role": "replica"}]
    taken += [{"id": "other", "machine": "m", "cluster": "d", "role": "master"}]
    asked = {"cluster": "c", "role": "master", "cluster_masters": total}
    assert passes(Masters(), machine("m"), instances=taken, **asked) == ("m" if passed else "")
    assert passes(Masters(), machine("m"), instances=taken, **(asked | {"role": "replica"})) == "m"
