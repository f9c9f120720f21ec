"""A table of metrics: known labels begin at 0; each object has a registry of its own."""

from __future__ import annotations

from prometheus_client import generate_latest

from schemas.process.metrics import Table, counter, gauge, histogram


class Metrics(Table):
    """One row of each kind."""

    PROCESS = "try"

    done = counter("windward_try_done", "Done, by kind and result", kind=("a", "b"), result=("ok",))
    asked = counter("windward_try_asked", "Asked, by whom", who=())
    held = gauge("windward_try_held", "Held")
    seconds = histogram("windward_try_seconds", "Time", (1.0, 2.0), verb=("get",))


def test_known_labels_begin_at_0() -> None:
    """All combinations of them; a label whose values are not known has none, and a metric without labels is 0."""
    lines = generate_latest(Metrics("7").registry).decode().splitlines()
    shown = [line for line in lines if not line.startswith("#") and "_created" not in line]
    assert [line for line in shown if "done" in line] == [
        'windward_try_done_total{kind="a",result="ok"} 0.0', 'windward_try_done_total{kind="b",result="ok"} 0.0',
    ]  # fmt: skip
    assert not [line for line in shown if "asked" in line]
    assert "windward_try_held 0.0" in shown
    assert 'windward_try_seconds_bucket{le="2.0",verb="get"} 0.0' in shown
    assert 'windward_try_build_info{version="7"} 1.0' in shown


def test_each_table_counts_for_itself() -> None:
    """A process or a test may hold several."""
    one, other = Metrics(), Metrics()
    one.done.labels("a", "ok").inc()
    assert 'windward_try_done_total{kind="a",result="ok"} 0.0' in generate_latest(other.registry).decode()
