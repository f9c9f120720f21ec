"""Records anew: ``python -m tests.scorer.ranking.recorded rankings|wider [part ...]``, all parts without a number."""

import sys

from tests.scorer.ranking.recorded import recorder, wider
from tests.scorer.ranking.recorded.record_file import FILE, WIDER, read, write

if __name__ == "__main__":
    of = {"rankings": (recorder, FILE), "wider": (wider, WIDER)}
    module, file = of[sys.argv[1]]
    chosen = [int(argument) for argument in sys.argv[2:]] or range(len(module.PARTS))
    parts = read(file) if file.exists() else [[] for _ in module.PARTS]
    for number in chosen:
        with recorder.named_as_then():
            parts[number] = list(module.made(module.PARTS[number]))
        sys.stderr.write(f"part {number}: {len(parts[number])}\n")
    write(parts, file)
