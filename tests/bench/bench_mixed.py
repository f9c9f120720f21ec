"""A mixed load on one scorer: placements a second, waiting, and the cost of a decision by its parts alone.

`tests.bench.bench_against` and `tests.bench.bench_growth` measure with it. Eight clients place
(`tests.bench.mixed_requests` has the kinds of load). Of ten instances one is confirmed, resized, moved and released
while others are placed; the others expire after the turn. Beside them a bare echo over two lists of the same server is
asked every 10 ms. Times are in us; ``scorer`` and ``server`` are processor time a placement, with all that the process
does meanwhile.

`DecisionsAlone` has the parts of a scorer in one process, asks its service one placement after the other, and has it
read windows after every 20th; ``decision`` and ``flush`` are processor time of that process alone, without the loop,
its threads and the clients.
"""

import asyncio
import itertools
import multiprocessing
import time
import zlib
from contextlib import contextmanager, suppress
from importlib import import_module
from statistics import fmean

import msgspec
import numpy as np
import psutil

from schemas.process.settings import load_settings
from schemas.rpc.envelope import Query
from scorer.client import Client, WindwardError
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.settings import ScorerSettings
from scorer.wire import Wire
from tests.bench.fleet_writer import FLUSH_S, INTERVAL_S, begin, open_store
from tests.bench.mixed_requests import Requests
from tests.bench.servers import own_server

CLIENTS = 8
FLUSH_EVERY = 20
"""In one process windows are read after so many decisions."""
LIFE_EVERY = 10
STEP_EVERY = 2
"""After every second placement an instance in its life takes its next step."""
ECHO_EVERY_S = 0.01
WARM_S = 1.0
_encode = msgspec.json.Encoder().encode


def life(client, name, requests):
    """Confirm, resize, move and release an instance, one call a step; a step that is refused leads to the release."""
    with suppress(WindwardError):
        client.confirm(name)
        yield
        client.update(name, cpu=requests.dice.choice((0.1, 0.3, 0.6)))
        yield
        record = client.update(name, machine="", move=True, ttl_s=30)
        yield
        if record["moving"] is not None:
            moving = record["moving"]
            client.confirm(name, machine=moving["to"], generation=record["generation"], move=moving["number"])
            yield
    client.release(name)


def place_until(url, name, kind, begin, seconds, told):
    """Place as fast as the answers come; tell the times of those asked in the measured part of the turn."""
    times, failed = [], 0
    requests, living = Requests(kind, zlib.crc32(name.encode())), iter(())
    with Client(url, timeout_s=30) as client:
        for number in itertools.count():
            started = time.monotonic()
            if started >= begin + seconds:
                break
            instance = f"{name}-{number}"
            try:
                ttl_s = begin + seconds + 1.0 - started  # it does not expire in this turn
                found = client.place(id=instance, top=1, ttl_s=ttl_s, **requests.draw())
                if started >= begin:
                    times.append(time.monotonic() - started)
                    failed += found["machine"] is None
                if number % LIFE_EVERY == 0 and found["machine"] is not None:
                    for _ in living:
                        pass
                    living = life(client, instance, requests)
                if number % STEP_EVERY == 0:
                    next(living, None)
            except WindwardError:
                failed += 1
        for _ in living:
            pass
    told.put((times, failed))


def echo_server(url):
    wire = Wire({"url": url})
    while True:
        (got,) = wire.ask([("BLPOP", "echo:queries", 1)], 1.0)
        if got is not None:
            wire.post([("LPUSH", "echo:reply", got[1])])


@contextmanager
def echo_on(url):
    """Run an echo on that server until the block ends."""
    echo = multiprocessing.Process(target=echo_server, args=(url,), daemon=True)
    echo.start()
    try:
        yield
    finally:
        echo.kill()
        echo.join()


