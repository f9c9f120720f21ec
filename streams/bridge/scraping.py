"""Scrapes node_exporters, or reads their metrics from Prometheus. Shell.

A few threads read each target over a persistent connection, at its own moment of the interval. Targets that failed last
time have threads of their own, and are tried less and less often, so that a lost rack delays no other. A target that is
still being read at its next moment is left out, and counted. Without an answer nothing is published: the machine turns
stale, as with an agent that ended.
"""

import http.client
import logging
import math
import queue
import ssl
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from schemas.process.http_calls import FAILED, HttpCalls
from streams.bridge.formats.interfaces import NOT_PHYSICAL
from streams.bridge.formats.node_exporter import Value, name_of, points, query_of, read_answer, read_page
from streams.bridge.formats.points import Point, UnreadableError

log = logging.getLogger("windward.bridge")

THREADS_MAX, THREADS_OF_FAILING = 32, 8
PAUSES_MAX = 6
"""A failing target is tried each interval, then each second one, and finally after so many."""
PAGE_MAX = 16 << 20
"""The largest page that is read, bytes."""
ANSWER_MAX = 256 << 20
"""The largest answer of Prometheus, bytes: 4 kB a machine with a few disks and interfaces."""


NO_USER = "user and password are no part of a URL: give scrape_username and WINDWARD_SCRAPE_PASSWORD_FILE"


@dataclass(frozen=True)
class Target:
    url: str
    name: str = ""
    """The machine's name; "": the host's own."""

    @classmethod
    def read(cls, text: str) -> "Target":
        """Return the target of ``HOST:PORT``, ``NAME=HOST:PORT`` or a URL; raises ValueError.

        >>> Target.read("db1=10.0.0.7:9100")
        Target(url='http://10.0.0.7:9100/metrics', name='db1')
        """
        named = "=" in text and not {*"/?"} & {*text.partition("=")[0]}
        name, _, where = text.partition("=") if named else ("", "", text)
        url = where if "://" in where else f"http://{where}"
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or any(each.isspace() for each in text):
            got = "" if "@" in text else f", got {text!r}"  # it may hold a password
            raise ValueError(f"expected HOST:PORT, NAME=HOST:PORT or a URL{got}")
        if "@" in url:
            raise ValueError(NO_USER)
        port = parts.port or (9100 if "://" not in where else None)
        host = parts.netloc if port is None or parts.port else f"{parts.netloc.rstrip(':')}:{port}"
        return cls(f"{parts.scheme}://{host}{parts.path or '/metrics'}{'?' * bool(parts.query)}{parts.query}", name)


@dataclass(frozen=True)
class How:
    """How targets are asked; ``excluded``: the rule of names; ``authorization``: the header's value, if not empty."""

    every_s: float
    timeout_s: float
    excluded: str = NOT_PHYSICAL
    authorization: str = field(default="", repr=False)
    context: ssl.SSLContext | None = None
    """The certificates that targets must have."""


