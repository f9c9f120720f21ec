"""What prometheus_client says of the exporter's own process, as families of its page.

CPU, memory, start and open files are ``process_*``, as on the page of every process. ``python_*`` are the interpreter
and its garbage collection. Without ``/proc`` the first are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from ops.exporter.exposition import Family
from schemas.process.pages import add_process


class ProcessFamilies:
    """The families of one process, read anew for each page."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        add_process(self._registry)

    def families(self) -> Iterator[Family]:
        """Yield the families as of now."""
        for metric in self._registry.collect():
            if metric.type == "counter":
                family = Family(f"{metric.name}_total", metric.documentation, "counter")
            else:
                family = Family(metric.name, metric.documentation)
            for sample in metric.samples:
                family.add(sample.value, **sample.labels)
            yield family
