"""Words that mean several names."""

_SIGNS = frozenset("*?[")


def is_glob(word: str) -> bool:
    """Return whether a word is a glob.

    >>> is_glob("web-*"), is_glob("web-1")
    (True, False)
    """
    return bool(_SIGNS & set(word))
