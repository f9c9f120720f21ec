"""Makes one page at a time: reads the state, renders it, and measures both."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry

from ops.exporter import fleet
from ops.exporter.exposition import Family, lines, page, single
from ops.exporter.machines import MachineFamilies
from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Away, Reader, State
from schemas.process.pages import add_process
from scorer.ranking.profiles.catalogue import Profiles

log = logging.getLogger("windward.exporter")


class Exporter:
    """Makes the page; `profiles` may be replaced at any time."""

    def __init__(
        self,
        reader: Reader,
        settings: ExporterSettings,
        profiles: Profiles,
        version: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.profiles = profiles
        self._reader = reader
        self._settings = settings
        self._machines = MachineFamilies(settings)
        self._registry = CollectorRegistry()
        add_process(self._registry)
        self._version = version
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._pages = {"complete": 0, "away": 0}
        self._said = self._said_of_probe = ""
        self._shown = True

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether Redis can be read, and the error."""
        with self._one_at_a_time:
            try:
                self._read()
            except Away as error:
                return False, {"error": str(error)}
        return True, {}

    def render(self, *, open_metrics: bool = False) -> bytes:
        with self._one_at_a_time:
            begin = time.perf_counter()
            try:
                state = self._read()
            except Away as error:
                self._pages["away"] += 1
                self._say(str(error))
                return self._page(self._own(0.0, 0.0, up=False), open_metrics)
            self._pages["complete"] += 1
            self._say("")
            read = time.perf_counter()
            families = [*fleet.families(state, self._settings, self._say_of_probe), *self._of_machines(state)]
            made = time.perf_counter()
            return self._page([*families, *self._own(read - begin, made - read, up=True)], open_metrics)

    def _page(self, families: list[Family], open_metrics: bool) -> bytes:
        shown = [*families, *process_families(self._registry)]
        return page(shown, open_metrics=open_metrics, shared=self._settings.shared)

    def _read(self) -> State:
        return self._reader.read(self.profiles.choose(), self._clock())

    def _of_machines(self, state: State) -> Iterator[Family]:
        snapshot, settings = state.snapshot, self._settings
        shown = settings.shows_machines(snapshot)
        if self._shown and not shown and settings.per_machine == "auto":
            values = {"machines": len(snapshot), "machines_max": settings.machines_max}
            log.warning("exporter.machines.left_out", extra={"values": values | {"setting": "per_machine"}})
        self._shown = shown
        if shown:
            yield from self._machines.families(state)

    def _own(self, read_s: float, made_s: float, *, up: bool) -> list[Family]:
        pages = [(count, {"outcome": outcome}) for outcome, count in self._pages.items()]
        took = [(round(read_s, 6), {"step": "read"}), (round(made_s, 6), {"step": "make"})] if up else []
        about = "What this page took, before compression, by step."
        return [
            single("windward_exporter_up", "1 when Redis was read for this page; else it shows no machine.", int(up)),
            single("windward_exporter_build_info", "Version of this exporter.", 1, version=self._version),
            lines("windward_exporter_pages_total", "Pages made, by outcome.", pages, "counter"),
            lines("windward_exporter_page_duration_seconds", about, took),
            single(
                "windward_exporter_shows_machines", "1 while series of single machines are shown.", int(self._shown)
            ),
        ]

    def _say(self, trouble: str) -> None:
        """Log once when a server is away, and once when it is back."""
        if trouble and not self._said:
            log.warning("exporter.redis.away", extra={"values": {"error": trouble}})
        elif self._said and not trouble:
            log.info("exporter.redis.back")
        self._said = trouble

    def _say_of_probe(self, trouble: str) -> None:
        """Log each reason why the probe cannot be ranked once; its families have no values then."""
        if trouble and trouble != self._said_of_probe:
            log.warning("exporter.probe.failed", extra={"values": {"error": trouble}})
        self._said_of_probe = trouble


def process_families(registry: CollectorRegistry) -> Iterator[Family]:
    """Yield prometheus_client's current figures of the exporter's own process.

    CPU, memory, start and open files are ``process_*``, as on the page of every process. ``python_*`` are the
    interpreter and its garbage collection. Without ``/proc`` the first are left out.
    """
    for metric in registry.collect():
        counts = metric.type == "counter"
        name = f"{metric.name}_total" if counts else metric.name
        values = [(one.value, one.labels) for one in metric.samples]
        yield lines(name, metric.documentation, values, "counter" if counts else "gauge")
