"""Mutated queries through reading and answering, without Redis: ``python -m tests.scorer.rpc.fuzz_queries 1000000 [seed]``.

Good queries of every method are changed in every way a broken or hostile caller might: bytes, values, keys, depth,
size, text that is no UTF-8. They are answered by a service on four machines with a ledger in memory. What must hold:

- nothing is raised but what the loop answers in words: a refusal of the query, of a request, or a code of the RPC;
- what is answered has the keys of its method's result, and can be read by the Python client;
- a message is short, whatever was sent.

Prints one JSON object with the counts; fails with the first query that breaks one of them.
"""

import json
import random
import sys
import time
from collections import Counter
from copy import deepcopy

import msgspec

from schemas.rpc.envelope import Reply
from schemas.rpc.parameters import RPC
from schemas.rpc.request import InvalidRequest
from scorer.rpc.loop import read_query, refusal
from scorer.rpc.methods.records import CallError
from tests.scorer.rpc.test_results import Scorer
from tests.support.mutated import at_any_depth, in_bytes

MESSAGE_MAX = 1_200
FRESH_EVERY = 500
"""Queries answered by one service: then the ledger is empty again."""

NASTY = (
    None, True, False, 0, -1, 1, 0.0, -0.0, 1e-320, 1e16, 2**31, 2**53, 2**63, 2**64, 10**30, 1e308, -1e308, "", " ", "0",
    "1e400", "NaN", "inf", "-1", "10G", "500m", "1Ki", "9" * 400, "\u0000", "\ud800", "a" * 300, "é" * 200, "*", "machine",
    "m1", "i", "q", "prod", "batch", "windward", "kubernetes", "trimaran", "koordinator", "seed", "a in (b)", "a,b,c",
    "!a", "a notin (", "((((", "a" * 20_000, [], {}, [[]], [None], [0] * 70, ["a"] * 300, {"a": "b"}, {"": ""},
    {"a": None}, {"cpu": "x"}, {"cpu": 1e300}, {"instances": {"a": "b"}}, [{"instances": {"app": "x"}}],
    {"selector": "a=b", "weight": -1}, [{"selector": "a=b"}], [{"key": "a", "effect": "refuse"}], {"a" * 300: "b"},
    {f"k{n}": "v" for n in range(80)}, [1, 65_535, 65_536], [6379, 6379], [{}] * 3, [{"id": "x"}, {"id": "x"}],
)  # fmt: skip
KEYS = (
    "id", "cpu", "memory", "nic", "disk", "limits", "expected", "maxmemory", "ports", "priority_class", "labels", "cluster",
    "role", "cluster_masters", "kind", "data_labels", "machine", "selector", "prefer", "affinity", "anti_affinity",
    "tolerations", "profile", "window_s", "count", "top", "explain", "dry_run", "ttl_s", "all_or_nothing", "machines_max",
    "machines_min", "instances", "generation", "started_at", "swap_role_with", "names", "after", "limit", "state", "other",
    "move", "cancel_move",
)  # fmt: skip
GOOD = (
    ("place", {"id": "i", "cpu": 1, "memory": "1G", "labels": {"app": "x"}, "ports": [6379]}),
    ("place", {"cpu": "500m", "count": 3, "all_or_nothing": True, "cluster": "c", "role": "master"}),
    ("place", {"instances": [{"id": "x", "cpu": 1}, {"memory": "1G"}], "profile": "kubernetes"}),
    ("place", {"cpu": 1, "explain": True, "dry_run": True, "anti_affinity": [{"instances": {"app": "x"}}]}),
    ("rank", {"cpu": 1, "explain": True, "selector": "a in (b,c),!d", "prefer": [{"selector": "a=b", "weight": 3}]}),
    ("rank", {"memory": "1Gi", "top": 5, "profile": "trimaran", "expected": {"cpu": 2}, "limits": {"cpu": "4"}}),
    ("confirm", {"id": "i", "machine": "m1", "generation": 1}),
    ("update", {"id": "i", "machine": "", "cpu": 2, "labels": {"a": "b"}, "swap_role_with": "x"}),
    ("update", {"id": "i", "machine": "m2", "move": True, "ttl_s": "5m"}),
    ("update", {"id": "i", "machine": "m2", "move": True, "cpu": 2, "selector": "a=b", "limits": {"cpu": 3}}),
    ("update", {"id": "i", "selector": "!d", "tolerations": [{"key": "a"}], "anti_affinity": [], "prefer": []}),
    ("update", {"id": "i", "cancel_move": True}),
    ("confirm", {"id": "i", "machine": "m2", "move": 3}),
    ("release", {"id": "i"}),
    ("instances", {"labels": {"app": "x"}, "state": "reserved", "limit": 10}),
    ("machines", {"names": ["m1"], "labels": {}, "window_s": 300}),
    ("risk", {"within_s": 60, "limit": 0.1, "top": 2}),
    ("capacity", {"cpu": 1, "by": "machine", "selector": "a=b"}),
    ("cordon", {"machines": ["m1", "m*"], "selector": "machine=m0", "ahead": True}),
    ("uncordon", {"machines": ["m1"], "dry_run": True}),
    ("drain", {"machines": ["m1"], "same": ["machine"], "force": True, "apply": True, "ttl_s": 60}),
    ("plan", {"instances": [{"id": "i", "cpu": 1}, {"id": "new", "count": 2}], "prune": True, "prune_labels": {}}),
    ("rebalance", {"moves_max": 2, "same": ["machine"]}),
    ("health", {}),
)


