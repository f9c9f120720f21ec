"""Makes one page at a time: reads the state, renders it, and measures both."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry

from ops.exporter import fleet
from ops.exporter.exposition import Family, page
from ops.exporter.machines import MachineFamilies
from ops.exporter.selection import Selection
from ops.exporter.state import Away, Reader, State
from schemas.process.pages import add_process
from scorer.ranking.profiles.catalogue import Profiles

log = logging.getLogger("windward.exporter")


class Exporter:
    """Makes the page; `profiles` may be replaced at any time."""

    def __init__(
        self,
        reader: Reader,
        selection: Selection,
        profiles: Profiles,
        version: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.profiles = profiles
        self._reader = reader
        self._selection = selection
        self._machines = MachineFamilies(selection)
        self._process = ProcessFamilies()
        self._version = version
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._pages = {"complete": 0, "away": 0}
        self._said = self._said_of_probe = ""
        self._shown = True

    def ready(self) -> tuple[bool, str]:
        """Return whether Redis can be read, and the error."""
        with self._one_at_a_time:
            try:
                self._read()
            except Away as error:
                return False, str(error)
        return True, ""

    def render(self, *, open_metrics: bool = False) -> bytes:
        """Return the page as of now."""
        with self._one_at_a_time:
            begin = time.perf_counter()
            try:
                state = self._read()
            except Away as error:
                self._pages["away"] += 1
                self._say(str(error))
                return page([*self._own(0.0, 0.0, up=False), *self._process.families()], open_metrics=open_metrics)
            self._pages["complete"] += 1
            self._say("")
            read = time.perf_counter()
            families = [*fleet.families(state, self._selection, self._say_of_probe), *self._of_machines(state)]
            made = time.perf_counter()
            families += [*self._own(read - begin, made - read, up=True), *self._process.families()]
            return page(families, open_metrics=open_metrics)

    def _read(self) -> State:
        return self._reader.read(self.profiles.choose(), self._clock())

    def _of_machines(self, state: State) -> Iterator[Family]:
        snapshot, selection = state.snapshot, self._selection
        shown = selection.shows_machines(snapshot)
        if self._shown and not shown and selection.per_machine == "auto":
            values = {"machines": len(snapshot), "machines_max": selection.machines_max}
            log.warning("exporter.machines.left_out", extra={"values": values | {"setting": "per_machine"}})
        self._shown = shown
        if shown:
            yield from self._machines.families(state)

    def _own(self, read_s: float, made_s: float, *, up: bool) -> list[Family]:
        found = Family("windward_exporter_up", "1 when Redis was read for this page; else it shows no machine.")
        found.add(int(up))
        build = Family("windward_exporter_build_info", "Version of this exporter.")
        build.add(1, version=self._version)
        pages = Family("windward_exporter_pages_total", "Pages made, by outcome.", "counter")
        for outcome, count in self._pages.items():
            pages.add(count, outcome=outcome)
        took = Family("windward_exporter_page_duration_seconds", "What this page took, before compression, by step.")
        if up:
            took.add(round(read_s, 6), step="read")
            took.add(round(made_s, 6), step="make")
        shown = Family("windward_exporter_shows_machines", "1 while series of single machines are shown.")
        shown.add(int(self._shown))
        return [found, build, pages, took, shown]

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


class ProcessFamilies:
    """What prometheus_client says of the exporter's own process, read anew for each page.

    CPU, memory, start and open files are ``process_*``, as on the page of every process. ``python_*`` are the
    interpreter and its garbage collection. Without ``/proc`` the first are left out.
    """

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
