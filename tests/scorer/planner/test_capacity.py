"""How many more fit, asked of a scorer: as many as the command counts, and as it then places."""

import pytest

from schemas.rpc.request import InvalidRequest
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


@pytest.fixture
def scorer() -> Scorer:
    """Two machines in one rack and one in another."""
    return Scorer(
        fleet(
            machine("a", 8, 100, usage={"cpu": 0.5, "memory": 5}, labels={"rack": "r1"}),
            machine("b", 8, 100, usage={"cpu": 0.5, "memory": 5}, labels={"rack": "r1"}),
            machine("c", 4, 100, usage={"cpu": 0.5, "memory": 5}, labels={"rack": "r2"}),
        )
    )


def test_as_many_as_are_placed(scorer: Scorer) -> None:
    """What it says fits is placed, and one more is refused for the reason that it gave."""
    found = scorer.ask("capacity", cpu=2, memory=1, profile="kubernetes")
    assert found["fit"] == 10
    assert found["limits"] == [{"filter": "fits", "machines": 3, "reason": found["limits"][0]["reason"]}]
    placed = [scorer.ask("place", id=f"n{n}", cpu=2, memory=1, profile="kubernetes") for n in range(found["fit"] + 1)]
    assert [one["machine"] is not None for one in placed] == [True] * found["fit"] + [False]
    assert scorer.ask("capacity", cpu=2, memory=1, profile="kubernetes")["fit"] == 0


@pytest.mark.parametrize(
    ("by", "expected"),
    [("rack", {"r1": 8, "r2": 2}), ("machine", {"a": 4, "b": 4, "c": 2}), ("zone", {"": 10}), ("", {})],
)
def test_counts_by_label(scorer: Scorer, by: str, expected: dict[str, int]) -> None:
    """Most first; machines without the label are one group."""
    found = scorer.ask("capacity", cpu=2, memory=1, profile="kubernetes", by=by)
    assert list(found["by"].items()) == list(expected.items())
    assert (found["fit"], found["machines_with_room"]) == (10, 3)


def test_nothing_is_reserved(scorer: Scorer) -> None:
    """The ledger is as it was."""
    scorer.ask("capacity", id="x", cpu=2)
    assert [one["id"] for one in scorer.ask("instances")["instances"]] == []


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"cpu": 1, "labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}, "topology": "rack"}]},
         "looks at instances of other machines"),
        ({"cpu": "two"}, "cpu"),
        ({"by": 3}, "by"),
        ({"cpus": 3}, "cpus"),
    ],
)  # fmt: skip
def test_refused(scorer: Scorer, params: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidRequest, match=error):
        scorer.ask("capacity", **params)