def nasty(rng):
    return deepcopy(rng.choice(NASTY))


def good(rng):
    method, params = rng.choice(GOOD)
    query_id = f"q{rng.randrange(10**6)}"
    params = json.loads(json.dumps(params))
    if params.get("id") == "i":
        params["id"] = rng.choice("ijk")
    return {"v": 1, "id": query_id, "method": method, "deadline": rng.choice((0, 2e9)), "params": params}


def other_value(rng, query):
    """A parameter is something else, or there is one more."""
    params = query["params"]
    key = rng.choice([*params, *rng.choices(KEYS, k=3)])
    params[key] = nasty(rng)
    return query


def several_values(rng, query):
    for _ in range(rng.randint(2, 8)):
        other_value(rng, query)
    return query


def other_envelope(rng, query):
    query[rng.choice([*query, "x"])] = nasty(rng)
    return query


def other_method(rng, query):
    query["method"] = rng.choice([*RPC, "", "x", "__init__"])
    return query


def nested(rng, query):
    at_any_depth(rng, query["params"], lambda _: nasty(rng), 1)
    return query


def same(_, query):
    return query


IN_JSON = (
    other_value, other_value, several_values, other_envelope, other_method, nested, nested, same,
)  # fmt: skip


def mutated(rng):
    raw = json.dumps(rng.choice(IN_JSON)(rng, good(rng))).encode()
    return in_bytes(rng, raw) if rng.random() < 0.3 else raw


def answered(scorer, raw):
    """Read and answer a query as the loop does; return what became of it, or fail."""
    query = read_query(raw)
    if query is None:
        return "nobody to answer"
    if isinstance(query, Reply):
        assert len(query.error.message) < MESSAGE_MAX
        return f"refused:{query.error.code}"
    return _of_service(scorer, query)


def _of_service(scorer, query):
    if query.method not in scorer.service.METHODS:
        return "refused:UNIMPLEMENTED"
    try:
        result = scorer.answer(query)
    except CallError as refused:
        reply = refusal(query.id, refused.error.code, refused.error.message)
    except InvalidRequest as invalid:
        reply = refusal(query.id, "INVALID_ARGUMENT", str(invalid))
    else:
        msgspec.json.decode(result, type=RPC[query.method].result)
        return f"answered:{query.method}"
    msgspec.json.encode(reply)
    assert len(reply.error.message) < MESSAGE_MAX
    return f"refused:{reply.error.code}"


def fuzz(count, seed=1, slow_s=5.0):
    """Answer so many; return the counts, or raise with the query that broke something."""
    rng, counts, slowest = random.Random(seed), Counter[str](), (0.0, b"")
    scorer = Scorer()
    for number in range(count):
        if number % FRESH_EVERY == 0:
            scorer = Scorer()
        raw = mutated(rng)
        started = time.process_time()
        try:
            counts[answered(scorer, raw)] += 1
        except Exception as error:
            raise AssertionError(f"query {number} of seed {seed}: {raw[:2_000]!r}") from error
        slowest = max(slowest, (time.process_time() - started, raw[:300]))
        assert slowest[0] < slow_s, slowest
    return {"queries": count, "seed": seed, "slowest_ms": round(slowest[0] * 1e3, 1), "slow": repr(slowest[1]),
            "counts": dict(sorted(counts.items()))}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1), indent=1))
