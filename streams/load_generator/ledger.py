"""Shell: a thread that reads the instances on the fleet's machines from a scorer, at intervals."""

import logging
import threading
import time
import uuid
from typing import Any

import msgspec
import redis

from schemas.names import Names
from schemas.resources import RESOURCES
from schemas.rpc.envelope import Query
from schemas.values.read_json import read_json
from streams.load_generator.source.instances import Instances, Running
from streams.load_generator.source.source import Machines

log = logging.getLogger("windward.fleet")

LOOK_S = 2.0
ANSWER_S = 5.0
PAGE = 1_000


class LedgerWatch(threading.Thread):
    """Keeps `latest` equal to the ledger; without an answer it stays unchanged."""

    def __init__(self, server: redis.Redis, names: Names, machines: Machines, look_s: float = LOOK_S) -> None:
        super().__init__(name="ledger", daemon=True)
        self.latest = Instances(machines)
        self._machines = machines
        self._server = server
        self._names = names
        self._stop_event = threading.Event()
        self._look_s = look_s
        self._answered = True

    def run(self) -> None:
        while not self._stop_event.wait(self._look_s):
            try:
                found = self._ask()
            except (redis.RedisError, msgspec.MsgspecError, LookupError, TypeError) as error:
                if self._answered:
                    log.warning("fleet.ledger.away", extra={"values": {"error": str(error)}})
                self._answered = False
                continue
            self._answered = True
            self.latest = Instances(self._machines, found)

    def stop(self) -> None:
        self._stop_event.set()
        self.join(timeout=0.1)  # it may wait for an answer; it holds nothing

    def _ask(self) -> list[Running]:
        found: list[Running] = []
        page: dict[str, Any] = {"instances": [], "more": True}
        while page["more"] and not self._stop_event.is_set():
            page = self._page(found[-1].id if found else "")
            found += [_running(row) for row in page["instances"]]
        return found

    def _page(self, after: str) -> dict[str, Any]:
        """Return one page of the confirmed instances. Raises redis.RedisError, also when no scorer answers."""
        params = msgspec.Raw(msgspec.json.encode({"state": "confirmed", "after": after, "limit": PAGE}))
        query = Query(
            id=f"fleet-{uuid.uuid4().hex}", method="instances", deadline=time.time() + ANSWER_S, params=params
        )
        self._server.lpush(self._names.queries, msgspec.json.encode(query))
        answer: Any = self._server.blpop([self._names.reply(query.id)], timeout=ANSWER_S)
        if answer is None:
            raise redis.TimeoutError("no scorer answers")
        reply = read_json(answer[1])
        if not reply["ok"]:
            raise redis.RedisError(reply["error"]["message"])
        page: dict[str, Any] = reply["result"]
        return page


def _running(row: dict[str, Any]) -> Running:
    amounts = {name: float(row.get(name) or 0.0) for name in RESOURCES}
    return Running(row["id"], row["machine"], float(row["started_at"]), amounts)
