"""The golden ledger of this format: a ledger with everything in it that a script writes, as a file.

python -m tests.scorer.ledger.golden_ledger     # writes golden/ledger.v<format>.json anew

Until the first tag the commit that changes the format writes the file anew. From then on a new format adds a file.
"""

import json
import sys
from functools import partial
from itertools import count
from pathlib import Path

import msgspec

from schemas.names import Names
from schemas.rpc.request import read_request
from scorer.ledger.record.instance import Rules
from scorer.ledger.record.limits import Limit, one_to_a_port, total
from scorer.ledger.record.transition import FORMAT, Call, Candidate, Change, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from tests.bench.servers import own_server

GOLDEN = Path(__file__).parent / "golden"
NOW_S = 1_800_000_000

REQUEST = {
    "cpu": 0.5,
    "memory": "1G",
    "disk": 0,
    "maxmemory": "500M",
    "ports": [6379],
    "cluster": "shop",
    "role": "master",
    "cluster_masters": 3,
    "labels": {"app": "é", "moving": '"new":{\n}}'},
    "kind": "redis",
    "limits": {"cpu": 2},
    "expected": {"memory": "2G"},
    "selector": "disk=ssd",
    "tolerations": [{"key": "gpu"}],
}


def clock(seconds):
    """Return the time source of a ledger whose clock stands, so many seconds after `NOW_S`."""
    return f"{{'{NOW_S + seconds}', '250000'}}"


def wanted(instance_id, machine, ttl_s=60.0, query="", **changes):
    record = instance_of(read_request({**REQUEST, "id": instance_id, **changes}), "", 0.0)
    limits = [Limit(total("cpu"), 4.0, "too much cpu promised"), *one_to_a_port(record.ports)]
    record = msgspec.structs.replace(record, request="digest")
    return Wanted(record, ttl_s, [Candidate(machine, -1, limits)], Call(query, NOW_S + 30.0 if query else 0.0))


def fill(wire, names):
    """Write an instance of every kind: reserved, confirmed, moving with and without another size, ended, and so on."""
    draw = partial(next, count(1))
    ledger, later = (Ledger(wire, names, time_source=clock(seconds), draw=draw) for seconds in (0, 10))
    ledger.reserve([wanted("reserved", "m1", query="q1"), wanted("expired", "m2", 5.0), wanted("plain", "m3")])
    for number, name in enumerate(("stays", "moves", "grows", "left", "released", "found")):
        ledger.reserve([wanted(name, f"m{number % 3}", ports=[7000 + number], priority_class="batch", role="replica")])
        ledger.confirm(name, started_at=NOW_S - 5.0)
    live = ledger.all_instances()
    ledger.begin_move(live["moves"], [Candidate("m8", -1)], 3600.0)
    new = msgspec.structs.replace(
        live["grows"], amounts=live["plain"].amounts, maxmemory=9.0, rules=Rules(selector="a")
    )
    ledger.begin_move(live["grows"], [Candidate("m9", -1)], 3600.0, new=new)
    ledger.begin_move(live["left"], [Candidate("m9", -1)], 3600.0)
    old = live["stays"]
    ledger.update(
        [Change(old, msgspec.structs.replace(old, role="master", swap=("stays", "x")), [Candidate("m0", -1)])]
    )
    ledger.lease("check", "golden", 1e6)
    later.confirm("left", machine="m9")
    later.release("released", call=Call("q2", 0.0))
    later.correct([msgspec.structs.replace(live["found"], machine="m7")])
    later.rename("m7", "m6", later.machine_versions()["m7"], ["found"])


def dump(wire, names):
    """Return every key of the ledger by its part of the name; what has no order is sorted."""
    found = {}
    for key in sorted(wire.one("KEYS", f"{names.ledger()}*")):
        kind, part = wire.one("TYPE", key).decode(), key.decode().removeprefix(names.ledger(""))
        if kind == "string":
            found[part] = wire.one("GET", key).decode()
        elif kind == "list":
            found[part] = [one.decode() for one in wire.one("LRANGE", key, 0, -1)]
        elif kind == "stream":
            found[part] = [
                {"id": at.decode(), "fields": [field.decode() for field in fields]}
                for at, fields in wire.one("XRANGE", key, "-", "+")
            ]
        else:
            read = ("HGETALL", key) if kind == "hash" else ("ZRANGE", key, 0, -1, "WITHSCORES")
            found[part] = {"zset": _pairs(wire.one(*read))} if kind == "zset" else _pairs(wire.one(*read))
    found["machines"] = {machine: _sorted(row) for machine, row in found["machines"].items()}
    return found


def load(wire, names, state):
    for part, value in state.items():
        key = names.ledger(part)
        if isinstance(value, str):
            wire.one("SET", key, value)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, str):
                    wire.one("RPUSH", key, one)
                else:
                    wire.one("XADD", key, one["id"], *one["fields"])
        elif "zset" in value:
            wire.one("ZADD", key, *(text for member, score in value["zset"].items() for text in (score, member)))
        else:
            wire.one("HSET", key, *(text for pair in value.items() for text in pair))


def _pairs(flat):
    return dict(sorted((name.decode(), value.decode()) for name, value in zip(flat[::2], flat[1::2], strict=True)))


def _sorted(row):
    version, *groups = row.split(" ")
    parts = (group.partition(":") for group in sorted(groups))
    return " ".join([version, *(f"{name}:{','.join(sorted(body.split(',')))}" for name, _, body in parts)])


def newest(folder=GOLDEN):
    return max(folder.glob("ledger.v*.json"), key=lambda path: int(path.stem.removeprefix("ledger.v")))


def main():
    with own_server() as (_, wire):
        fill(wire, Names())
        text = json.dumps(dump(wire, Names()), indent=1, ensure_ascii=False)
        (GOLDEN / f"ledger.v{FORMAT}.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
