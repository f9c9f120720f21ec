"""The mix of what was placed lately: its kinds, their shares, and their mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.planning.capacity.mix import CYCLE_MAX, KINDS_MAX, mean_of, mix_of

NOW_S = 1_700_000_000.0


def placed(cpu: float, ago_s: float = 60.0, **more: Any) -> Instance:
    """An instance that was placed so long ago."""
    amounts = Request(cpu=cpu, memory=1e9).given_amounts()
    return Instance(id="i", machine="m", state="confirmed", amounts=amounts, reserved_at=NOW_S - ago_s, **more)


def test_kinds_by_what_is_asked() -> None:
    """The most frequent first; what was placed before the moment does not count."""
    lately = [placed(1.0)] * 6 + [placed(2.0)] * 2 + [placed(1.0, priority_class="batch")] * 4
    mix = mix_of([*lately, placed(9.0, ago_s=3_600)], NOW_S - 600)
    assert [(kind.request.cpu, kind.request.priority_class, kind.instances, kind.cycle) for kind in mix.kinds] == [
        (1.0, "prod", 6, 3), (1.0, "batch", 4, 2), (2.0, "prod", 2, 1),
    ]  # fmt: skip
    assert (mix.instances, mix.covered) == (12, 12)
    assert mix.kinds[0].request.nic is None
    assert mean_of([mix.kinds[0], mix.kinds[2]]).cpu == pytest.approx(5 / 4)
    assert mix_of([], NOW_S).kinds == ()


def test_many_sizes_are_a_few_kinds() -> None:
    """Within a factor of about two they are one, with their mean: the sum of what was asked stays."""
    sizes = [0.5 + n / 100 for n in range(100)]
    mix = mix_of([placed(size) for size in sizes], 0.0)
    assert 1 < len(mix.kinds) <= KINDS_MAX
    assert sum((kind.request.cpu or 0) * kind.instances for kind in mix.kinds) == pytest.approx(sum(sizes))


def test_what_is_expected_is_in_the_mean_only_where_all_say_it() -> None:
    """Otherwise the profile's estimate holds."""
    said = {"expected": (0.5, *[-1.0] * (len(RESOURCES) - 1))}
    kinds = mix_of([placed(1.0, **said), placed(2.0, **said), placed(4.0)], 0.0).kinds
    assert [kind.request.expected for kind in kinds] == [{"cpu": 0.5}, {"cpu": 0.5}, {}]
    assert mean_of(kinds[:2]).expected == {"cpu": 0.5}
    assert mean_of(kinds).expected == {}


@given(st.lists(st.floats(0.01, 1e4), max_size=60), st.lists(st.sampled_from(["", "web", "db"]), max_size=3))
def test_a_cycle_is_short_and_has_every_kind(sizes: list[float], names: list[str]) -> None:
    """So many kinds at most, each at least once in a cycle."""
    mix = mix_of([placed(size, kind=name) for size in sizes for name in names or [""]], 0.0)
    assert len(mix.kinds) <= KINDS_MAX
    assert all(kind.cycle >= 1 for kind in mix.kinds)
    assert sum(kind.cycle for kind in mix.kinds) <= CYCLE_MAX + KINDS_MAX
    assert mix.covered <= mix.instances
