"""Small views: what is learned, lists of machines and of instances, health, a plot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.tables.learned import Learned, Use
from scorer.client import HealthResult, InstanceRow, InstancesResult, InstanceUsage, MachinesResult
from scorer.commands.instances import instances
from scorer.commands.instances.instances import _page
from scorer.commands.machines import machines
from scorer.commands.placing.plot import save_plot
from scorer.commands.running import health, learned
from scorer.commands.shared.in_words import answer_of
from tests.scorer.fleets import fleet, machine, mixed, ranked
from tests.scorer.rpc.test_results import Scorer


def seen(instances: float) -> Use:
    return Use(time=600.0, mean=0.5, between=0.1, within=0.1, seen=instances)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param(None, "nothing is learned yet", id="nothing"),
        pytest.param(Learned(version=1), "no instance is measured", id="no reports"),
        pytest.param(Learned(uses={"": {"cpu": seen(1.0)}}), "1 instance measured for 10m or longer", id="one"),
        pytest.param(Learned(uses={"": {"cpu": seen(19.2)}}), "use by kind is learned from 20 on", id="some"),
        pytest.param(
            Learned(
                uses={"": {"cpu": seen(20.0)}}, instances={"": {"cpu": 20.0}},
                deviations={"": {"cpu": 0.1}}, factors={"cpu": 0.5},
            ),
            "0.50 ± 0.10",
            id="enough",
        ),
    ],
)  # fmt: skip
def test_how_much_is_learned(value: Learned | None, said: str) -> None:
    """Too few instances are counted, with how many are needed."""
    assert said in learned.show(value, now_s=1.0)


@pytest.mark.parametrize(
    ("limit", "more", "shown", "total"),
    [(5, {}, 5, 25), (15, {}, 15, 25), (30, {}, 25, 25), (15, {"selector": "machine!=m03"}, 15, 24)],
)
def test_the_total_is_that_of_the_fleet(
    monkeypatch: pytest.MonkeyPatch, limit: int, more: dict[str, Any], shown: int, total: int
) -> None:
    """However many pages are read; one by one they end where the limit is reached."""
    scorer = Scorer(fleet(*(machine(f"m{number:02}") for number in range(25))))

    def read(_: Any, kind: type[MachinesResult], method: str, params: dict[str, Any]) -> MachinesResult:
        return msgspec.convert(scorer.ask(method, **params), kind)

    monkeypatch.setattr(machines.ask, "read", read)
    monkeypatch.setattr(machines, "_PAGE", 10)
    found, _ = machines._found(machines.ListSettings(limit=limit, **more))
    assert (len(found.machines), found.total, found.more) == (shown, total, shown < total)


HEALTHY = HealthResult(
    ready=True, scorer="s", version="1", uptime_s=9.0, machines=2, machines_with_data=1, newest_sample_age_s=3.0,
    windows_s=[300], instances=4, ledger_change=7, profiles=["windward"], profile="windward",
)  # fmt: skip


@pytest.mark.parametrize("field", ["ledger_refusal", "ledger_unaccepted", "ledger_unsafe"])
def test_what_is_wrong_with_the_ledger_is_told(field: str) -> None:
    """In the words of the scorer; nothing when all is well."""
    assert "warning" not in health.show(HEALTHY)
    told = health.show(
        HealthResult(**{**{name: HEALTHY[name] for name in HEALTHY.__struct_fields__}, field: "it is full"})
    )
    assert "warning: it is full" in told.splitlines()


USAGE = InstanceUsage(
    at=1_000.0, since=400.0, count=11, partial=True, recent={"cpu": 1.5, "memory": 2e9},
    daily={"cpu": 1.25}, variance={"cpu": 0.5}, day_peak={"cpu": 3.0},
)  # fmt: skip


def row(instance_id: str, usage: InstanceUsage | None) -> InstanceRow:
    return InstanceRow(id=instance_id, machine="m", state="confirmed", cpu=2.0, memory=4e9, usage=usage)


def shown(*rows: InstanceRow) -> str:
    return instances.show(InstancesResult(instances=list(rows), total=len(rows), more=False), now_s=1_060.0)


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


def test_a_plot_is_a_png(tmp_path: Any) -> None:
    """The candidates are drawn into a PNG file, and so is an answer without any."""
    for name, offline in (("some", fleet(machine("m", usage={"cpu": 1, "memory": 1}))), ("none", mixed())):
        path = tmp_path / f"{name}.png"
        save_plot(answer_of(ranked(offline, cpu=1)), path)
        assert path.read_bytes().startswith(b"\x89PNG")
