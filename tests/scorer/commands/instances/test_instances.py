"""What `windward instances` shows of usage: where it is measured, and only there."""

from __future__ import annotations

from scorer.client import InstanceRow, InstancesResult, InstanceUsage
from scorer.commands.instances.instances import _page, show

USAGE = InstanceUsage(
    at=1_000.0, since=400.0, count=11, partial=True, recent={"cpu": 1.5, "memory": 2e9},
    daily={"cpu": 1.25}, variance={"cpu": 0.5}, day_peak={"cpu": 3.0},
)  # fmt: skip


def row(instance_id: str, usage: InstanceUsage | None) -> InstanceRow:
    """A row of the answer."""
    return InstanceRow(id=instance_id, machine="m", state="confirmed", cpu=2.0, memory=4e9, usage=usage)


def shown(*rows: InstanceRow) -> str:
    """The list of them."""
    return show(InstancesResult(instances=list(rows), total=len(rows), more=False), now_s=1_060.0)


def test_the_list_has_what_is_used_beside_what_was_asked() -> None:
    """A dash where nothing is measured; without any usage the columns are not there."""
    text = shown(row("a", USAGE), row("b", None))
    head, first, second, _ = text.splitlines()
    assert head.split("  ")[-1].strip()
    assert "cpu used" in head
    assert "1.50" in first
    assert "2.00G" in first or "2.0G" in first
    assert "1.50" not in second
    assert "used" not in shown(row("b", None))


def test_the_page_says_since_when_it_is_measured() -> None:
    """And that an instance which was there before has an unknown past."""
    text = _page(row("a", USAGE), 1_060.0)
    assert "used, 30 min     cpu 1.50" in text
    assert "peak of the day  cpu 3.00" in text
    assert "11 reports" in text
    assert "1m ago; what it used before is not known" in text
    assert "used" not in _page(row("a", None), 1_060.0)
