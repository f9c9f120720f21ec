"""How much work a test does: moderate in ``make test``, four times that in ``make test-fuzz``, all of it by night.

Of a property's examples ``make test`` has a third: the checks run ``make test-fuzz`` right after it, with up to twelve
times as many, and examples were an eighth of all its processor time.

``WINDWARD_TEST_LONG`` is 1 for four times, as in CI: the same examples in each run, so that a change is judged by what
it changed. It is 2 for the largest size with other examples in each run (``make test-fuzz LONG=2``).
"""

import os

LEVEL = int(os.environ.get("WINDWARD_TEST_LONG") or 0)
LONG = LEVEL > 0
NIGHT = LEVEL > 1


def effort(moderate, most):
    """Return the number of examples, messages or steps for this run. Such a test is marked ``long``."""
    if not LONG:
        return moderate
    return most if NIGHT or most < moderate else min(4 * moderate, most)


def examples(moderate, most):
    """Return the number of examples of a property: a third of the moderate number in ``make test``."""
    return effort(moderate, most) if LONG else -(-moderate // 3)