class Page:
    """A URL that is requested repeatedly over one connection. ``how.timeout_s`` is the time limit of a whole answer."""

    def __init__(self, url: str, how: How, most: int = PAGE_MAX) -> None:
        self.url, self.how, self._most, parts = url, how, most, urlsplit(url)
        self._calls = HttpCalls(parts.netloc, None, how.timeout_s, most, parts.scheme == "https", how.context)
        self._path = parts.path + (f"?{parts.query}" if parts.query else "")
        self.close = self._calls.close

    def get(self, form: str = "") -> bytes:
        """Return the body; raises OSError, HTTPException or UnreadableError."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        if self.how.authorization:
            headers["Authorization"] = self.how.authorization
        status, _, body = self._calls.call("POST" if form else "GET", self._path, headers, form or None)
        if status != http.client.OK or len(body) > self._most:
            self.close()
            why = f"HTTP {status}" if status != http.client.OK else f"more than {self._most} bytes"
            raise UnreadableError(f"{self.url}: {why}: {body[:100].decode(errors='replace')}")
        return body


@dataclass(eq=False)
class Scraper:
    """Scrapes targets in turn; their points arrive in the order of the answers."""

    targets: Sequence[Target]
    how: How
    counts: Counter[str] = field(default_factory=Counter)
    """Scrapes by result: read, away, unreadable, late."""

    def __post_init__(self) -> None:
        self._answers: queue.SimpleQueue[tuple[int, list[Point] | Exception]] = queue.SimpleQueue()
        self._asked, self._failing = set[int](), dict[int, int]()

    def run(self, stop: threading.Event, take: Callable[[Sequence[Point]], None]) -> None:
        """Scrape until told to stop; ``take`` is called in this thread."""
        asked, failing = self._asked, self._failing
        pages = [Page(target.url, self.how) for target in self.targets]
        now_s = time.monotonic()
        due = [now_s + self.how.every_s * (zlib.crc32(target.url.encode()) / 2**32) for target in self.targets]

        def ask(number: int) -> None:
            try:
                self._answers.put((number, self._scrape(self.targets[number], pages[number])[1]))
            except (*FAILED, UnreadableError) as error:
                self._answers.put((number, error))

        with (
            ThreadPoolExecutor(min(THREADS_MAX, len(pages)), "scraper") as pool,
            ThreadPoolExecutor(THREADS_OF_FAILING, "scraper-failing") as other,
        ):
            while not stop.is_set():
                now_s = time.monotonic()
                for number, at in enumerate(due):
                    if at > now_s:
                        continue
                    pause = min(1 + failing.get(number, 0) // 2, PAUSES_MAX)
                    due[number] = at + self.how.every_s * (pause + (now_s - at) // self.how.every_s)
                    if number in asked:
                        self.counts["late"] += 1
                    else:
                        asked.add(number)
                        (other if number in failing else pool).submit(ask, number)
                self._gather(min([now_s + 0.5, *due]), take)
            other.shutdown(wait=False, cancel_futures=True)
            pool.shutdown(cancel_futures=True)
        for page in pages:
            page.close()

    def look(self) -> Iterator[tuple[str, Sequence[Value]]]:
        """Yield the machine and the values of each target; raises OSError, HTTPException, UnreadableError."""
        for target in self.targets:
            page = Page(target.url, self.how)
            values, _ = self._scrape(target, page)
            page.close()
            yield target.name or name_of(values), values

    def _gather(self, until_s: float, take: Callable[[Sequence[Point]], None]) -> None:
        """Take answers until a time; log a target's first failure in a row, and its first answer after failures."""
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                number, found = self._answers.get(timeout=left_s)
            except queue.Empty:
                break
            self._asked.discard(number)
            url = self.targets[number].url
            if isinstance(found, Exception):
                self.counts["unreadable" if isinstance(found, UnreadableError) else "away"] += 1
                self._failing[number] = self._failing.get(number, 0) + 1
                if self._failing[number] == 1:
                    log.warning("bridge.target.failed", extra={"values": {"target": url, "error": str(found)[:200]}})
                continue
            self.counts["read"] += 1
            if self._failing.pop(number, 0):
                log.info("bridge.target.back", extra={"values": {"target": url}})
            take(found)
        take(())

    @staticmethod
    def _scrape(target: Target, page: Page) -> tuple[list[Value], list[Point]]:
        begun_s = time.time()
        raw = page.get()
        at = (begun_s + time.time()) / 2
        values = read_page(raw)
        machine = target.name or name_of(values)
        if not machine:
            raise UnreadableError(f"{target.url}: no node_uname_info says the machine's name; give NAME=HOST:PORT")
        return values, points(machine, at, values, target.url, page.how.excluded)


@dataclass(eq=False)
class Asker:
    """Reads the newest scrape of all targets from Prometheus, in one query."""

    url: str
    selector: str
    machine_key: str
    how: How
    counts: Counter[str] = field(default_factory=Counter)
    """Queries by result: read, away, unreadable; and of targets: nameless."""

    def __post_init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._page = Page(f"{self.url.rstrip('/')}/api/v1/query", self.how, ANSWER_MAX)
        self._form = urlencode({"query": query_of(self.selector)})

    def run(self, stop: threading.Event, take: Callable[[Sequence[Point]], None]) -> None:
        failing = False
        while not stop.is_set():
            begun_s = time.monotonic()
            found = list[Point]()
            try:
                found = self.read(self._page.get(self._form))
            except (*FAILED, UnreadableError) as error:
                self.counts["unreadable" if isinstance(error, UnreadableError) else "away"] += 1
                if not failing:
                    values = {"prometheus": self.url, "error": str(error)[:200]}
                    log.warning("bridge.prometheus.failed", extra={"values": values})
                failing = True
            else:
                if failing or not self.counts["read"]:
                    machines = len({one.machine for one in found})
                    log.info("bridge.prometheus.read", extra={"values": {"machines": machines, **self.counts}})
                self.counts["read"] += 1
                failing = False
            take(found)
            stop.wait(max(self.how.every_s - (time.monotonic() - begun_s), 0.0))
        self._page.close()

    def look(self) -> Iterator[tuple[str, Sequence[Value]]]:
        """Yield the machine and the values of each target; raises OSError, HTTPException, UnreadableError."""
        found = read_answer(self._page.get(self._form), self.machine_key)
        self._page.close()
        for one in found:
            yield one.machine, one.values

    def read(self, answer: bytes) -> list[Point]:
        """Return the points of the scrapes in an answer that were not read before; raises UnreadableError."""
        found, seen, scrapes = list[Point](), self._seen, read_answer(answer, self.machine_key)
        for one in scrapes:
            if not one.machine:
                self.counts["nameless"] += 1
            elif one.at > seen.get(one.target, -math.inf):
                found += points(one.machine, one.at, one.values, one.target, self.how.excluded)
        self._seen = {one.target: one.at for one in scrapes}
        return found