class MixedLoad:
    def __init__(self, rig):
        self._rig = rig
        self._turns = 0

    def __call__(self, kind, seconds):
        self._turns += 1
        rig = self._rig
        rig.tell("go")
        told = multiprocessing.Queue()
        begin = time.monotonic() + 0.3 + WARM_S
        clients = [
            multiprocessing.Process(
                target=place_until, args=(rig.url, f"{self._turns}-{n}", kind, begin, seconds, told), daemon=True
            )
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        time.sleep(max(0.0, begin - time.monotonic()))
        before = rig.processors()
        echoes = self._echoes(begin + seconds)
        after = rig.processors()
        answers = [told.get() for _ in clients]
        for client in clients:
            client.join()
        said = rig.tell("pause")
        rig.await_the_end()
        times = 1e6 * np.concatenate([each for each, _ in answers])
        (p50, p99), (echo_p50, echo_p99) = np.percentile(times, [50, 99]), np.percentile(echoes, [50, 99])
        return {
            "placements/s": len(times) / seconds,
            "p50": p50,
            "p99": p99,
            "echo p50": echo_p50,
            "echo p99": echo_p99,
            "p99 / echo": p99 / echo_p99,
            **{name: (after[name] - before[name]) / len(times) for name in before},
            "scorer memory": float(psutil.Process(rig.scorer).memory_info().rss),
            "failed": float(sum(failed for _, failed in answers)),
            **said,
        }

    def _echoes(self, until):
        """Ask the echo until then; return how long each answer took, us."""
        times = []
        while (started := time.monotonic()) < until:
            self._rig.wire.ask([("LPUSH", "echo:queries", b"x" * 200), ("BLPOP", "echo:reply", 5)], 5.0)
            times.append(1e6 * (time.monotonic() - started))
            time.sleep(ECHO_EVERY_S)
        return np.array(times)


class DecisionsAlone:
    def __init__(self, url, machines, *, whole=False):
        self.url = url
        settings = load_settings(ScorerSettings, "scorer", ["--redis-url", url], {})
        self._parts = import_module("scorer.__main__").build(settings, load_profiles())
        self._service = self._parts.rpc._service
        self._loop = asyncio.new_event_loop()
        self._store = open_store(url)[1]
        self._writer = self._loop.run_until_complete(begin(self._store._redis, self._store, machines, whole=whole))
        self._arriving = round(machines / INTERVAL_S * FLUSH_S)
        self._turns = self._queries = 0
        self._ranked_s = 0.0
        """Processor time of all rankings so far."""
        reuse = getattr(self._service._placements, "_reuse", None)  # of an older checkout
        ranks = import_module("scorer.placement.placer") if reuse is None else reuse
        name = "ranked" if hasattr(ranks, "ranked") else "rank"
        setattr(ranks, name, self._timed(getattr(ranks, name)))
        self._taken = getattr(self._service, "taken", lambda _: None)

    def _timed(self, rank):
        def timed(*args, **named):
            started = time.process_time()
            try:
                return rank(*args, **named)
            finally:
                self._ranked_s += time.process_time() - started

        return timed

    def __call__(self, kind, decisions):
        """Return the figures of so many decisions, and of the flushes between them.

        ``both``: a decision, from query to answer, and its share of reading flushes; ``ranking``: of that the ranking
        alone, with the same share.
        """
        self._turns += 1
        self._ranked_s = 0.0
        requests, flush_s, decision_s = Requests(kind, self._turns), [], []
        for number in range(decisions):
            if number % FLUSH_EVERY == 0:
                self._writer.fold(self._writer.messages(self._arriving, time.time()))
                self._loop.run_until_complete(self._writer.publish(self._store))
                started = time.process_time()
                self._parts.refresher.look()
                flush_s.append(time.process_time() - started)
            params = requests.draw() | {"id": f"{self._turns}-{number}", "ttl_s": 1.0, "top": 1}
            decision_s.append(self.place_s(params))
        decision, flush = 1e6 * fmean(decision_s), 1e6 * fmean(flush_s)
        share = flush / FLUSH_EVERY
        ranking = 1e6 * self._ranked_s / decisions + share
        return {"decision": decision, "flush": flush, "both": decision + share, "ranking": ranking}

    def place_s(self, params):
        """Return the processor time of a placement."""
        self._queries += 1
        query = Query(v=1, id=f"q{self._queries}", method="place", params=msgspec.Raw(_encode(params)))
        started = time.process_time()
        self._service.accept(self._parts.wire.ask(self._service.reads()))
        self._taken([query])
        for _ in self._service.steps(query):
            pass
        return time.process_time() - started

    @property
    def snapshot(self):
        return self._parts.current.snapshot

    def fold(self, samples):
        """Return what a sample costs a worker, to fold and to write; so many come at once."""
        arrived = self._writer.messages(samples, time.time())
        started = time.process_time()
        self._writer.fold(arrived)
        folded = time.process_time()
        self._loop.run_until_complete(self._writer.publish(self._store))
        written = time.process_time()
        return {"fold": 1e6 * (folded - started) / samples, "write": 1e6 * (written - folded) / samples}


@contextmanager
def decisions_alone(machines, *, whole=False):
    with own_server() as (url, _):
        yield DecisionsAlone(url, machines, whole=whole)
