"""Mutated recordings: ``python -m tests.ops.replay.fuzz_recorded 20000 [seed]``.

The entries of a small recording are changed by the value and by the byte, and framed again with a right checksum.
Whatever comes, reading gives a workload that can be simulated, or the one error that says what is wrong.
"""

import json
import random
import struct
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from ops.record.entry import HEADER, Decision, Gap, encode
from ops.record.figures import pack
from ops.replay.recorded.recorded import read_recorded
from ops.replay.simulator.policies import AsRecorded
from ops.replay.simulator.simulation import simulate
from ops.replay.workload import WorkloadError
from tests.ops.replay.recordings import ORIGIN_S, change, cpu, ended, load, record, state
from tests.scorer.rpc.fuzz_queries import in_bytes, nasty

MESSAGE_MAX = 1_500
A, B = record(1, -60, "m0"), record(2, 2, "m1", kind="redis")
ENTRIES = [
    msgspec.msgpack.decode(encode(one))
    for one in (
        state(0, ["m0", "m1"], [A], pairs=["m0\ti1"], operator={"*": b'{"share":{"cpu":0.9}}', "m0": b'{"cordon":1}'}),
        change(3, B, usage=pack(cpu([0, 0], [0, 1], [1.0, 2.0])), load=load([0, 1, 2], [[2.0] * 3, [1.0] * 3])),
        change(
            6, ended(B, 5), gaps=[Gap("ledger", ORIGIN_S, ORIGIN_S + 60, why="x")],
            decisions=[Decision(stamp=f"{int(ORIGIN_S) * 1000}-0", answer=b'{"missing":1}')],
        ),
    )
]  # fmt: skip
VALUES = (b"", b"{}", b"\x00" * 8, b"\xff" * 8, 2**63, -1, 1e308, float("nan"), float("inf"), "m0\t", [], {})


def mutated(rng: random.Random) -> bytes:
    """A file with other values at any depth, or other bytes in its columns."""
    entries: Any = [json_like(one) for one in ENTRIES]
    for _ in range(rng.randint(0, 3)):
        at, key = entries, rng.randrange(len(entries))
        while isinstance(at[key], dict | list) and at[key] and rng.random() < 0.85:
            at = at[key]
            key = rng.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        if isinstance(at[key], bytes) and rng.random() < 0.5:
            at[key] = in_bytes(rng, at[key])
        else:
            at[key] = rng.choice(VALUES) if rng.random() < 0.5 else nasty(rng)
    raw = HEADER
    for entry in entries:
        try:
            content = zlib.compress(msgspec.msgpack.encode(entry))
        except (ValueError, OverflowError, msgspec.EncodeError):
            content = zlib.compress(b"\xc0")
        raw += struct.pack("<II", len(content), zlib.crc32(content)) + content
    return raw


def json_like(value: Any) -> Any:
    """A copy of maps and lists."""
    if isinstance(value, dict):
        return {key: json_like(each) for key, each in value.items()}
    return [json_like(each) for each in value] if isinstance(value, list) else value


def fuzz(count: int, seed: int = 1) -> Counter[str]:
    """Read so many; return the counts, or raise with what broke something."""
    rng, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "2023-11-14T22-0001.record"
        for number in range(count):
            raw = mutated(rng)
            path.write_bytes(raw)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    world, missing = read_recorded(Path(folder), ORIGIN_S, ORIGIN_S + 600)
                    missing.lines(world)
                    if number % 5 == 0:
                        simulate(world, AsRecorded())
            except WorkloadError as error:
                assert len(str(error)) < MESSAGE_MAX, str(error)
                counts["refused"] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}, number {number}") from error
            else:
                counts["read"] += 1
    return counts


if __name__ == "__main__":
    print(json.dumps(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1), indent=1))
