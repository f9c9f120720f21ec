"""Records rankings anew: ``python -m tests.scorer.ranking.recorded [part ...]``, all parts without an argument."""

from __future__ import annotations

import sys

from tests.scorer.ranking.recorded.record_file import FILE, read, write
from tests.scorer.ranking.recorded.recorder import PARTS, made

if __name__ == "__main__":
    chosen = [int(argument) for argument in sys.argv[1:]] or range(len(PARTS))
    parts = read() if FILE.exists() else [[] for _ in PARTS]
    for number in chosen:
        parts[number] = list(made(PARTS[number]))
        sys.stderr.write(f"part {number}: {len(parts[number])} rankings\n")
    write(parts)
