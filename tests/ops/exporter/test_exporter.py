"""The exporter's own process on its page."""

import builtins
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ops.exporter.exporter import process_families
from ops.exporter.exposition import page
from schemas.process.pages import add_process
from tests.ops.metrics import PROCESS


def read() -> dict[str, float]:
    """Return the last value by metric of a page of these families; both formats have the same metrics."""
    registry = CollectorRegistry()
    add_process(registry)
    text = parse_text(page(process_families(registry)).decode())
    found = {sample.name: sample.value for family in text for sample in family.samples}
    other = parse_open_metrics(page(process_families(registry), open_metrics=True).decode())
    assert {sample.name for family in other for sample in family.samples} == found.keys()
    return found


def test_the_page_has_what_every_process_s_page_has() -> None:
    """CPU, memory, start, open files; the interpreter, too."""
    found = read()
    assert found.keys() >= PROCESS
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_resident_memory_bytes"] > 2**20
    assert found["process_max_fds"] >= found["process_open_fds"] > 2
    assert {"python_info", "python_gc_collections_total"} <= found.keys()


def test_without_proc_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a platform that has none: no ``process_*``, and no error."""
    real = builtins.open

    def elsewhere(file: Any, *more: Any, **named: Any) -> Any:
        if Path(str(file)).is_relative_to("/proc"):
            raise FileNotFoundError(file)
        return real(file, *more, **named)

    monkeypatch.setattr(builtins, "open", elsewhere)
    found = read()
    assert not [name for name in found if name.startswith("process_")]
    assert "python_info" in found
