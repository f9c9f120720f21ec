"""Two checkouts measured in turn: the process of each, the figures of each pair, the interval of their ratio.

A side is a process whose product is that of its checkout, while ``tests.bench`` is of this one. So both are measured by
the same code, and each writes, reads and serves in its own way. A side answers questions, one JSON line each. The sides
are asked in turn, so that other work on the machine slows both; the first pair is not counted.

The interval of a ratio is one of ranks: at least 95 % of such intervals hold the median, whatever the distribution is.
Fewer than six pairs give less; then the interval is the whole range.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[2]
CONFIDENCE = 0.95

_START = """
import sys, tests.bench
tests.bench.__path__[:] = [sys.argv[1]]
from tests.bench.pairs import answer_questions
answer_questions(*sys.argv[2:])
"""


class Ratio(NamedTuple):
    """The median of some ratios and its interval."""

    middle: float
    low: float
    high: float

    def __str__(self):
        return f"{self.middle:.2f} [{self.low:.2f}, {self.high:.2f}]"


def read_options(doc, **defaults):
    """Read the options of a bench: each is of its default's type, False is a switch."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        kind = {"type": type(default), "default": default}
        if isinstance(default, list):
            kind |= {"type": type(default[0]), "nargs": "+"}
        parser.add_argument(f"--{name.replace('_', '-')}", **({"action": "store_true"} if default is False else kind))
    return parser.parse_args()


def ratio_of(ratios):
    """Return the median of the ratios of pairs and its interval of ranks.

    >>> ratio_of([1.0, 3.0, 2.0])
    Ratio(middle=2.0, low=1.0, high=3.0)
    >>> ratio_of(range(1, 10))
    Ratio(middle=5, low=2, high=8)
    """
    ordered, count = sorted(ratios), len(ratios)
    left_out, beyond = 0, 0.5**count
    while 2 * (beyond + math.comb(count, left_out + 1) * 0.5**count) <= 1 - CONFIDENCE:
        left_out += 1
        beyond += math.comb(count, left_out) * 0.5**count
    return Ratio(median(ordered), ordered[left_out], ordered[count - 1 - left_out])


class Side:
    """The process of one checkout, which makes a measurer and asks it.

    ``maker``: ``module:function`` of ``tests.bench``; the function is a context manager that yields a callable of the
    questions' keywords.
    """

    def __init__(self, tree, maker, **made_with):
        self.tree = tree
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(Path(__file__).parent), maker, json.dumps(made_with)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.tree}: ended with {self._process.wait()}")
        return json.loads(line)

    def close(self):
        """End the process and all that it started."""
        self._process.communicate()


@contextmanager
def two_sides(other, maker, **made_with):
    """Yield the side of another checkout and that of this one, each with the compiled part of its own C files."""
    for tree in (other, HERE):
        if (tree / "ops/packages/compiler.py").exists():
            subprocess.run([sys.executable, "-m", "ops.packages.compiler"], cwd=tree, check=True)
    with ExitStack() as stack:
        sides = [stack.enter_context(closing(Side(tree, maker, **made_with))) for tree in (other.resolve(), HERE)]
        yield sides[0], sides[1]


def answer_questions(maker, made_with):
    """Measure what is asked on standard input; what is printed meanwhile goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, _, function = maker.partition(":")
    make = getattr(import_module(module), function)
    with make(**json.loads(made_with)) as measure:
        for line in sys.stdin:
            print(json.dumps(measure(**json.loads(line))), file=answers)


def in_pairs(other, this, questions, pairs):
    """Return for each question the figures of both sides in each pair; in every pair all questions are asked."""
    found = [[] for _ in questions]
    for turn in range(pairs + 1):
        for position, question in enumerate(questions):
            sides = (other, this) if turn % 2 else (this, other)
            figures = {side: side.ask(**question) for side in sides}
            if turn:
                found[position].append((figures[other], figures[this]))
    return found


def ratio_between(pairs, name):
    """Return the ratio of a figure of this checkout to the other's; None where not all have it."""
    known = [(before[name], now[name]) for before, now in pairs if before.get(name) and name in now]
    return ratio_of([now / before for before, now in known]) if known and len(known) == len(pairs) else None


def told(pairs):
    """Return this checkout's medians in a line, with their ratios to the other's."""
    words = []
    for name in pairs[0][1]:
        value, ratio = median(now[name] for _, now in pairs), ratio_between(pairs, name)
        if ratio is not None:
            words.append(f"{name} {value:.{2 if value < 10 else 0}f} ({ratio})")
    if not words:
        return "not measured on both"
    failed = sum(side.get("failed", 0.0) for pair in pairs for side in pair)
    return "  ".join(words) + (f"  failed {failed:.0f}" if failed else "")
