"""Mutated recordings, loaded and played: ``python -m tests.streams.load_generator.fuzz_recording 100000``.

A small trace is changed as a file (bytes, its end), as an archive whose checksums are right again (arrays of another
type, shape or value, gone or renamed) and as text (cells of a ``.csv``). What must hold, whatever comes:

- `RecordingError`, or a trace; never another exception;
- a trace is played: its samples are messages that the stream app reads.

Prints one JSON object with the counts; fails with the first thing that does not hold.
"""

import gzip
import io
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from schemas.messages.sample import Rejected, decode
from streams.load_generator.source.messages import Messages
from streams.load_generator.source.recording_file import Defaults, Recording, RecordingError, load_trace
from streams.load_generator.source.source import Replay

NOW_S = 1_790_000_000.0
DEFAULTS = Defaults(cores=4.0, memory=8e9, nic=1.25e8)
VALUES: tuple[Any, ...] = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-320, 1e16, 1e308, 101.0, 2.0**53, -(2.0**62))
CELLS = ("", "nan", "inf", "-1", "1e308", "1e400", "x", "\x00", '"', "m1", "0x10", "1_0", "٣", " 5 ", "5,5", "5\n5")


def arrays() -> dict[str, Any]:
    """A good trace of two machines."""
    cpu = np.array([[5.0, 50.0, 20.0], [1.0, np.nan, 3.0]])
    return {
        "machine": np.array(["m1", "m2"]),
        "ts": np.arange(3) * 300.0,
        "cpu_pct": cpu,
        "mem_pct": cpu / 2,
        "rx_kbps": cpu * 10,
        "tx_kbps": cpu,
        "cores": np.array([4.0, 8.0]),
        "mem_capacity_mib": np.array([4096.0, 8192.0]),
        "phase_s": np.array([0.0, 17.0]),
    }


def mutated_arrays(rng: Random) -> dict[str, Any]:
    """A trace with one to three of its arrays changed."""
    found = arrays()
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(found))
        values = found[name]
        match rng.randint(0, 8):
            case 0:
                del found[name]
                return found or {"a": np.zeros(1)}
            case 1:
                found[rng.choice(["slot_s", "cell_s", "other", ""]) or "x"] = found.pop(name)
            case 2:
                found[name] = values.reshape(-1)[: rng.randint(0, values.size)]
            case 3:
                found[name] = values[None] if rng.random() < 0.5 else np.stack([values, values])
            case 4 if values.dtype.kind in "fi":
                found[name] = values.astype(rng.choice(["U8", "S4", "c16", "f2", "?", "u1"]), casting="unsafe")
            case 5:
                found[name] = np.array(rng.choice(VALUES))
            case 6 if values.dtype.kind == "f" and values.size:
                changed = values.copy()
                changed.reshape(-1)[rng.randrange(changed.size)] = rng.choice(VALUES)
                found[name] = changed
            case 7:
                found[name] = values.T.copy()
            case _:
                found["machine"] = np.array([rng.choice(["", "m1", "a b", "é" * 200, "x\n", "ok"]), "m2"])
        if not found:
            break
    return found


def mutated_bytes(rng: Random, raw: bytes) -> bytes:
    """Some bytes changed, put in, taken out, or the end cut off."""
    changed = bytearray(raw)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed) + 1)
        match rng.randint(0, 3):
            case 0:
                changed[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                changed[at:at] = rng.randbytes(rng.randint(1, 8))
            case 2:
                del changed[at : at + rng.randint(1, 40)]
            case _:
                changed[at : at + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff"])
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.1 else changed)


def mutated_csv(rng: Random) -> bytes:
    """A ``.csv`` with some cells changed, lines repeated or gone."""
    lines = [["machine", "ts", "cpu_pct", "mem_pct", "rx_kbps", "tx_kbps", "cores"]]
    lines += [[m, str(at * 300), "5", "6", "70", "8", "4"] for m in ("m1", "m2") for at in range(3)]
    for _ in range(rng.randint(1, 4)):
        line = rng.choice(lines)
        match rng.randint(0, 3):
            case 0 | 1:
                line[rng.randrange(len(line))] = rng.choice(CELLS)
            case 2:
                lines.insert(rng.randrange(len(lines)), list(rng.choice(lines)))
            case _:
                lines.remove(line)
        if not lines:
            return b""
    return "\n".join(",".join(line) for line in lines).encode()


def mutation(rng: Random) -> tuple[str, bytes]:
    """The name's end and the content of one changed recording."""
    kind = rng.choice(["npz", "bytes", "csv", "csv.gz"])
    if kind in ("npz", "bytes"):
        stream = io.BytesIO()
        save: Any = np.savez if rng.random() < 0.5 else np.savez_compressed
        save(stream, **(mutated_arrays(rng) if kind == "npz" else arrays()))
        return ".npz", stream.getvalue() if kind == "npz" else mutated_bytes(rng, stream.getvalue())
    raw = mutated_csv(rng)
    if kind == "csv":
        return ".csv", mutated_bytes(rng, raw) if rng.random() < 0.3 and raw else raw
    packed = gzip.compress(raw, 1)
    return ".csv.gz", mutated_bytes(rng, packed) if rng.random() < 0.5 else packed


def play(path: Path) -> int:
    """Load a recording and publish an interval of it; return how many samples that made."""
    trace = load_trace(path, DEFAULTS)
    recording = Recording(trace, origin_s=NOW_S - 100)
    replay = Replay(recording, 10.0, 1.0)
    messages = Messages(recording.machines, int(NOW_S), 10.0, classes=True, extra_labels={})
    made = 0
    for block in replay.blocks:
        for record in messages.facts(block.rows.tolist(), NOW_S):
            decode(record.value)
        number = replay.last_full(NOW_S)
        for one in messages.samples(block.rows, replay.ends_s(number, block), replay.columns(number, block), 1):
            if one is not None:
                decode(one.value)
                made += 1
    return made


def fuzz(recordings: int, seed: int, folder: Path) -> Counter[str]:
    """Return how many were refused and how many played; raises what is neither."""
    rng, counts = Random(seed), Counter[str]()
    for number in range(recordings):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                suffix, raw = mutation(rng)
                path = folder / f"a{suffix}"
                path.write_bytes(raw)
                counts["played" if play(path) else "silent"] += 1
        except RecordingError:
            counts["refused"] += 1
        except Rejected as error:
            raise AssertionError(f"recording {number} of seed {seed} makes {error}") from error
        except Exception as error:
            raise AssertionError(f"recording {number} of seed {seed}: {type(error).__name__}: {error}") from error
    return counts


if __name__ == "__main__":
    started_s = time.monotonic()
    amount, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as name:
        result = dict(fuzz(amount, start, Path(name)))
    print(json.dumps({"recordings": amount, **result, "seconds": round(time.monotonic() - started_s)}))  # noqa: T201
