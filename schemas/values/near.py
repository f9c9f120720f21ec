"""Known names that are similar to an unknown one, for error messages."""

from __future__ import annotations

from collections.abc import Iterable


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names most like one, best first; at most ``most``.

    >>> near("plcae", ["place", "plan", "rank"]), near("sim-0001", ["sim-00001", "web"])
    (['place'], ['sim-00001'])
    >>> near("zzz", ["place"])
    []
    """
    from difflib import SequenceMatcher, get_close_matches  # imported only for an unknown name

    found = get_close_matches(name, list(known), n=10 * most, cutoff=0.7)
    return sorted(found, key=lambda each: (-SequenceMatcher(None, each, name).ratio(), each))[:most]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name; "" when no known name is similar.

    >>> did_you_mean("wieght", ["weight", "over"]), did_you_mean("zzz", ["weight"])
    ('; did you mean weight?', '')
    """
    found = near(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""
