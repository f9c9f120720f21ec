"""Known names that are similar to an unknown one, for error messages."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name; "" when no known name is similar.

    >>> did_you_mean("wieght", ["weight", "over"]), did_you_mean("zzz", ["weight"])
    ('; did you mean weight?', '')
    """
    from difflib import SequenceMatcher, get_close_matches  # imported only for an unknown name

    similar = get_close_matches(name, list(known), n=30, cutoff=0.7)
    found = sorted(similar, key=lambda each: (-SequenceMatcher(None, each, name).ratio(), each))[:3]
    return f"; did you mean {' or '.join(found)}?" if found else ""
