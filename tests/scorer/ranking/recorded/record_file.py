"""The file of the recorded rankings: columns of all of them, one after the other, compressed."""

import lzma
from pathlib import Path

import numpy as np

from tests.scorer.ranking.recorded.recorder import Found

FILE = Path(__file__).with_name("rankings.xz")
WIDER = Path(__file__).with_name("wider.xz")
_COLUMNS = (("rows", "<i2"), ("totals", "<f8"), ("raws", "<f8"))


def write(parts, file=FILE):
    every = [found for part in parts for found in part]
    columns = [np.array([len(part) for part in parts], "<u4")]
    columns += [np.array([len(getattr(found, name)) for found in every], "u1") for name, _ in _COLUMNS]
    columns += [np.array([one for found in every for one in getattr(found, name)], kind) for name, kind in _COLUMNS]
    columns.append(np.array([found.spread for found in every], "<f4"))
    digests = b"".join((found.refused or bytes(8)) + (found.batch or bytes(8)) for found in every)
    sizes = np.array([column.size for column in columns], "<u4")
    file.write_bytes(lzma.compress(sizes.tobytes() + b"".join(map(np.ndarray.tobytes, columns)) + digests, preset=9))


def read(file=FILE):
    raw = lzma.decompress(file.read_bytes())
    kinds = ["<u4", *["u1"] * len(_COLUMNS), *(kind for _, kind in _COLUMNS), "<f4"]
    sizes, at = np.frombuffer(raw, "<u4", len(kinds)), 4 * len(kinds)
    columns = []
    for kind, size in zip(kinds, sizes.tolist(), strict=True):
        columns.append(np.frombuffer(raw, kind, size, at))
        at += columns[-1].nbytes
    of_part, *rest = columns
    lengths, values, spread = rest[: len(_COLUMNS)], rest[len(_COLUMNS) : -1], rest[-1]
    each = [_split(of, length) for of, length in zip(values, lengths, strict=True)]
    found = []
    for number in range(spread.size):
        rows, totals, raws = (next(one) for one in each)
        digests = raw[at + 16 * number : at + 16 * number + 16]
        found.append(Found(rows, totals, digests[:8], raws, float(spread[number]), digests[8:]))
    ends = np.cumsum(of_part).tolist()
    return [found[end - count : end] for end, count in zip(ends, of_part.tolist(), strict=True)]


def _split(values, lengths):
    at = 0
    for length in lengths.tolist():
        yield tuple(values[at : at + length].tolist())
        at += length
