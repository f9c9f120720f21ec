"""The text of the page: read back by both of Prometheus' own parsers; its labels; the exporter's own process on it."""

import builtins
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ops.exporter.exporter import process_families
from ops.exporter.exposition import SECONDS, Family, MachineNames, page
from ops.exporter.settings import label_name, label_names
from schemas.process.pages import add_process
from tests.effort import examples
from tests.ops.metrics import PROCESS

NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=12),
    min_size=1, max_size=8, unique=True,
)  # fmt: skip
VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1) | st.integers(0, 2**50).map(float)


def read(families):
    """Return every sample, by name and labels; both formats must agree."""
    found = []
    for parse, body in ((parse_text, page(families)), (parse_open_metrics, page(families, open_metrics=True))):
        samples = [sample for family in parse(body.decode()) for sample in family.samples]
        by_key = {(each.name, *sorted(f"{k}={v}" for k, v in each.labels.items())): each.value for each in samples}
        assert len(by_key) == len(samples)
        found.append(by_key)
    assert found[0] == found[1]
    return found[0]


@settings(max_examples=examples(20, 500), deadline=None)
@given(NAMES, st.data())
def test_a_column_is_read_back(names, data):
    """Whatever the names and values: known values of the chosen rows are there, within seven decimals; no other."""
    values = np.array([data.draw(VALUES) for _ in names])
    rows = np.array([data.draw(st.booleans()) for _ in names])
    family = Family("m", "about")
    family.add_column(MachineNames(names), values, rows, labels={"resource": 'a"b\\c\nd'})
    wanted = {
        ("m", f"machine={name}", 'resource=a"b\\c\nd'): value
        for name, value, row in zip(names, values.tolist(), rows.tolist(), strict=True)
        if row and math.isfinite(value)
    }
    got = read([family]) if not family.empty else {}
    assert got.keys() == wanted.keys()
    for key, value in wanted.items():
        assert got[key] == pytest.approx(value, rel=1e-15, abs=5.1e-8)


def test_a_value_too_wide_for_its_digits_is_written_in_full():
    """A machine at 25 times its capacity, or below zero, is shown as it is; a time keeps its milliseconds."""
    family = Family("m", "about")
    family.add_column(MachineNames(["a", "b", "c"]), np.array([25.5, -0.25, 9.99999999]))
    times = Family("t", "about")
    times.add_column(MachineNames(["a"]), np.array([1_700_000_000.125]), None, SECONDS)
    assert read([family, times]) == {
        ("m", "machine=a"): 25.5, ("m", "machine=b"): -0.25, ("m", "machine=c"): 9.99999999,
        ("t", "machine=a"): 1_700_000_000.125,
    }  # fmt: skip


def test_labels_of_machines_follow_their_names():
    """Each machine has the labels it has; their values are escaped already."""
    family = Family("info", "about")
    family.add_texts(MachineNames(["a", "bb"]), [b',zone="1"', b""], np.array([True, True]))
    assert read([family]) == {("info", "machine=a", "zone=1"): 1.0, ("info", "machine=bb"): 1.0}


def test_a_counter_is_named_as_each_format_wants():
    """OpenMetrics names the family without ``_total``; text, with it; a family without lines is in neither."""
    counter = Family("pages_total", "about", "counter")
    counter.add(3, outcome="complete")
    empty = Family("empty", "about")
    assert page([counter, empty]) == (
        b'# HELP pages_total about\n# TYPE pages_total counter\npages_total{outcome="complete"} 3\n'
    )
    assert page([counter, empty], open_metrics=True) == (
        b'# HELP pages about\n# TYPE pages counter\npages_total{outcome="complete"} 3\n# EOF\n'
    )


@settings(deadline=None)
@given(st.text())
def test_every_key_becomes_a_valid_name(key):
    """Prometheus takes it, and does not drop it as one of its own."""
    name = label_name(key)
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name)
    assert not name.startswith("__")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param(("a.b", "a-b"), "'a.b' and 'a-b' would both be the label a_b", id="two-alike"),
        pytest.param(("zone", "zone"), "'zone' and 'zone' would both", id="twice"),
        pytest.param(("machine",), "'machine' would be the label machine, which is taken", id="ours"),
        pytest.param(("fleet",), "which is taken", id="the-fleet"),
        pytest.param(("instance",), "which is taken", id="prometheus"),
    ],
)
def test_collisions_are_refused(keys, said):
    with pytest.raises(ValueError, match=r"^labels: ") as error:
        label_names(keys)
    assert said in str(error.value)


def test_names_are_kept_by_key():
    assert label_names(("zone", "topology.kubernetes.io/region")) == {
        "zone": "zone",
        "topology.kubernetes.io/region": "topology_kubernetes_io_region",
    }


def last_values():
    """Return the last value by metric of a page of these families; both formats have the same metrics."""
    registry = CollectorRegistry()
    add_process(registry)
    text = parse_text(page(process_families(registry)).decode())
    found = {sample.name: sample.value for family in text for sample in family.samples}
    other = parse_open_metrics(page(process_families(registry), open_metrics=True).decode())
    assert {sample.name for family in other for sample in family.samples} == found.keys()
    return found


def test_the_page_has_what_every_process_s_page_has():
    """CPU, memory, start, open files; the interpreter, too."""
    found = last_values()
    assert found.keys() >= PROCESS
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_resident_memory_bytes"] > 2**20
    assert found["process_max_fds"] >= found["process_open_fds"] > 2
    assert {"python_info", "python_gc_collections_total"} <= found.keys()


def test_without_proc_the_rest_is_there(monkeypatch):
    real = builtins.open

    def elsewhere(file, *more, **named):
        if Path(str(file)).is_relative_to("/proc"):
            raise FileNotFoundError(file)
        return real(file, *more, **named)

    monkeypatch.setattr(builtins, "open", elsewhere)
    found = last_values()
    assert not [name for name in found if name.startswith("process_")]
    assert "python_info" in found
